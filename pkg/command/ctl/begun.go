package ctl

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// request is run for a command that asks something of a cluster. Only configure-cluster
// begins a store: elsewhere a request would wait, in a place that was mistyped, for a
// coordinator that never looks there.
func (t *tool) request(f do) do {
	return func(ctx context.Context, cmd *cobra.Command, s *store.Store, args []string) error {
		begun, err := s.Begun(ctx)
		if err != nil {
			return fmt.Errorf("look for the cluster: %w", err)
		}
		if !begun {
			return &cli.RefusedError{Text: t.noCluster(), Next: t.begin()}
		}
		return f(ctx, cmd, s, args)
	}
}

// shows is run for a command that only shows what a store holds: it has nothing to show where
// that is of no cluster.
func (t *tool) shows(f do) do {
	return func(ctx context.Context, cmd *cobra.Command, s *store.Store, args []string) error {
		switch begun, err := s.Begun(ctx); {
		case err != nil:
			return fmt.Errorf("look for the cluster: %w", err)
		case !begun:
			return &noClusterError{t.noCluster(), t.begin()}
		}
		return f(ctx, cmd, s, args)
	}
}

// noCluster says what was looked for, and where.
func (t *tool) noCluster() string {
	return fmt.Sprintf("the store %s is of no cluster: it holds no spec, no record below control/ and no backup",
		store.Shown(t.location))
}

// begin is the next step where there is no cluster.
func (t *tool) begin() string {
	return "check --" + storeFlag + "; if it is right, begin the cluster: " +
		cli.Ctl(t.location, "--member-count=3 --etcd-version="+defaultVersion+" configure-cluster")
}

// A noClusterError is why there is nothing to show.
type noClusterError struct{ text, hint string }

func (e *noClusterError) Error() string { return e.text }

// Kind is that of a cluster of which nothing is known.
func (e *noClusterError) Kind() string { return cli.KindUnknown }

// Hint is the next step.
func (e *noClusterError) Hint() string { return e.hint }
