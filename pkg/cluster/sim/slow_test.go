package sim

import (
	"errors"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// TestASlowStore makes sure that a node reads a slow store as it was some looks ago, and
// that what it writes there takes effect while it gets no answer.
func TestASlowStore(t *testing.T) {
	w := running(t, 3, 0)
	a, b := w.nodes[0], w.nodes[1]
	a.lag, a.lagTo = 2, w.step+100
	w.observe(a)
	w.store.requests = []cluster.Request{{Name: "r1", Kind: cluster.RequestBackup, At: w.now}}
	if got := len(w.observe(b).Store.Requests); got != 1 {
		t.Fatalf("b reads %d requests", got)
	}
	for look, want := range []int{0, 1} {
		if got := len(w.observe(a).Store.Requests); got != want {
			t.Errorf("in look %d a reads %d requests, not %d", look, got, want)
		}
	}
	obs, op := w.observe(a), &plan.RequestClose{Name: "r1", Outcome: plan.OutcomeDone}
	w.effect(a, &obs, op, false)
	if len(w.store.requests) != 0 || len(a.failures) != 1 || a.failures[0].line != plan.Line(op) {
		t.Errorf("the request is in %v, and what failed is %v", w.store.requests, a.failures)
	}
	w.quiet = true
	if got := len(w.observe(a).Store.Requests); got != 0 {
		t.Errorf("when all is quiet a reads %d requests", got)
	}
}

// TestWhoWritesUnderAnotherNumberIsCaught makes sure that slow stores bite. Who writes a
// record under a number of its own each time, and not one above the newest that it reads,
// writes what is there already, which it did not know. Beside a quick store nobody
// notices.
func TestWhoWritesUnderAnotherNumberIsCaught(t *testing.T) {
	for _, slow := range []bool{true, false} {
		caught := 0
		for seed := range uint64(40) {
			faults := []Fault{{Step: 25, Kind: RestoreAsked, N: 23}}
			for node := range names {
				if slow {
					faults = append(faults, Fault{Step: 24, Kind: StoreSlow, Node: node, N: 23})
				}
			}
			number := 1000
			next := func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
				op, holds := plan.Next(spec, obs)
				if c, ok := op.(*plan.IncarnationCreate); ok && c.Backup != "" {
					number++
					c.Number = number
				}
				return op, holds
			}
			_, err := Replay(seed, Config{Next: next, Trusting: true}, faults, 60)
			if f := (*Failure)(nil); errors.As(err, &f) && f.Invariant == "restore" {
				caught++
			} else if err != nil {
				t.Error(err)
			}
		}
		if slow != (caught > 0) {
			t.Errorf("where the store is slow (%t) %d of 40 are caught", slow, caught)
		}
	}
}
