package reconcile

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/plan"
)

func TestALongBackupHoldsUpNothing(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.backupDue()
		w.fail = func(op plan.Operation) error {
			if _, ok := op.(*plan.BackupTake); ok {
				time.Sleep(10 * time.Minute)
			}
			return nil
		}
		w.pass(time.Second)
		w.change(w.endpointsDue)
		w.pass(5 * time.Second)
		equal(t, "backups begun", w.count("backup take"), 1)
		equal(t, "hosts files written", w.count("endpoints write"), 1)
		if got := w.last(t).Observation.BackingUp; got != "etcdadm backup take --node=a --reason=interval" {
			t.Errorf("under way is %q", got)
		}
		w.pass(10 * time.Minute)
		equal(t, "under way in the end", w.last(t).Observation.BackingUp, "")
		equal(t, "backups begun in the end", w.count("backup take"), 1)
	})
}

func TestAnOperationWithoutEffectIsNotDoneForEver(t *testing.T) {
	var tr tries
	now := time.Unix(0, 0)
	for range maxInARow {
		tr.note("a", nil, false, now)
		equal(t, "failures", len(tr.failures()), 0)
	}
	for _, want := range []time.Duration{firstRetry, 2 * firstRetry} {
		tr.note("a", nil, false, now)
		f := tr.failures()
		if len(f) != 1 || f[0].Retry.Sub(now) != want {
			t.Errorf("failures are %v, want one with a retry after %s", f, want)
		}
	}
	tr.note("b", nil, false, now)
	equal(t, "failures after another success", len(tr.failures()), 0)
}
