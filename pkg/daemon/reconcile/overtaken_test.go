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
		w.pass(2 * idlePause)
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
		w.pass(2 * idlePause)
		if w.count("acquire from [a]") == n {
			t.Error("it goes on with the lease of another incarnation")
		}
	})
}

func TestWithoutLeaseVotersTheHoldSaysWhy(t *testing.T) {
	for _, tc := range []struct {
		term   cluster.Term
		marked bool // a coordinator has been at work
		want   string
	}{
		{7, true, "no lease voters are known"},
		{7, false, "the nodes have not agreed yet"},
		{math.MaxUint64, true, "etcdadm term reset"},
		{math.MaxUint64, false, "etcdadm term reset"},
	} {
		run(t, func(t *testing.T, w *world) {
			w.obs.LeaseVoters = cluster.LeaseVoters{}
			if !tc.marked {
				w.unmarked()
				w.obs.Nodes[0].LeaseVoters.Term = 1
			}
			w.obs.Nodes[0].Lease.Term = tc.term
			w.pass(time.Second)
			h := w.last(t).Holds[0]
			if h.Reason != plan.NoCoordinator || !strings.Contains(h.Text, tc.want) {
				t.Errorf("term %d, marked %t: %s: %s", tc.term, tc.marked, h.Reason, h.Text)
			}
		})
	}
}
