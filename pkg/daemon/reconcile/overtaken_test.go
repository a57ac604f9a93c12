package reconcile

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

func TestANodeThatHasSeenALaterTermIsFollowedByANewTerm(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.pass(time.Second)
		n := w.count("acquire from [a]")
		w.change(func() { w.obs.Nodes[0].Lease = cluster.Lease{Term: 9} })
		w.pass(2 * pauseIdle)
		if w.count("acquire from [a]") == n {
			t.Error("it goes on in a term that a node refuses")
		}
	})
}

// TestSomebodyElsesRestoreIsFollowedByANewLease makes sure that the lease of what
// ran before does not stay in use: no lease voters' record of the restored cluster
// could be written with it.
func TestSomebodyElsesRestoreIsFollowedByANewLease(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.pass(time.Second)
		n := w.count("acquire from [a]")
		w.change(func() {
			w.obs.Token, w.obs.LeaseVoters.Token = "t2", "t2"
			w.obs.Nodes[0].LeaseVoters = cluster.LeaseVoters{} // a majority of them is not seen yet
		})
		w.pass(2 * pauseIdle)
		if w.count("acquire from [a]") == n {
			t.Error("it goes on with the lease of another incarnation")
		}
	})
}

func TestWithoutLeaseVotersTheHoldSaysWhy(t *testing.T) {
	for _, tc := range []struct {
		term cluster.Term
		want string
	}{{7, "no lease voters are known"}, {math.MaxUint64, "etcdadm term reset"}} {
		run(t, func(t *testing.T, w *world) {
			w.obs.LeaseVoters = cluster.LeaseVoters{}
			w.obs.Nodes[0].Lease.Term = tc.term
			w.pass(time.Second)
			h := w.last(t).Holds[0]
			if h.Reason != plan.NoCoordinator || !strings.Contains(h.Text, tc.want) {
				t.Errorf("term %d: %s: %s", tc.term, h.Reason, h.Text)
			}
		})
	}
}
