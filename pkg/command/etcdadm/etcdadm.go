// Package etcdadm is the command line of etcdadm: one command for each
// operation there is, made from their list in package plan, and commands that
// look and plan.
package etcdadm

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/plan"
)

// A Cluster is the live cluster as the commands see it.
type Cluster interface {
	// Observe looks once.
	Observe(ctx context.Context) (cluster.Spec, cluster.Observation, error)
	// Do carries out op: it waits until op's preconditions can hold (for what
	// clears by itself: a learner that catches up), acts under a lease of its own,
	// and returns when op is done or ctx ends.
	Do(ctx context.Context, op plan.Operation) error
	// Close gives back what Open took.
	Close() error
}

// An Opener connects to a cluster. It returns within ctx.
type Opener func(ctx context.Context, o ConnectOptions) (Cluster, error)

// A tool holds what the commands share.
type tool struct {
	open    Opener
	connect ConnectOptions
	out     *cli.Output
}

// New returns the tree of commands. They reach the cluster through open.
func New(open Opener) *cobra.Command {
	t := &tool{open: open}
	root := &cobra.Command{
		Use:   "etcdadm",
		Short: "change and look at an etcd cluster, one step at a time",
		Long: "etcdadm changes and looks at an etcd cluster, one step at a time. Every change that the daemon can make is\n" +
			"one of its commands. \"etcdadm plan\" prints the steps that lead to the spec; sh -e can run them.\n\n" +
			"Each flag of the section Global Flags is also read from the environment: --cluster-name from\n" +
			"ETCDADM_CLUSTER_NAME, and so on.\n\nExit codes:\n" + cli.CodeLines(),
		Version: cli.BuildVersion(),
		Args:    cli.Known,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	t.connect.addFlags(root.PersistentFlags())
	cli.AddKlogFlags(root.PersistentFlags())
	t.out = cli.AddOutput(root, cli.Table, cli.JSON, cli.YAML)
	root.AddGroup(&cobra.Group{ID: "look", Title: "Looking and planning:"}, &cobra.Group{ID: "do", Title: "Operations:"})
	root.AddCommand(t.observeCommand(), t.planCommand(), t.statusCommand(), cli.VersionCommand(t.out))
	t.addOperations(root)
	return root
}

// run opens the cluster for f. All of it must end within --timeout.
func (t *tool) run(cmd *cobra.Command, f func(ctx context.Context, c Cluster) error) error {
	if err := t.connect.complete(cmd.Flags()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), t.connect.Timeout)
	defer cancel()
	c, err := t.open(ctx, t.connect)
	if err == nil {
		err = f(ctx, c)
		if closing := c.Close(); err == nil {
			err = closing
		}
	}
	return t.inTime(ctx, err)
}
