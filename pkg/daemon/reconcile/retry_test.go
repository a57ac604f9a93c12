package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
)

// tried records when each kind of operation is tried, and fails those of which
// fails says so.
func tried(w *world, fails func(kind string) bool) map[string][]time.Time {
	at := map[string][]time.Time{}
	w.fail = func(op plan.Operation) error {
		kind := plan.KindOf(op).Path
		at[kind] = append(at[kind], time.Now())
		if fails(kind) {
			return errBroken
		}
		return nil
	}
	return at
}

func TestAFailedOperationIsTriedAtGrowingDistances(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.backupDue()
		at := tried(w, func(string) bool { return true })
		w.pass(10 * time.Minute)

		want := []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second,
			8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute, time.Minute}
		all := at["backup take"]
		if len(all) < len(want)+1 {
			t.Fatalf("%d tries in ten minutes", len(all))
		}
		for i, d := range want {
			if got := all[i+1].Sub(all[i]); got != d {
				t.Errorf("try %d is %s after the one before, want %s", i+2, got, d)
			}
		}
		r := w.last(t)
		equal(t, "reasons", reasons(r), "operation-failed")
		equal(t, "text", r.Holds[0].Text, "etcdadm backup take --node=a --reason=interval: it broke")
	})
}

func TestBetweenTwoTriesTheLoopGoesOnObserving(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.backupDue()
		w.fail = func(plan.Operation) error { return errBroken }
		w.pass(5 * time.Minute)
		before := w.count("observe")
		w.pass(30 * time.Second)
		if n := w.count("observe") - before; n < 25 || n > 35 {
			t.Errorf("%d observations in 30 s while an operation waits for its next try", n)
		}
		r := w.last(t)
		if len(r.Observation.Failures) != 1 || !r.Observation.Failures[0].Retry.After(r.At) {
			t.Errorf("the report's failures are %+v", r.Observation.Failures)
		}
	})
}

func TestUpkeepThatFailsBlocksNothing(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.unmarked()
		w.backupDue()
		at := tried(w, func(kind string) bool { return kind == "incarnation mark" })
		w.pass(5 * time.Second)
		equal(t, "backups", len(at["backup take"]), 1)
		if n := len(at["incarnation mark"]); n < 2 {
			t.Errorf("the marker was tried %d times", n)
		}
		if r := w.last(t); reasons(r) != "operation-failed" || !strings.Contains(r.Holds[0].Text, "incarnation mark") {
			t.Errorf("holds are %v", r.Holds)
		}
	})
}

func TestAnythingElseThatFailsHoldsTheRulesAfterIt(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.backupDue()
		w.obs.Nodes[0].SetAside = []cluster.SetAside{{Name: "old", At: time.Now().Add(-10 * 365 * 24 * time.Hour)}}
		at := tried(w, func(kind string) bool { return kind == "backup take" })
		w.pass(time.Minute)
		equal(t, "discards", len(at["data discard"]), 0)
	})
}

func TestWhatEtcdRefusesForTheMomentIsNoFailure(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.unmarked()
		refused := 20
		w.fail = func(plan.Operation) error {
			if refused--; refused >= 0 {
				return fmt.Errorf("promote: %w", etcdclient.ErrUnhealthy)
			}
			return nil
		}
		w.pass(4*time.Second + waitingPause/2)
		if n := w.count("incarnation mark"); n < 16 || n > 18 {
			t.Errorf("in four seconds it was tried %d times, want one each quarter", n)
		}
		w.pass(4 * time.Second)
		equal(t, "tries", w.count("incarnation mark"), 21)
		golden(t, w, "not-yet.log")
	})
}

func TestAnOperationWhoseEffectDoesNotShowIsGivenUpForLonger(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.unmarked()
		done := 0
		w.show = func(obs *cluster.Observation) {
			obs.Store.Created = time.Time{} // somebody else deletes it
		}
		w.fail = func(plan.Operation) error { done++; return nil }
		w.pass(10 * time.Minute)
		if done < maxInARow+3 || done > 30 {
			t.Errorf("in ten minutes it was done %d times", done)
		}
		if r := w.last(t); reasons(r) != "operation-failed" ||
			!strings.Contains(r.Holds[0].Text, "its effect does not show") {
			t.Errorf("holds are %v", r.Holds)
		}
	})
}

