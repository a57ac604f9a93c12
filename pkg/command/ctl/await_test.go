package ctl

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

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
