package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/store"
)

func (t *tool) observeCommands() []*cobra.Command {
	return []*cobra.Command{
		t.statusCommand(), t.topCommand(),
		{
			Use: "explain [REASON]", Short: "explain what holds the coordinator back, or one hold", GroupID: "show",
			Args: cobra.MaximumNArgs(1), ValidArgs: reasons(),
			RunE: func(cmd *cobra.Command, args []string) error {
				if len(args) == 1 {
					return t.explainReason(cmd, plan.Reason(args[0]))
				}
				return t.run(t.explain)(cmd, args)
			},
		},
		{
			Use: "plan", Short: "print the steps from the present state to the spec", GroupID: "show",
			Long: `plan prints the steps that lead from the status that the coordinator published last to the spec in the store,
as etcdadm command lines, and what holds them back as comments.`,
			Args: cobra.NoArgs, RunE: t.run(t.plan),
		},
		t.historyCommand(),
	}
}

// published reads what the coordinator published, with its raw text. The
// report is nil if there is none; note says why, or that it is old.
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
	if t.now().Sub(r.At) > render.StaleAfter {
		note = "the status is STALE: no coordinator has published since, and the cluster may have changed"
	}
	return r, raw, note, nil
}

// need is published where a command can do nothing without a report.
func (t *tool) need(ctx context.Context, cmd *cobra.Command, s *store.Store) (reconcile.Report, error) {
	r, _, text, err := t.published(ctx, s)
	switch {
	case err != nil:
		return reconcile.Report{}, err
	case r == nil:
		return reconcile.Report{}, cli.WithHint(errors.New(text), "etcdadm status asks the daemons themselves")
	case text != "":
		note(cmd, "%s (it is of %s)", text, render.Age(t.now().Sub(r.At)))
	}
	return *r, nil
}

func (t *tool) explain(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) error {
	r, err := t.need(ctx, cmd, s)
	if err != nil {
		return err
	}
	list := render.Explain(r.Holds)
	return t.print(cmd, list, func(w io.Writer) error {
		if len(list) == 0 {
			_, err := fmt.Fprintln(w, "nothing holds the coordinator back")
			return err
		}
		return render.WriteExplanations(w, list)
	})
}

func (t *tool) explainReason(cmd *cobra.Command, r plan.Reason) error {
	if _, ok := plan.Explain(r); !ok {
		return &cli.UsageError{Text: fmt.Sprintf("there is no hold %q", r),
			Next: "the holds are " + strings.Join(reasons(), ", ")}
	}
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
	r, err := t.need(ctx, cmd, s)
	if err != nil {
		return err
	}
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
	if err := t.print(cmd, steps, steps.Write); err != nil {
		return err
	}
	return steps.Err()
}
