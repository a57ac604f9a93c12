package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// sizes remembers how much each daemon has said.
func sizes(c *harness.Cluster) map[string]int {
	said := map[string]int{}
	for _, n := range c.Nodes() {
		said[n.Name] = n.LogSize()
	}
	return said
}

// anySays waits until any of the daemons, whoever coordinates now, has said the words.
func anySays(c *harness.Cluster, said map[string]int, words string) {
	c.Eventually(harness.Soon, "a daemon says "+words, func(context.Context) error {
		for _, n := range c.Nodes() {
			if strings.Contains(n.Said(said[n.Name]), words) {
				return nil
			}
		}
		return fmt.Errorf("none says so")
	})
}

// allServe waits until that many members, and none else, serve equally well to the coordinator,
// which prefers to keep those that do it best. Disks that are slow are so for all where the
// machine is.
func allServe(c *harness.Cluster, count int) {
	c.Eventually(harness.Soon, fmt.Sprintf("%d members that serve", count), func(context.Context) error {
		r, err := c.Status()
		if err != nil {
			return err
		}
		for _, m := range r.Observation.Members {
			if m.Learner || !m.Healthy || m.Condition != cluster.Serving && m.Condition != cluster.Slow ||
				m.Condition != r.Observation.Members[0].Condition {
				return fmt.Errorf("%s is %s: %s", m.Name, m.Condition, m.Why)
			}
		}
		if n := len(r.Observation.Members); n != count {
			return fmt.Errorf("there are %d members", n)
		}
		return nil
	})
}

// needsNamespaces skips a test where there can be no network namespaces. CI refuses that.
func needsNamespaces(t *testing.T) {
	t.Helper()
	if err := harness.NetError(); err != nil {
		t.Skipf("network namespaces need root and iproute2: %v", err)
	}
}
