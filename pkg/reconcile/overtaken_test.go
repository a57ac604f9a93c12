package reconcile

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
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
	equal(t, "a later one of a node that does not answer", overtaken(3, "a", node(false, 4, "")), false)
}
