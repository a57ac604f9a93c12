package render

import (
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
)

// While a cluster of the existing tool is taken over its daemons run where none of ours is known.
func TestADaemonIsNotMissedWhereTheExistingOneRuns(t *testing.T) {
	r := reconcile.Report{Observation: cluster.Observation{
		Members: []cluster.Member{
			{Name: "a", Healthy: true}, {Name: "b", Healthy: true}, {PeerURLs: []string{"http://c:2380"}},
		},
		Nodes: []cluster.Node{{Name: "a", Reachable: true}},
	}}
	if list := unmanaged(&r, now); len(list) != 1 || !strings.HasPrefix(list[0], "no daemon is known for member b") {
		t.Errorf("%q", list)
	}
	for _, reason := range []plan.Reason{plan.TakingOver, plan.ExistingDaemon} {
		r.Holds = []plan.Hold{{Reason: reason}}
		if list := unmanaged(&r, now); len(list) > 0 {
			t.Errorf("%s: %q", reason, list)
		}
	}
}

// A person's command has seen no node before, which says nothing of the node.
func TestAPersonHasNeverSeenANode(t *testing.T) {
	r := reconcile.Report{At: now, Observation: cluster.Observation{
		Members: []cluster.Member{{Name: "a", Healthy: true}, {Name: "b", Healthy: true}},
		Nodes:   []cluster.Node{{Name: "a", Reachable: true}, {Name: "b"}},
	}}
	for observer, want := range map[cluster.NodeName][2]string{
		"": {"answer, so nothing", " no\n"}, "a": {"answer (never seen), so nothing", " no, never seen\n"},
	} {
		r.Observation.Observer = observer
		var b strings.Builder
		if err := NewStatus(&r, now).Write(&b, now.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(b.String(), part) {
				t.Errorf("by %q: no %q in\n%s", observer, part, b.String())
			}
		}
	}
}
