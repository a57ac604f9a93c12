package reconcile

import (
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares the log of w with a file.
func golden(t *testing.T, w *world, name string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, w.log.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.log.String(); got != string(want) {
		t.Errorf("the log differs from %s; if that is meant, run the test with -update\ngot:\n%s\nwant:\n%s", file, got, want)
	}
}

// says writes a line of the test's own between those of the loop.
func (w *world) says(text string) {
	w.change(func() { w.log.WriteString("# " + text + "\n") })
}

func TestTheEventsOfALife(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.backupDue()
		failures := 2
		w.fail = func(plan.Operation) error {
			if failures--; failures >= 0 {
				return errBroken
			}
			return nil
		}
		w.says("a backup is due, and fails twice")
		w.pass(30 * time.Minute)

		w.says("the store and a node become unreachable, and come back")
		w.change(func() {
			w.obs.Gaps = []cluster.Gap{{Source: "node b", Text: "no route"}, {Source: "store", Text: "denied"}}
		})
		w.pass(time.Minute)
		w.change(func() { w.obs.Gaps = w.obs.Gaps[1:] })
		w.pass(time.Minute)
		w.change(func() { w.obs.Gaps = nil })
		w.pass(time.Minute)

		w.says("an alarm; its text changes, its reason does not")
		w.change(func() { w.obs.Members[0].Alarms = []string{"NOSPACE"} })
		w.pass(time.Minute)
		w.change(func() { w.obs.Members[0].Alarms = []string{"CORRUPT"} })
		w.pass(time.Minute)
		w.change(func() { w.obs.Members[0].Alarms = nil })
		w.pass(time.Minute)

		w.says("the member is down, and up again")
		w.change(func() { w.obs.Members[0].Healthy, w.obs.Leader = false, 0 })
		w.pass(time.Minute)
		w.change(func() { w.obs.Members[0].Healthy, w.obs.Leader = true, 1 })
		w.pass(time.Minute)

		w.says("the lease is lost, and won again")
		w.change(func() { w.lease.held = false })
		w.pass(time.Minute)

		w.says("an operator pauses")
		w.change(func() { pause(w) })
		w.pass(time.Minute)

		w.says("another coordinates")
		w.change(func() { w.candidate, w.obs.Store.Requests = false, nil })
		w.pass(time.Minute)
		golden(t, w, "life.log")
	})
}

func TestAQuietClusterIsQuiet(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.spec.Policy.BackupInterval = 1000 * time.Hour
		w.pass(time.Minute)
		n := w.log.Len()
		w.pass(5 * time.Hour)
		if w.log.Len() != n {
			t.Errorf("in five hours without an event it wrote:\n%s", w.log.String()[n:])
		}
		if n := w.count("observe"); n < int(5*time.Hour/calmPause) {
			t.Errorf("it has observed only %d times", n)
		}
	})
}

func TestARuleThatHeldForTwoReasonsIsOverOnce(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.obs.Members[0].Alarms = []string{"CORRUPT", "NOSPACE"}
		w.pass(time.Minute)
		w.change(func() { w.obs.Members[0].Alarms = nil })
		w.pass(time.Minute)
		golden(t, w, "two-reasons.log")
	})
}

func TestTheLogNamesTheStoreInCommandLines(t *testing.T) {
	var log strings.Builder
	e := events{log: slog.New(slog.NewTextHandler(&log, nil)), flag: "--backup-store=/x"}
	e.forget()
	e.noteHolds([]plan.Hold{{Reason: plan.Paused, Text: "etcd-manager-ctl " + plan.StoreFlag + " resume"}})
	if !strings.Contains(log.String(), "etcd-manager-ctl --backup-store=/x resume") {
		t.Error(log.String())
	}
}

func TestAHoldThatStaysIsWrittenOnce(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.lease.refuse = errBroken
		w.pass(time.Hour)
		golden(t, w, "refused.log")
	})
}
