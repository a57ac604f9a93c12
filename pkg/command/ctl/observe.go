package ctl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/store"
)

func (t *tool) observeCommands() []*cobra.Command {
	history := &cobra.Command{
		Use: "history", Short: "print the operations of the past", GroupID: "show", Args: cobra.NoArgs,
	}
	last := history.Flags().IntP("last", "n", 20, "how many of the newest operations; 0 for all")
	history.Long = `history prints what the coordinators did, and what was done by hand. With --orders it prints what the nodes
themselves have written down: who ordered what of which node, and what was refused.`
	orders := history.Flags().Bool("orders", false, "print the orders that each node has recorded")
	history.RunE = t.run(func(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) error {
		if *last < 0 {
			return cli.Usagef("--last is %d, it must not be negative", *last)
		}
		if *orders {
			return t.orders(ctx, cmd, s, *last)
		}
		return t.history(ctx, cmd, s, *last)
	})
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
		history,
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

func (t *tool) history(ctx context.Context, cmd *cobra.Command, s *store.Store, last int) error {
	list, err := s.History(ctx)
	if err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	if last > 0 {
		list = list[max(0, len(list)-last):]
	}
	return t.print(cmd, list, func(w io.Writer) error {
		if len(list) == 0 {
			note(cmd, "the history is empty")
			return nil
		}
		rows := [][]string{{"AT", "TERM", "BY", "TOOK", "OPERATION", "RESULT"}}
		for _, e := range list {
			result := "done"
			if e.Error != "" {
				result = "failed: " + e.Error
			}
			line := e.Line
			if e.Why != "" {
				line += "  # " + e.Why
			}
			rows = append(rows, []string{
				e.At.UTC().Format(time.RFC3339), fmt.Sprint(e.Term), string(e.By),
				e.Took.Round(time.Millisecond).String(), line, result,
			})
		}
		return cli.Rows(w, rows...)
	})
}

// An order is what was ordered of a node.
type order struct {
	Node cluster.NodeName `json:"node"`
	store.HistoryEntry
}

// orders prints what the nodes have written down of the orders that they got.
func (t *tool) orders(ctx context.Context, cmd *cobra.Command, s *store.Store, last int) error {
	all, err := s.Orders(ctx)
	if err != nil {
		return err
	}
	list := []order{}
	for node, entries := range all {
		for _, e := range entries {
			list = append(list, order{node, e})
		}
	}
	slices.SortFunc(list, func(a, b order) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(string(a.Node), string(b.Node)))
	})
	if last > 0 {
		list = list[max(0, len(list)-last):]
	}
	return t.print(cmd, list, func(w io.Writer) error {
		if len(list) == 0 {
			note(cmd, "no node has recorded an order")
			return nil
		}
		rows := [][]string{{"AT", "NODE", "TERM", "BY", "OPERATION", "RESULT"}}
		for _, o := range list {
			result := "done"
			if o.Error != "" {
				result = "failed: " + o.Error
			}
			rows = append(rows, []string{
				o.At.UTC().Format(time.RFC3339), string(o.Node), fmt.Sprint(o.Term), string(o.By), o.Line, result,
			})
		}
		return cli.Rows(w, rows...)
	})
}
