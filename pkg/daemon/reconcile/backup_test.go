package reconcile

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
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
		w.change(w.unmarked)
		w.pass(5 * time.Second)
		equal(t, "backups begun", w.count("backup take"), 1)
		equal(t, "markers written", w.count("incarnation mark"), 1)
		if got := w.last(t).Observation.BackingUp; got != "etcdadm backup take --node=a --reason=interval" {
			t.Errorf("under way is %q", got)
		}
		w.pass(10 * time.Minute)
		equal(t, "under way in the end", w.last(t).Observation.BackingUp, "")
		equal(t, "backups begun in the end", w.count("backup take"), 1)
	})
}

// A backup of a node whose disk hangs would keep the step waiting for minutes
// that is to replace its member.
func TestABackupOfANodeWhoseDiskHangsIsBrokenOff(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.backupDue()
		w.failContext = func(ctx context.Context, op plan.Operation) error {
			if _, ok := op.(*plan.BackupTake); ok {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		}
		w.pass(time.Second)
		if w.last(t).Observation.BackingUp == "" {
			t.Fatal("no backup is under way")
		}
		w.change(func() { w.obs.Nodes[0].Storage = cluster.Storage{State: cluster.StorageHung} })
		w.pass(10 * time.Second)
		if got := w.last(t).Observation.BackingUp; got != "" {
			t.Errorf("under way is %q", got)
		}
	})
}

// slow makes each backup take that long, or until the daemon ends.
func slow(w *world, d time.Duration) {
	w.fail = func(op plan.Operation) error {
		if _, ok := op.(*plan.BackupTake); ok {
			time.Sleep(d)
		}
		return nil
	}
}

func TestABackupThatHasEndedIsReportedAtOnceAndNotTakenAgain(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.backupDue()
		slow(w, 10*time.Second+time.Millisecond)
		w.pass(10*time.Second + 2*time.Millisecond)
		r := w.last(t)
		if r.Done == nil || r.Done.Took != 10*time.Second+time.Millisecond || r.Done.Err != nil {
			t.Errorf("the last report is %+v", r)
		}
		w.pass(10 * time.Minute)
		equal(t, "backups", w.count("backup take"), 1)
	})
}

// The lease may be won again while a backup is taken: what was done afterwards is of a
// later term.
func TestABackupIsOfTheTermInWhichItBegan(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.backupDue()
		slow(w, 10*time.Second+time.Millisecond)
		w.pass(time.Second)
		began := w.lease.term
		w.change(func() { w.lease.term += 3 })
		w.pass(9*time.Second + 2*time.Millisecond)
		if r := w.last(t); r.Done == nil || r.Done.Term != began || r.Term != began+3 {
			t.Errorf("it began in term %d; the last report is %+v", began, r)
		}
	})
}

func TestABackupThatOutlivesItsTermKeepsNobodyBusy(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.backupDue()
		slow(w, time.Minute)
		w.pass(time.Second)
		w.change(func() { w.lease.held, w.candidate = false, false })
		w.pass(10 * time.Minute) // never ends where the loop spins
		before := w.count("observe")
		w.change(func() { w.candidate = true })
		w.pass(time.Second)
		if w.count("observe") == before || w.last(t).Observation.BackingUp != "" {
			t.Errorf("after it, %d observations, %+v", w.count("observe")-before, w.last(t))
		}
	})
}

func TestTheLoopEndsAfterItsBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.backupDue()
		ctx, cancel := context.WithCancel(t.Context())
		o := w.options()
		ended := false
		o.Do = func(ctx context.Context, _ cluster.Spec, _ cluster.Observation, _ plan.Operation) error {
			<-ctx.Done()
			time.Sleep(time.Second) // what it has begun it cleans up
			ended = true
			return ctx.Err()
		}
		time.AfterFunc(10*time.Second, cancel)
		New(o).Run(ctx)
		equal(t, "the backup has ended", ended, true)
		equal(t, "the lease is given back", w.lease.held, false)
	})
}

func TestPeriodicBackupsAreNoFailure(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.backupDue()
		w.spec.Policy.HourlyRetention = 1000 * time.Hour // none is deleted in between
		w.pass(20*time.Hour + time.Minute)
		equal(t, "backups", w.count("backup take"), 21)
		for _, r := range w.reports {
			if len(r.Observation.Failures) > 0 {
				t.Fatalf("at %s: %+v", r.At, r.Observation.Failures)
			}
		}
	})
}

func TestAnOperationWithoutEffectIsNotDoneForEver(t *testing.T) {
	var tr tries
	now := time.Unix(0, 0)
	for range maxInARow {
		tr.note("a", nil, false, now)
		equal(t, "failures", len(tr.failures()), 0)
	}
	for _, want := range []time.Duration{firstRetryDelay, 2 * firstRetryDelay} {
		tr.note("a", nil, false, now)
		f := tr.failures()
		if len(f) != 1 || f[0].Retry.Sub(now) != want {
			t.Errorf("failures are %v, want one with a retry after %s", f, want)
		}
	}
	tr.note("b", nil, false, now)
	equal(t, "failures after another success", len(tr.failures()), 0)
}

// The list of backups that a new coordinator has may be older than what the one before took.
func TestANewCoordinatorReadsTheBackupsFirst(t *testing.T) {
	for _, early := range []bool{true, false} {
		run(t, func(t *testing.T, w *world) {
			taken := w.obs.Store.Backups
			w.backupDue()
			if early {
				w.early = w.obs.LeaseVoters
			}
			won := 0
			w.won = func() { won, w.obs.Store.Backups = won+1, taken }
			w.pass(10 * time.Second)
			equal(t, "leases won", won, 1)
			equal(t, "backups", w.count("backup take"), 0)
		})
	}
}
