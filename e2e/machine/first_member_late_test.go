//go:build e2e

package machine

import (
	"strings"
	"testing"
	"time"
)

// cloud-init runs a join once. Machines are made at once, so that the first member
// may be there much later than those that join it, and they ask at the same time.
func TestFirstMemberIsLate(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	first := hosts[0]
	first.ok("init", "phase", "certificates")
	var joins []*running
	began := time.Now()
	for _, h := range hosts[1:] {
		h.copyCA(first)
		h.vars["ETCDADM_MEMBERSHIP_TIMEOUT"] = "5m"
		joins = append(joins, h.begin("join", first.clientURL()))
	}
	for _, j := range joins {
		j.says("waiting: the cluster does not answer")
	}
	first.ok("init")
	for _, j := range joins {
		if err := j.cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, j.said())
		}
		// Once, and again each minute.
		if n := strings.Count(j.said(), "waiting: the cluster does not answer"); n > 2+int(time.Since(began).Minutes()) {
			t.Errorf("it says %d times why it waits: %s", n, j.said())
		}
	}
	first.wantVoters("a", "b", "c")
}
