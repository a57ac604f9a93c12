//go:build e2e

package machine

import (
	"strings"
	"testing"
)

// cloud-init runs a join once. Machines are made at once, so that the first member
// may be there much later than those that join it, and they ask at the same time.
func TestFirstMemberIsLate(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	first := hosts[0]
	first.ok("init", "phase", "certificates")
	var joins []*running
	for _, h := range hosts[1:] {
		h.copyCA(first)
		h.vars["ETCDADM_MEMBERSHIP_TIMEOUT"] = "" // as it is by default
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
		if n := strings.Count(j.said(), "waiting: the cluster does not answer"); n > 4 {
			t.Errorf("it says %d times why it waits: %s", n, j.said())
		}
	}
	first.wantVoters("a", "b", "c")
}
