package plan_test

import (
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// TestAStartEndsAPromise: a node that runs a member has nothing left to begin, whatever
// it had promised before.
func TestAStartEndsAPromise(t *testing.T) {
	obs := cluster.Observation{Token: "t1", Nodes: []cluster.Node{{
		Name: "a", Reachable: true, Prepared: &cluster.Prepared{Token: "t0"},
	}}}
	after := plan.Predict(obs, &plan.MemberStart{Node: "a", Token: "t1", Mode: plan.StartJoin})
	if n := after.Nodes[0]; n.Prepared != nil || n.Assigned == nil || n.Assigned.Token != "t1" {
		t.Errorf("it has promised %+v, and is assigned %+v", n.Prepared, n.Assigned)
	}
	if obs.Nodes[0].Prepared == nil {
		t.Error("the observation was changed")
	}
}
