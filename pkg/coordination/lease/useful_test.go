package lease

import (
	"math"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func TestOvertaken(t *testing.T) {
	node := func(reachable bool, term cluster.Term, holder cluster.NodeName) cluster.Observation {
		return cluster.Observation{
			Nodes: []cluster.Node{{Name: "c", Reachable: reachable, Lease: cluster.Lease{Term: term, Holder: holder}}},
		}
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

func TestMoved(t *testing.T) {
	record := cluster.LeaseVoters{Token: "t1", Names: []cluster.NodeName{"a", "b", "c"}}
	there := func(obs cluster.Observation, names ...cluster.NodeName) cluster.Observation {
		for _, n := range names {
			obs.Nodes = append(obs.Nodes, cluster.Node{Name: n, Reachable: true, LeaseVoters: obs.LeaseVoters})
		}
		return obs
	}
	next := cluster.Observation{
		Token: "t2", LeaseVoters: cluster.LeaseVoters{Token: "t2", Names: []cluster.NodeName{"b", "c", "d"}},
	}
	serving := next
	serving.Leader = 7
	unreachable := there(next, "b", "c")
	unreachable.Nodes[1].Reachable = false
	equal(t, "the same incarnation",
		moved(record, cluster.Observation{Token: "t1", Leader: 1, LeaseVoters: record}), false)
	equal(t, "one of its lease voters has gone on", moved(record, there(next, "b")), false)
	equal(t, "one of them does not answer", moved(record, unreachable), false)
	equal(t, "one that is no lease voter there", moved(record, there(next, "a", "b")), false)
	equal(t, "a majority has", moved(record, there(next, "b", "c")), true)
	equal(t, "the other one serves", moved(record, serving), true)
}

func TestUseful(t *testing.T) {
	record := cluster.LeaseVoters{Token: "t1", Names: []cluster.NodeName{"a", "b"}}
	obs := cluster.Observation{Token: "t1", Leader: 1, LeaseVoters: record}
	equal(t, "a lease voter's own", Useful(3, record, "a", obs), true)
	equal(t, "of one that is no lease voter", Useful(3, record, "c", obs), false)
	obs.Nodes = []cluster.Node{{Name: "b", Reachable: true, Lease: cluster.Lease{Term: 4}}}
	equal(t, "one that is overtaken", Useful(3, record, "a", obs), false)
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
