package render

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
)

// Who published last is named as the coordinator only while it may still be one.
func TestWhoCoordinates(t *testing.T) {
	voted := cluster.Observation{
		Nodes: []cluster.Node{{Name: "b", Lease: cluster.Lease{Term: 3, Holder: "b"}}, {
			Name: "c", Lease: cluster.Lease{Term: 4, Holder: "a"},
		}},
	}
	none := []plan.Hold{{Reason: plan.NoCoordinator}}
	for name, tt := range map[string]struct {
		r    reconcile.Report
		age  time.Duration
		want string
	}{
		"one that holds the lease": {reconcile.Report{Coordinator: "a", Term: 4}, StaleAge, "a (term 4)"},
		"one that bootstraps":      {reconcile.Report{Coordinator: "a"}, time.Second, "a"},
		"one that has gone": {
			reconcile.Report{Coordinator: "a", Term: 4}, StaleAge + 1, "none (last seen: a)",
		},
		"one with a long operation": {
			reconcile.Report{Coordinator: "a", Term: 4, Operation: "etcdadm x"}, StaleAge, "a (term 4)",
		},
		"one that has gone in an operation": {
			reconcile.Report{Coordinator: "a", Term: 4, Operation: "etcdadm x"}, StaleAge + 1,
			"none (last seen: a)",
		},
		"one without a lease": {
			reconcile.Report{Coordinator: "b", Holds: none, Observation: voted}, time.Second, "none (last seen: a)",
		},
		"one without a lease, of nobody": {reconcile.Report{Coordinator: "b", Holds: none}, time.Second, "none"},
		"nothing":                        {reconcile.Report{}, time.Hour, "none"},
	} {
		if got := Coordinator(tt.r, tt.age); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
