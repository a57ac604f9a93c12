package plan_test

import (
	"testing"
	"time"

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

// A marker that is older than the record is written again, once, also where the record is
// from a clock that is ahead.
func TestAMarkerIsWrittenOnce(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	mark := &plan.IncarnationMark{Token: "t1"}
	for _, recorded := range []time.Time{now.Add(-time.Minute), now.Add(time.Hour)} {
		obs := cluster.Observation{At: now, Token: "t1", Store: cluster.Store{
			Reachable: true, Created: now.Add(-time.Hour),
			Incarnations: []cluster.Incarnation{{Number: 1, Token: "t1", At: recorded}},
		}}
		if plan.Done(obs, mark) {
			t.Errorf("recorded at %s: the marker is older, and counts as written", recorded)
		}
		if !plan.Done(plan.Predict(obs, mark), mark) {
			t.Errorf("recorded at %s: the marker would be written again and again", recorded)
		}
	}
}
