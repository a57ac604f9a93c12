package reconcile

import (
	"math"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// The hold about a term that nobody can follow names the term to go back to, where
// those that answer know it.
func TestAPoisonedTermNamesTheWayBack(t *testing.T) {
	names := []cluster.NodeName{"a", "b", "c"}
	node := func(name cluster.NodeName, term cluster.Term) cluster.Node {
		return cluster.Node{Name: name, Reachable: true, Lease: cluster.Lease{Term: term}, LeaseVoters: cluster.LeaseVoters{
			Token: "t1", Names: names,
		}}
	}
	unreachable := node("c", 9)
	unreachable.Reachable = false
	spare := node("d", 3)
	spare.LeaseVoters = cluster.LeaseVoters{}
	for name, tt := range map[string]struct {
		nodes []cluster.Node
		want  string
	}{
		"one lease voter knows": {
			[]cluster.Node{node("a", math.MaxUint64), node("b", math.MaxUint64), node("c", 9), spare}, "--to=9",
		},
		"it does not answer": {
			[]cluster.Node{node("a", math.MaxUint64), node("b", math.MaxUint64), unreachable}, "--to=TERM",
		},
		"all have seen the term": {[]cluster.Node{node("a", math.MaxUint64), node("b", math.MaxUint64), spare}, "--to=TERM"},
	} {
		t.Run(name, func(t *testing.T) {
			err := noLeaseVoters(cluster.Observation{Nodes: tt.nodes})
			if !strings.Contains(err.Error(), `"etcdadm term reset `+tt.want+`"`) {
				t.Errorf("it says %v", err)
			}
		})
	}
}
