package ctl

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// Of a restore that two machines carry out the third one is named with its cause: as it is
// waited for, when it is done, and when the waiting is interrupted.
func TestAwaitNamesWhoDoesNotGetOn(t *testing.T) {
	const full = "c has 19 MiB free, the restore needs 315 MiB"
	report := func(operation string, holds ...plan.Hold) *reconcile.Report {
		r := &reconcile.Report{Operation: operation, Holds: holds, Spec: cluster.Spec{MemberCount: 3}}
		for _, name := range []cluster.NodeName{"a", "b", "c"} {
			r.Observation.Nodes = append(r.Observation.Nodes, cluster.Node{Name: name})
		}
		return r
	}
	short := plan.Hold{Reason: plan.DiskFull, Text: full}
	f := following{request: cluster.Request{Name: "the-request"}, why: map[cluster.NodeName]string{}}
	for i, step := range []struct {
		report *reconcile.Report
		text   string
		want   []string
	}{
		{nil, "no status", []string{"no status"}},
		{report("", plan.Hold{Reason: plan.Restoring, Text: "a fetches it: 0 of 29 MiB"}, short), "",
			[]string{"a fetches it: 0 of 29 MiB", full}},
		{report("", plan.Hold{Reason: plan.Restoring, Text: "a fetches it: 9 of 29 MiB"}, short), "",
			[]string{"a fetches it: 9 of 29 MiB"}},
		{report("etcdadm restore stage --node=b", short), "", []string{"etcdadm restore stage --node=b"}},
		{report("etcdadm restore stage --node=b", short,
			plan.Hold{Reason: plan.StoreNotShared, Text: "the record of b is not in this store"}), "",
			[]string{"the record of b is not in this store"}},
		{report(""), "", []string{"waiting for the coordinator"}},
		{report("", plan.Hold{Reason: plan.NotYet, Text: "a backup is under way"}, short), "",
			[]string{"a backup is under way", full}},
	} {
		if got := f.progress(step.report, step.text); !slices.Equal(got, step.want) {
			t.Errorf("step %d says %q, want %q", i, got, step.want)
		}
	}
	twice := report("", short, plan.Hold{Reason: plan.Restoring, Text: "a fetches it"})
	if got := f.progress(twice, ""); !slices.Equal(f.shown, []string{full, "a fetches it"}) ||
		!slices.Equal(got, []string{"a fetches it"}) {
		t.Errorf("a hold that is there twice is shown as %q, said as %q", f.shown, got)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := f.interrupted(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), full) {
		t.Errorf("interrupted: %v", err)
	}

	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetErr(&out)
	two := store.View{Incarnations: []cluster.Incarnation{
		{Number: 1, Voters: []cluster.InitialMember{{Name: "c"}}},
		{
			Number: 2, Voters: []cluster.InitialMember{{Name: "a"}, {Name: "b"}},
			Restored: &cluster.Restored{Request: "the-request"},
		},
	}}
	done := store.Closed{Name: "the-request", Outcome: string(plan.OutcomeDone), Reason: "restored it on a, b"}
	if err := f.ended(cmd, two, done); err != nil {
		t.Error(err)
	}
	want := "note: done: restored it on a, b\nnote: c has no member of it (2 of 3 have): " + full + "\n" +
		"note: the cluster has 2 of 3 members; what it waits for now: etcd-manager-ctl explain\n"
	if out.String() != want {
		t.Errorf("the end is\n%swant\n%s", &out, want)
	}
	f.request.MemberCount = 2
	if lines := f.behind(two); lines != nil {
		t.Errorf("nobody is left behind where two were asked for: %q", lines)
	}
}

// A node that got on has no reason of before at the end.
func TestAwaitForgetsWhatHeldANodeThatGotOn(t *testing.T) {
	f := following{request: cluster.Request{Name: "the-request"}, why: map[cluster.NodeName]string{}}
	held := &reconcile.Report{
		Observation: cluster.Observation{Nodes: []cluster.Node{{Name: "c"}}},
		Holds:       []plan.Hold{{Reason: plan.NodeUnreachable, Text: "c does not answer"}},
	}
	f.progress(held, "")
	// What is planned by now need not name every node.
	f.progress(&reconcile.Report{Operation: "x", Observation: held.Observation}, "")
	if f.why["c"] != "c does not answer" {
		t.Errorf("why c does not get on is %q", f.why["c"])
	}
	staged := &reconcile.Report{Operation: "x"}
	staged.Observation.Nodes = []cluster.Node{{Name: "c", Staged: &cluster.Staged{Request: "the-request"}}}
	f.progress(staged, "")
	if why, ok := f.why["c"]; ok {
		t.Errorf("c, which restores it by now, is held by %q", why)
	}
}

// A store that cannot be read while a request is waited for is reported, once for each reason.
func TestAwaitReportsAStoreThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.PutRequest(t.Context(), cluster.Request{Kind: cluster.RequestPause, At: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetErr(&out)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- (&tool{location: dir}).await(ctx, cmd, s, r) }()
		control := filepath.Join(dir, "control")
		between := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait() // until the reading of this moment, if there is one, has ended
		}
		for range 2 {
			between(10 * waitInterval)
			if err := os.Rename(control, control+".away"); err != nil {
				t.Error(err)
			}
			if err := os.Symlink("control", control); err != nil { // a circle
				t.Error(err)
			}
			between(10 * waitInterval)
			if err := errors.Join(os.Remove(control), os.Rename(control+".away", control)); err != nil {
				t.Error(err)
			}
		}
		between(10 * waitInterval)
		stop()
		err = <-ended
		note := "note: the store cannot be read, and is asked again: "
		if strings.Count(out.String(), note) != 2 || !errors.Is(err, context.Canceled) ||
			strings.Contains(err.Error(), "control") {
			t.Errorf("it ends with %v, and has said\n%s", err, &out)
		}
	})
	var f following
	for _, step := range [][2]string{
		{"denied, RequestID: AB12, HostID: x/y==, api error", "the store cannot be read, and is asked again: denied, api error"},
		{"denied, RequestID: CD34, HostID: z, api error", ""},
		{"unreachable", "the store cannot be read, and is asked again: unreachable"},
	} {
		if got := f.asked(t.Context(), errors.New(step[0])); got != step[1] {
			t.Errorf("%s: %q, want %q", step[0], got, step[1])
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := f.interrupted(ctx); !strings.Contains(err.Error(), "(unreachable)") {
		t.Errorf("interrupted: %v", err)
	}
	if got := f.asked(ctx, errors.New("canceled")); got != "" {
		t.Errorf("the end of the wait is reported: %q", got)
	}
}
