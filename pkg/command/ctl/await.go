package ctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/fleet"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// waitInterval is how often await asks the store.
const waitInterval = time.Second

// await waits for the end of a request, and says how it ended.
func (t *tool) await(ctx context.Context, cmd *cobra.Command, s *store.Store, r cluster.Request) error {
	f := following{request: r, why: map[cluster.NodeName]string{}}
	for range wait.Every(ctx, waitInterval) {
		v, err := s.Poll(ctx)
		if line := f.asked(ctx, t.named(err, 0)); line != "" {
			note(cmd, "%s", line)
		}
		if err != nil {
			continue
		}
		if i := slices.IndexFunc(v.Closed, func(f store.Closed) bool { return f.Name == r.Name }); i >= 0 {
			return f.ended(cmd, v, v.Closed[i])
		}
		if !slices.ContainsFunc(fleet.Requests(v), func(q cluster.Request) bool { return q.Name == r.Name }) {
			return cli.WithHint(errors.New("the request was deleted before it was carried out"),
				"see what was done: etcd-manager-ctl history")
		}
		report, _, text, err := t.published(ctx, s)
		if err != nil {
			text = store.Steady(err.Error())
		}
		for _, line := range f.progress(report, text) {
			note(cmd, "%s", line)
		}
	}
	return f.interrupted(ctx)
}

// A following is what is known of a request that is waited for.
type following struct {
	request cluster.Request
	// shown is what the last observation said; it is not said again as long as it is so.
	shown []string
	// report is the last one that could be read, why what held each of its nodes last.
	report *reconcile.Report
	why    map[cluster.NodeName]string
	// failed is why the store could not be read the last time, empty if it could.
	failed string
}

// asked is what to say of the end of a poll: why the store cannot be read, where that is another
// reason than the time before.
func (f *following) asked(ctx context.Context, err error) string {
	before := f.failed
	if f.failed = ""; err == nil || ctx.Err() != nil {
		return ""
	}
	if f.failed = store.Steady(err.Error()); f.failed == before {
		return ""
	}
	return "the store cannot be read, and is asked again: " + f.failed
}

// progress is what the coordinator published last and had not published before: the operation
// under way, or what it waits for, and every node that does not get on.
func (f *following) progress(r *reconcile.Report, text string) (news []string) {
	var lines []string
	switch {
	case r == nil:
		lines = []string{text}
	case r.Operation != "":
		lines = []string{r.Operation}
	case len(r.Holds) > 0:
		lines = []string{because(r.Holds)}
	default:
		lines = []string{"waiting for the coordinator"}
	}
	if r != nil {
		f.report = r
		for _, n := range r.Observation.Nodes {
			if why := holding(*r, n.Name); why != "" {
				f.why[n.Name] = why
				lines = append(lines, why)
			} else if n.Staged != nil && n.Staged.Request == f.request.Name {
				delete(f.why, n.Name) // it got on, and what holds it from now on is another thing
			}
		}
	}
	var shown []string
	for _, line := range lines {
		if slices.Contains(shown, line) {
			continue
		}
		shown = append(shown, line)
		if !slices.Contains(f.shown, line) {
			news = append(news, line)
		}
	}
	f.shown = shown
	return news
}

// because says what is waited for. While a cluster is taken over nobody coordinates, and
// what keeps it from being taken over says more.
func because(holds []plan.Hold) string {
	var causes []string
	for _, h := range holds {
		if h.Reason == plan.TakingOver || h.Reason == plan.ExistingDaemon {
			causes = append(causes, h.Text)
		}
	}
	if len(causes) == 0 {
		return holds[0].Text
	}
	return strings.Join(causes, "; ")
}

// ofNodes are the holds that may be of one node, whose texts begin with its name, or name it so.
var ofNodes = []plan.Reason{
	plan.DiskFull, plan.DiskHung, plan.DiskUnreadable, plan.NodeUnreachable, plan.BinaryMissing, plan.StoreNotShared,
	plan.Restoring,
}

// holding returns the hold of a node, "" for none.
func holding(r reconcile.Report, name cluster.NodeName) string {
	for _, h := range r.Holds {
		if !slices.Contains(ofNodes, h.Reason) {
			continue
		}
		if strings.HasPrefix(h.Text, string(name)+" ") || strings.HasPrefix(h.Text, "the record of "+string(name)+" ") ||
			strings.Contains(h.Text, ", and "+string(name)+" has no ") {
			return h.Text
		}
	}
	return ""
}

// ended says how a request ended, and which nodes a restore has left behind.
func (f *following) ended(cmd *cobra.Command, v store.View, c store.Closed) error {
	if c.Outcome == string(plan.OutcomeRefused) {
		return &cli.RefusedError{Text: "refused: " + c.Reason, Next: "see what was done: etcd-manager-ctl history"}
	}
	note(cmd, "done: %s", c.Reason)
	for _, line := range f.behind(v) {
		note(cmd, "%s", line)
	}
	return nil
}

// behind names the nodes that have no member of what was restored though the cluster wants more.
func (f *following) behind(v store.View) (lines []string) {
	i := slices.IndexFunc(v.Incarnations, func(i cluster.Incarnation) bool {
		return i.Restored != nil && i.Restored.Request == f.request.Name
	})
	if i < 0 || f.report == nil {
		return nil
	}
	voters, want := v.Incarnations[i].Voters, f.report.Spec.MemberCount
	if f.request.MemberCount > 0 {
		want = f.request.MemberCount
	}
	if len(voters) >= want {
		return nil
	}
	for _, n := range f.report.Observation.Nodes {
		if slices.Contains(cluster.InitialMemberNames(voters), n.Name) || slices.Contains(f.request.Lost, n.Name) {
			continue
		}
		why := f.why[n.Name]
		if why == "" {
			why = "the coordinator has published no reason"
		}
		lines = append(lines, fmt.Sprintf("%s has no member of it (%d of %d have): %s", n.Name, len(voters), want, why))
	}
	return append(lines, fmt.Sprintf("the cluster has %d of %d members; what it waits for now: etcd-manager-ctl explain",
		len(voters), want))
}

// interrupted is the error of a wait that ends before the request does.
func (f *following) interrupted(ctx context.Context) error {
	last := f.shown
	if f.failed != "" {
		last = append(slices.Clone(last), f.failed)
	}
	if len(last) == 0 {
		return fmt.Errorf("it stays queued: %w", ctx.Err())
	}
	return fmt.Errorf("it stays queued (%s): %w", strings.Join(last, "; "), ctx.Err())
}
