package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// leads plays without other faults until a node has the lease, and returns it.
func (w *world) leads(t *testing.T) *node {
	t.Helper()
	for range 40 {
		w.reseed()
		w.tick()
		w.actAll()
		if w.broken != nil {
			t.Fatal(*w.broken)
		}
		if held := w.holders(); len(held) > 0 {
			return held[0]
		}
		w.step++
		w.pass(time.Second)
	}
	return nil
}

// TestTheNextCampaignsWhereTheLowestCannot makes sure that who coordinates is decided as
// daemons decide it: the next one by name, when the first does not or cannot.
func TestTheNextCampaignsWhereTheLowestCannot(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault func(w *world, a *node)
	}{
		{"its machine is down", func(_ *world, a *node) { a.shutdown() }},
		{"its disk hangs", func(w *world, a *node) { a.hung, a.hungTo = w.now, 1<<30 }},
		{"its machine stands still", func(w *world, a *node) { a.clock.frozen = w.now }},
		{"its calls do not get through", func(w *world, a *node) {
			for _, o := range w.nodes[1:] {
				w.cut(a, o, false)
			}
		}},
		{"it is cut off", func(w *world, _ *node) { w.partition(1) }},
		{"nobody has voted since the start, and its disk hangs", func(w *world, a *node) {
			for _, n := range w.nodes {
				n.vote = nil
			}
			a.hung, a.hungTo = w.now, 1<<30
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := running(t, 3, 0)
			w.quiet = true // no other faults
			a, b := w.nodes[0], w.nodes[1]
			if by := w.leads(t); by != a {
				t.Fatalf("%v leads, not the lowest", by)
			}
			tt.fault(w, a)
			w.pass(10 * time.Second)
			if by := w.leads(t); by != b {
				t.Errorf("%+v leads, not the next", by)
			}
		})
	}
}

// TestASpareLeavesTheLeaseAlone makes sure that a node that is no lease voter does
// nothing beside the one that coordinates.
func TestASpareLeavesTheLeaseAlone(t *testing.T) {
	w := running(t, 3, 1)
	w.quiet = true
	by, spare := w.leads(t), w.nodes[3]
	got := w.act(spare)
	if got.acted || got.led() || spare.memory != nil || !slices.Contains(w.holders(), by) {
		t.Errorf("beside %s it does %+v", by.name, got)
	}
}

// TestGossipAsksThroughOthers makes sure that a node is alive for those that reach it
// through a third, and not for those of whom no call gets out.
func TestGossipAsksThroughOthers(t *testing.T) {
	w := running(t, 3, 0)
	a, b, c := w.nodes[0], w.nodes[1], w.nodes[2]
	w.cut(a, b, true)
	if got := w.alive(a); !slices.Equal(got, []cluster.NodeName{"a", "b", "c"}) {
		t.Errorf("a, which reaches c, takes %v for alive", got)
	}
	w.cut(a, c, false)
	if got := w.alive(a); !slices.Equal(got, []cluster.NodeName{"a"}) {
		t.Errorf("a, which reaches nobody, takes %v for alive", got)
	}
	if got := w.alive(b); !slices.Equal(got, []cluster.NodeName{"a", "b", "c"}) {
		t.Errorf("b, which c reaches a for, takes %v for alive", got)
	}
}
