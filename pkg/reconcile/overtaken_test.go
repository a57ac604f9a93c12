package reconcile

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/plan"
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

func TestOvertaken(t *testing.T) {
	node := func(reachable bool, term cluster.Term, holder cluster.NodeName) cluster.Observation {
		return cluster.Observation{Nodes: []cluster.Node{{Name: "c", Reachable: reachable, Lease: cluster.Lease{Term: term, Holder: holder}}}}
	}
	equal(t, "the same term", overtaken(3, "a", node(true, 3, "a")), false)
	equal(t, "the same term, in which it has not voted", overtaken(3, "a", node(true, 3, "")), false)
	equal(t, "the same term of another", overtaken(3, "a", node(true, 3, "b")), true)
	released := node(true, 3, "b")
	released.Nodes[0].Lease.Released = true
	equal(t, "the same term of another, who gave it back", overtaken(3, "a", released), true)
	equal(t, "an earlier one of another", overtaken(3, "a", node(true, 2, "b")), false)
	equal(t, "a later one", overtaken(3, "a", node(true, 4, "")), true)
	equal(t, "one that nobody can pass", overtaken(3, "a", node(true, math.MaxUint64, "")), false)
	equal(t, "a later one of a node that does not answer", overtaken(3, "a", node(false, 4, "")), false)
}

// TestSomebodyElsesRestoreIsFollowedByANewLease makes sure that the lease of what
// ran before does not stay in use: no electors' record of the restored cluster
// could be written with it.
func TestSomebodyElsesRestoreIsFollowedByANewLease(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.pass(time.Second)
		n := w.count("acquire from [a]")
		w.change(func() {
			w.obs.Token, w.obs.Electors.Token = "t2", "t2"
			w.obs.Nodes[0].Electors = cluster.Electors{} // a majority of them is not seen yet
		})
		w.pass(2 * pauseIdle)
		if w.count("acquire from [a]") == n {
			t.Error("it goes on with the lease of another incarnation")
		}
	})
}

func TestMoved(t *testing.T) {
	lease := cluster.Electors{Token: "t1", Names: []cluster.NodeName{"a", "b", "c"}}
	there := func(obs cluster.Observation, names ...cluster.NodeName) cluster.Observation {
		for _, n := range names {
			obs.Nodes = append(obs.Nodes, cluster.Node{Name: n, Reachable: true, Electors: obs.Electors})
		}
		return obs
	}
	next := cluster.Observation{Token: "t2", Electors: cluster.Electors{Token: "t2", Names: []cluster.NodeName{"b", "c", "d"}}}
	serving := next
	serving.Leader = 7
	silent := there(next, "b", "c")
	silent.Nodes[1].Reachable = false
	equal(t, "the same incarnation", moved(lease, cluster.Observation{Token: "t1", Leader: 1, Electors: lease}), false)
	equal(t, "one of its electors has gone on", moved(lease, there(next, "b")), false)
	equal(t, "one of them does not answer", moved(lease, silent), false)
	equal(t, "one that is no elector there", moved(lease, there(next, "a", "b")), false)
	equal(t, "a majority has", moved(lease, there(next, "b", "c")), true)
	equal(t, "the other one serves", moved(lease, serving), true)
}

func TestWithoutElectorsTheHoldSaysWhy(t *testing.T) {
	for _, tc := range []struct {
		term cluster.Term
		want string
	}{{7, "no electors are known"}, {math.MaxUint64, "etcdadm term reset"}} {
		run(t, func(t *testing.T, w *world) {
			w.obs.Electors = cluster.Electors{}
			w.obs.Nodes[0].Lease.Term = tc.term
			w.pass(time.Second)
			h := w.last(t).Holds[0]
			if h.Rule != plan.NoCoordinator || !strings.Contains(h.Text, tc.want) {
				t.Errorf("term %d: %s: %s", tc.term, h.Rule, h.Text)
			}
		})
	}
}
