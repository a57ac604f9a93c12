package ctl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/store"
)

func (t *tool) observeCommands() []*cobra.Command {
	return []*cobra.Command{
		t.addPublished(t.statusCommand()), t.addPublished(t.topCommand()),
		t.addPublished(&cobra.Command{
			Use: "explain [REASON]", Short: "explain what holds the coordinator back, or one hold", GroupID: "show",
			Long: `explain says what the holds that the coordinator published last mean, and what to do, or what one hold means. It
ends with 9 where what was published is STALE.`,
			Args: cobra.MaximumNArgs(1), ValidArgs: reasons(),
			RunE: func(cmd *cobra.Command, args []string) error {
				if len(args) == 1 {
					return t.explainReason(cmd, plan.Reason(args[0]))
				}
				return t.run(t.shows(t.explain))(cmd, args)
			},
		}),
		t.addPublished(&cobra.Command{
			Use: "plan", Short: "print the steps from the published status to the spec", GroupID: "show",
			Long: `plan prints the steps that lead from the status that the coordinator published last to the spec in the store,
as etcdadm command lines, and what holds them back as comments. It ends with 9 where what was published is STALE.`,
			Args: cobra.NoArgs, RunE: t.run(t.shows(t.plan)),
		}),
		t.historyCommand(),
	}
}

// published reads what the coordinator published, with its raw text. The
// report is nil if there is none; note says why.
func (t *tool) published(ctx context.Context, s *store.Store) (
	r *reconcile.Report, raw json.RawMessage, note string, err error) {
	raw, err = s.Status(ctx)
	switch {
	case errors.Is(err, store.ErrAbsent):
		return nil, nil, "no coordinator has published a status in this store", nil
	case errors.Is(err, store.ErrGarbage):
		return nil, nil, "the published status cannot be read: " + err.Error(), nil
	case err != nil:
		return nil, nil, "", fmt.Errorf("read the published status: %w", err)
	}
	r = new(reconcile.Report)
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, raw, "the published status cannot be read: " + err.Error(), nil
	}
	return r, raw, "", nil
}

// doubts says what keeps a status from being the cluster's as it is, nothing for none.
func doubts(st render.Status, now time.Time) (list []string) {
	if st.Report == nil {
		return nil
	}
	age := render.Age(now.Sub(st.Report.At))
	switch a := st.Asked; {
	case st.Stale && a != nil:
		list = append(list, fmt.Sprintf("the status is STALE: it is of %s, and no daemon that it names answers from here; the "+
			"cluster may have changed", age))
	case st.Stale:
		list = append(list, fmt.Sprintf("the status is STALE: it is of %s, and no coordinator has published since; the "+
			"cluster may have changed", age))
	case a != nil && a.Unreachable[st.Report.Coordinator] != "":
		list = append(list, fmt.Sprintf("the coordinator does not answer: %s at %s; the status is of %s",
			st.Report.Coordinator, a.Unreachable[st.Report.Coordinator], age))
	}
	return list
}

// need is published where a command can do nothing without a report. It says where that is
// STALE, and the command ends with the error of [render.Status.CheckStale].
func (t *tool) need(ctx context.Context, cmd *cobra.Command, s *store.Store) (render.Status, error) {
	r, _, text, err := t.published(ctx, s)
	if err != nil {
		return render.Status{}, err
	}
	if r == nil {
		return render.Status{}, cli.WithHint(errors.New(text), "ask the daemons themselves: etcdadm status")
	}
	control, err := s.Poll(ctx)
	if err != nil {
		return render.Status{}, fmt.Errorf("read the control store: %w", err)
	}
	asked, err := t.asked(r, control)
	if err != nil {
		return render.Status{}, err
	}
	st := render.NewPublished(r, asked, t.now())
	for _, text := range doubts(st, t.now()) {
		note(cmd, "%s", text)
	}
	return st, nil
}

func (t *tool) explain(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) error {
	st, err := t.need(ctx, cmd, s)
	if err != nil {
		return err
	}
	list := render.Explain(st.Report.Holds)
	return cmp.Or(t.print(cmd, list, func(w io.Writer) error {
		if len(list) == 0 {
			_, err := fmt.Fprintln(w, "nothing holds the coordinator back")
			return err
		}
		return render.WriteExplanations(w, list)
	}), st.CheckStale())
}

func (t *tool) explainReason(cmd *cobra.Command, r plan.Reason) error {
	if _, ok := plan.Explain(r); !ok {
		return &cli.UsageError{Text: fmt.Sprintf("there is no hold %q", r),
			Next: "the holds are " + strings.Join(reasons(), ", ")}
	}
	t.where() // where it is known, the explanation names the store
	list := render.Explain([]plan.Hold{{Reason: r}})
	return t.print(cmd, list, func(w io.Writer) error { return render.WriteExplanations(w, list) })
}

func reasons() []string {
	var names []string
	for _, d := range plan.Reasons() {
		names = append(names, string(d.Reason))
	}
	return names
}

// plan plans with the policy that the coordinator published and the present
// spec, which the coordinator may not have seen yet.
func (t *tool) plan(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) error {
	st, err := t.need(ctx, cmd, s)
	if err != nil {
		return err
	}
	r := *st.Report
	spec, err := s.Spec(ctx)
	switch {
	case err == nil:
		r.Spec = spec.Over(r.Spec)
	case errors.Is(err, store.ErrGarbage):
		r.Spec = store.SpecFile{}.Over(r.Spec)
		r.Observation.Store.SpecProblem = err.Error()
	case !errors.Is(err, store.ErrAbsent):
		return fmt.Errorf("read the spec: %w", err)
	}
	steps, err := render.NewSteps(r.Spec, r.Observation)
	if err != nil {
		return err
	}
	steps.Warnings = append(doubts(st, t.now()), steps.Warnings...)
	return cmp.Or(t.print(cmd, steps, steps.Write), st.CheckStale(), steps.Err())
}
