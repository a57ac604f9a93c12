package reconcile

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// The lease is one for rest while there has been nothing to do for a while, and one for work from the
// moment in which there is news or an operation.
func TestTheLeaseOfACalmClusterIsOneForRest(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.spec.Policy.BackupInterval = 1000 * time.Hour
		rests := func(want bool) {
			t.Helper()
			w.mu.Lock()
			defer w.mu.Unlock()
			equal(t, "the lease rests", w.lease.rest, want)
		}
		w.pass(calmDelay - time.Second)
		rests(false)
		w.pass(time.Minute)
		rests(true)
		w.wake <- struct{}{}
		w.pass(0)
		rests(false)
		w.pass(time.Minute)
		rests(true)
		// An operation that a look at a calm cluster finds.
		during := true
		w.change(func() {
			w.unmarked()
			w.fail = func(plan.Operation) error {
				w.change(func() { during = w.lease.rest })
				return nil
			}
		})
		w.pass(2 * calmPause)
		equal(t, "the lease rests while something is done", during, false)
	})
}

// Each cycle says when it was due, so that a daemon that stood still knows that.
func TestACycleSaysWhenItWasDue(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.candidate = false
		var late []time.Duration
		w.late = func(due time.Time) { late = append(late, time.Since(due)) }
		w.pass(time.Second)
		if len(late) < 2 {
			t.Fatalf("it was said %d times", len(late))
		}
		for _, d := range late {
			equal(t, "how late a cycle is", d, 0)
		}
	})
}
