package ctl

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/contexts"
	"github.com/etcdadm/etcdadm/pkg/command/internal/top"
	"github.com/etcdadm/etcdadm/pkg/command/render"
	"github.com/etcdadm/etcdadm/pkg/daemon/fleet"
	"github.com/etcdadm/etcdadm/pkg/store"
)

func (t *tool) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "print the state of the cluster", GroupID: "show",
		Long: `status prints what the coordinator published last: members, nodes, the last backup, what is being done and what
holds it back. It asks the daemons whether they are there. It says STALE where what was published is older than three
minutes, or none of them answers from here, and says so if it is missing; --published asks none. With --watch a
terminal shows what "top" does; otherwise the status is printed again whenever it changes. "etcdadm status" asks the
daemons what they see.`,
		Args: cobra.NoArgs,
	}
	check := render.AddCheck(cmd)
	watch := cmd.Flags().Bool("watch", false, "show it on the terminal, live, or print it again whenever it changes")
	interval := cmd.Flags().Duration("interval", 2*time.Second, "how often --watch reads the status")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *watch && *check:
			return cli.Usagef("--watch does not end, so --check has no effect with it")
		case *watch && *interval <= 0:
			return cli.Usagef("--interval is %s, it must be positive", *interval)
		case *watch && t.out.Text() && top.IsTerminal(cmd.OutOrStdout()):
			return t.top(cmd, args, *interval, 0)
		case *watch:
			return t.open(cmd.Context(), cmd, args,
				func(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) error {
					return t.watch(ctx, cmd, s, *interval)
				})
		}
		return t.run(func(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) error {
			v, err := t.view(ctx, s)
			if err != nil {
				return err
			}
			switch err := t.show(cmd, v); {
			case err != nil:
				return err
			case v.empty:
				return &noClusterError{t.noCluster(), t.begin()}
			case *check:
				return v.status.Check()
			}
			return nil
		})(cmd, args)
	}
	return cmd
}

// A view is a status with what it was made of, by which two are distinguished.
type view struct {
	status render.Status
	source string
	// empty says that the store is of no cluster.
	empty bool
}

func (t *tool) view(ctx context.Context, s *store.Store) (view, error) {
	control, err := s.Poll(ctx)
	if err != nil {
		return view{}, fmt.Errorf("read the control store: %w", err)
	}
	report, raw, text, err := t.published(ctx, s)
	if err != nil {
		return view{}, err
	}
	begun := true
	if raw == nil && control.Spec == nil && len(control.Nodes) == 0 {
		if begun, err = s.Begun(ctx); err != nil {
			return view{}, fmt.Errorf("look for the cluster: %w", err)
		}
	}
	asked, err := t.asked(report, control)
	if err != nil {
		return view{}, err
	}
	st := render.NewPublished(report, asked, t.now())
	st.Requests = fleet.Requests(control)
	if text != "" {
		st.Notes = append(st.Notes, text)
	}
	if spec := control.Spec; spec != nil && (report == nil || store.SpecFileOf(report.Spec) != *spec) {
		st.Notes = append(st.Notes,
			fmt.Sprintf("the spec in the store is %s; no coordinator has published that it has seen it", specText(*spec)))
	}
	st.Notes = append(st.Notes, control.Problems...)
	for _, n := range control.Nodes {
		st.Nodes = append(st.Nodes, n.Name)
	}
	if report == nil && len(st.Nodes) > 0 {
		st.Notes = append(st.Notes, fmt.Sprintf("records of nodes are there: %s", st.Nodes))
	}
	doubt := doubts(st, t.now()) // with ages, which are no change
	rest, err := json.Marshal([]any{st.Notes, st.Requests, st.Nodes, st.Stale, len(doubt)})
	if err != nil {
		return view{}, fmt.Errorf("compare: %w", err)
	}
	if st.Stale && asked != nil {
		doubt = append(doubt, "where the machines cannot be reached from here, --published, or "+
			contexts.PublishedVariable+"=true, asks none of them")
	}
	st.Notes = append(doubt, st.Notes...)
	return view{status: st, source: string(raw) + string(rest), empty: !begun}, nil
}

func (t *tool) show(cmd *cobra.Command, v view) error {
	return t.print(cmd, v.status, func(w io.Writer) error { return v.status.Write(w, t.now()) })
}

// watch shows the status whenever it changes, until the context ends, which is
// how one leaves it. A store that stops answering is noted and asked again; one
// that does not answer at all is an error.
func (t *tool) watch(ctx context.Context, cmd *cobra.Command, s *store.Store, interval time.Duration) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	shown, failed := "", ""
	for first := true; ; first = false {
		v, err := t.viewInTime(ctx, s)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil && err.Error() != failed:
			failed = err.Error()
			note(cmd, "%v", err)
		case err == nil && v.source != shown:
			if !first && t.out.Text() {
				fmt.Fprintln(cmd.OutOrStdout(), "\n----")
			}
			if err := t.show(cmd, v); err != nil {
				return err
			}
			shown, failed = v.source, ""
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (t *tool) viewInTime(ctx context.Context, s *store.Store) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	v, err := t.view(ctx, s)
	if v.empty {
		v.status.Notes = append(v.status.Notes, t.noCluster())
	}
	return v, err
}
