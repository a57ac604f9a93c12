package ctl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/top"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// readLimit is how long one read may take before the screen says that there is no answer.
const readLimit = 10 * time.Second

func (t *tool) topCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "top", Short: "show the cluster on the terminal, live", GroupID: "show",
		Long: `top shows what the coordinator published last, and what was done: members with the sizes of
their databases and the latencies of their disks, what goes on, and what holds it back. It is read again every
--interval. Runs until interrupted. Reports an unreachable store and retries.

Colours are left out where NO_COLOR is set. Into a pipe it prints one page below the other.`,
		Example: "  etcd-manager-ctl top\n  etcd-manager-ctl top --count=1 | mail -s etcd root",
		Args:    cobra.NoArgs,
	}
	interval := cmd.Flags().Duration("interval", 2*time.Second, "how often the store is read")
	count := cmd.Flags().Int("count", 0, "end after this `number` of pages; 0 for no end")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !t.out.Text():
			return &cli.UsageError{Text: "top is for people", Next: "etcd-manager-ctl status --watch -o json"}
		case *interval <= 0:
			return cli.Usagef("--interval is %s, it must be positive", *interval)
		case *count < 0:
			return cli.Usagef("--count is %d, it must not be negative", *count)
		}
		return t.top(cmd, args, *interval, *count)
	}
	return cmd
}

// top shows the cluster on the terminal, or prints pages where there is none.
func (t *tool) top(cmd *cobra.Command, args []string, interval time.Duration, count int) error {
	t.screen = true
	limit := min(t.timeout, readLimit)
	if cmd.Flags().Changed("timeout") {
		limit = t.timeout
	}
	show := func(ctx context.Context, cmd *cobra.Command, s *store.Store, _ []string) error {
		screen := top.Printed(cmd.OutOrStdout())
		if count == 0 { // pages that end stay to be read
			if live, leave, ok := top.OnTerminal(cmd.OutOrStdout()); ok {
				screen = live
				defer leave()
			}
		}
		return top.Run(ctx, func(ctx context.Context) (top.Sample, error) { return t.sample(ctx, s) }, screen, top.Config{
			Where: store.Shown(t.location), Interval: interval, Timeout: limit, Count: count, Now: t.now,
		})
	}
	return t.open(cmd.Context(), cmd, args, show)
}

func (t *tool) sample(ctx context.Context, s *store.Store) (top.Sample, error) {
	v, err := t.view(ctx, s)
	if err != nil {
		return top.Sample{}, err
	}
	sample := top.Sample{Status: v.status.AtStore(cli.StoreFlag(t.root, t.location))}
	if v.empty {
		sample.Status.Notes = append(sample.Status.Notes, t.noCluster())
	}
	p, err := s.Past(ctx)
	sample.History, sample.HistoryNote = p.Entries, p.Note
	switch {
	case errors.Is(err, store.ErrGarbage):
		sample.HistoryProblem = err.Error()
	case err != nil:
		return top.Sample{}, fmt.Errorf("read the history: %w", err)
	}
	return sample, nil
}
