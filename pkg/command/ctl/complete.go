package ctl

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// words are the words of a completion that stand in the store.
func (t *tool) words(read func(ctx context.Context, s *store.Store) ([]string, error)) cli.Words {
	return func(ctx context.Context, cmd *cobra.Command) (list []string, err error) {
		err = t.open(ctx, cmd, nil, func(ctx context.Context, _ *cobra.Command, s *store.Store, _ []string) error {
			list, err = read(ctx, s)
			return err
		})
		return list, err
	}
}

// completeLost completes the names of --lost.
func (t *tool) completeLost(cmd *cobra.Command) {
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("lost", cli.CompleteList(t.words(t.nodeNamesIn)))
}

// backupNames are the names of the backups, newest first, and what stands for the first.
func backupNames(ctx context.Context, s *store.Store) ([]string, error) {
	all, err := s.Backups(ctx)
	list := []string{latest}
	for _, b := range all {
		list = append(list, b.Name)
	}
	return list, err
}

// nodeNamesIn are the names of the nodes.
func (t *tool) nodeNamesIn(ctx context.Context, s *store.Store) ([]string, error) {
	v, err := s.Poll(ctx)
	if err != nil {
		return nil, err
	}
	report, _, _, err := t.published(ctx, s)
	var list []string
	for _, n := range nodesIn(v, report) {
		list = append(list, string(n))
	}
	return list, err
}

// recordNames are the names of the nodes that have a record.
func recordNames(ctx context.Context, s *store.Store) ([]string, error) {
	v, err := s.Poll(ctx)
	var list []string
	for _, n := range v.Nodes {
		list = append(list, string(n.Name))
	}
	return list, err
}

// queuedNames are the names of what is queued.
func queuedNames(ctx context.Context, s *store.Store) ([]string, error) {
	v, err := s.Poll(ctx)
	var list []string
	for _, c := range v.Commands {
		list = append(list, c.Name)
	}
	for _, r := range v.Requests {
		list = append(list, r.Name)
	}
	return list, err
}
