//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// A machine that is left without the others coordinates nothing, and its metrics report that
// etcd has no leader: the alert on that needs no coordinator.
func TestMetricsOfALostQuorum(t *testing.T) {
	t.Parallel()
	const port = 8081 // which no flag asks for
	c := start(t)
	c.Bootstrap(3, v36, "a", "b", "c")
	a := c.Node("a")
	says := func(what, line string) {
		c.Eventually(harness.Soon, what, func(context.Context) error {
			_, page, err := fetch(t, browser(t, c, a), fmt.Sprintf("http://%s:%d/metrics", a.Address, port))
			if err == nil && !strings.Contains(page, line+"\n") {
				err = fmt.Errorf("no line %s", line)
			}
			return err
		})
	}
	metric := "etcdadm_etcd_has_leader{cluster=\"" + a.Cluster + "\"} "
	says("a leader", metric+"1")
	c.Node("b").Kill()
	c.Node("c").Kill()
	says("no leader", metric+"0")
	c.Start("b")
	says("a leader again", metric+"1")
}