func TestASuccessForgetsAllFailures(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.unmarked()
		at := tried(w, func(kind string) bool { return kind == "incarnation mark" })
		w.pass(3 * time.Minute) // the next try is up to a minute away
		before := w.count("incarnation mark")
		w.change(func() { w.obs.Store.Backups = nil })
		w.pass(heldPause)
		equal(t, "backups", len(at["backup take"]), 1)
		equal(t, "tries of the marker", len(at["incarnation mark"]), before+1)
	})
}

func TestANewTermForgetsTheFailuresOfTheLast(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.backupDue()
		at := tried(w, func(string) bool { return true })
		w.pass(3 * time.Minute)
		before := w.count("backup take")
		w.change(func() { w.lease.held = false })
		w.pass(2 * heldPause)
		again := at["backup take"][before:]
		if len(again) < 2 || again[1].Sub(again[0]) != firstRetryDelay {
			t.Errorf("tries in the new term are at %v, want the distances to begin again", again)
		}
	})
}

func TestTries(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	tr := tries{}
	equal(t, "wait for nothing", tr.next(now), maxRetryDelay)
	tr.note("b", errBroken, false, now)
	tr.note("a", errBroken, false, now.Add(-time.Second))
	tr.note("a", errBroken, false, now)
	list := tr.failures()
	if len(list) != 2 || list[0].Line != "a" || list[1].Line != "b" {
		t.Fatalf("failures are %+v", list)
	}
	equal(t, "retry of b", list[1].Retry, now.Add(firstRetryDelay))
	equal(t, "retry of a", list[0].Retry, now.Add(2*firstRetryDelay))
	equal(t, "wait", tr.next(now), firstRetryDelay)
	// b may be tried already; the wait is for a.
	equal(t, "wait, later", tr.next(now.Add(firstRetryDelay)), firstRetryDelay)
	for range 200 {
		tr.note("a", errBroken, false, now)
	}
	equal(t, "retry after 200 failures", tr.failures()[0].Retry, now.Add(maxRetryDelay))
	tr.note("c", nil, false, now)
	equal(t, "failures after a success", len(tr.failures()), 0)
}

// TestTwoOperationsThatAlternateAreTriedAtGrowingDistances plays one that
// succeeds beside one that fails, and two that undo each other.
func TestTwoOperationsThatAlternateAreTriedAtGrowingDistances(t *testing.T) {
	for name, second := range map[string]error{"the other fails": errBroken, "the other succeeds": nil} {
		t.Run(name, func(t *testing.T) {
			began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
			now, tr, tried := began, tries{}, map[string]int{}
			for now.Sub(began) < 10*time.Minute {
				for line, err := range map[string]error{"a": nil, "b": second} {
					if f, ok := tr.failed[line]; !ok || !now.Before(f.retry()) {
						tr.note(line, err, false, now)
						tried[line]++
					}
				}
				now = now.Add(firstRetryDelay)
			}
			for _, line := range []string{"a", "b"} {
				if tried[line] > 40 {
					t.Errorf("%s was tried %d times in ten minutes", line, tried[line])
				}
			}
			list := tr.failures()
			if len(list) != 2 {
				t.Fatalf("failures are %+v, want both", list)
			}
			for _, f := range list {
				if d := f.Retry.Sub(tr.failed[f.Line].at); d != maxRetryDelay {
					t.Errorf("%s waits %s at the end, want %s", f.Line, d, maxRetryDelay)
				}
			}
			tr.note("c", nil, false, now)
			equal(t, "failures after the world has changed", len(tr.failures()), 0)
		})
	}
}

func TestWhatRecursNowAndThenIsNoFailure(t *testing.T) {
	now, tr := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), tries{}
	for range 100 {
		tr.note("a", nil, false, now)
		tr.note("b", nil, false, now)
		equal(t, "failures", len(tr.failures()), 0)
		now = now.Add(inARowWindow + time.Second)
	}
}
