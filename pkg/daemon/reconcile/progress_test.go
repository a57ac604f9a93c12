package reconcile

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

func TestAnUnfitDaemonGivesTheLeaseBackAndComesAgain(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.pass(time.Second)
		equal(t, "acquired", w.count("acquire from [a]"), 1)
		w.change(func() { w.unfit = errors.New("the disk hangs") })
		w.pass(idlePause + time.Second)
		equal(t, "given back", w.count("release"), 1)
		observations := w.count("observe")
		w.pass(time.Minute)
		equal(t, "observations while it is unfit", w.count("observe"), observations)
		equal(t, "acquired while it is unfit", w.count("acquire from [a]"), 1)
		if !strings.Contains(w.log.String(), "gives the lease back") || !strings.Contains(w.log.String(), "the disk hangs") {
			t.Errorf("the log is\n%s", w.log.String())
		}
		w.change(func() { w.unfit = nil })
		w.pass(time.Second)
		equal(t, "acquired again", w.count("acquire from [a]"), 2)
	})
}

// The lease is renewed as long as the loop said that it would run again. A step that
// ends within its deadline never makes it late; one that does not end does.
func TestTheLoopSaysUntilWhenItTurns(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		late := func() (late bool) {
			w.change(func() { late = w.until.Before(time.Now()) })
			return late
		}
		for range 100 { // idle
			w.pass(time.Second)
			if late() {
				t.Fatal("the loop is late while there is nothing to do")
			}
		}
		w.change(func() { w.candidate = false })
		for range 100 { // standing by, after it has lost the lease
			w.change(func() { w.lease.held = false })
			w.pass(time.Second)
			if late() {
				t.Fatal("the loop is late while another coordinates")
			}
		}
		hung := make(chan struct{})
		defer close(hung)
		w.change(func() {
			w.candidate = true
			w.fail = func(plan.Operation) error { <-hung; return nil }
			w.unmarked()
		})
		w.pass(5 * time.Second)
		if late() {
			t.Error("the loop is late within the deadline of its operation")
		}
		w.pass(time.Minute)
		if !late() {
			t.Error("the loop is not late, and its operation does not end")
		}
	})
}

func TestTheLeaseIsAskedForBeforeAnObservationThatMayTakeLong(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.early = cluster.LeaseVoters{Token: "t1", Term: 1, Names: []cluster.NodeName{"a"}}
		w.pass(time.Second)
		equal(t, "protocol", strings.Join(w.protocol, "; "), "acquire from [a]; previous; observe")
		w.change(func() { // another has it
			w.lease.held, w.lease.refuse = false, &lease.HeldError{Holder: "b", Remaining: time.Second}
		})
		w.pass(5 * time.Second)
		observations := w.count("observe")
		w.pass(10 * time.Second)
		equal(t, "observations while another has it", w.count("observe"), observations)
		w.change(func() { w.lease.refuse = errors.New("no majority") })
		w.pass(10 * time.Second)
		if w.count("observe") == observations || w.last(t).Holds[0].Reason != plan.NoCoordinator {
			t.Errorf("without a majority: %d observations, %+v", w.count("observe"), w.last(t).Holds)
		}
	})
}

// While an operation takes long the cluster is observed and reported, with what is done
// and since when; not after another may have taken over.
func TestALongOperationIsReported(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		long := make(chan struct{})
		w.change(func() {
			w.fail = func(plan.Operation) error { <-long; return nil }
			w.unmarked()
		})
		w.pass(time.Second)
		began := time.Now()
		last := func() (r Report, n int) {
			w.change(func() { r, n = w.reports[len(w.reports)-1], len(w.reports) })
			return r, n
		}
		w.pass(time.Minute)
		r, n := last()
		if r.Operation == "" || r.Since.IsZero() || r.Since.After(began) {
			t.Errorf("reported is %q since %s", r.Operation, r.Since)
		}
		if age := time.Since(r.At); age > idlePause || r.At.Sub(r.Observation.At) > idlePause {
			t.Errorf("the last report is %s old, its observation is of %s", age, r.Observation.At)
		}
		w.change(func() { w.lease.held = false })
		w.pass(time.Minute)
		if _, now := last(); now != n {
			t.Errorf("%d reports without the lease", now-n)
		}
		w.change(func() { w.lease.held = true })
		close(long)
		w.pass(time.Second)
		if r, _ := last(); r.Operation != "" || !r.Since.IsZero() || !r.Converged {
			t.Errorf("after its end it is reported as %q since %s, converged %t", r.Operation, r.Since, r.Converged)
		}
	})
}

// The history orders what was done by when it began, and so are its terms.
func TestAnOperationIsOfTheTermInWhichItBegan(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		long := make(chan struct{})
		w.change(func() {
			w.fail = func(plan.Operation) error { <-long; return nil }
			w.unmarked()
		})
		w.pass(time.Second)
		began := w.lease.term
		w.change(func() { w.lease.term += 3 })
		close(long)
		w.pass(time.Second)
		w.change(func() {
			if i := slices.IndexFunc(w.reports, func(r Report) bool { return r.Done != nil }); i < 0 ||
				w.reports[i].Done.Term != began || w.reports[i].Term != began+3 {
				t.Errorf("it began in term %d; the report of its end is number %d of %+v", began, i, w.reports)
			}
		})
	})
}
