// Package etcdadm is the command line of etcdadm: one command for each
// operation there is, made from their list in package plan, and commands that
// observe and plan.
package etcdadm

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/command/internal/contexts"
	"github.com/etcdadm/etcdadm/pkg/command/internal/daemons"
)

// A Cluster is the live cluster as the commands see it.
type Cluster interface {
	// Observe observes once.
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
	// context names a context, from which comes what no flag says.
	context string
	out     *cli.Output
	// find finds the daemons on this machine. here says that one of them is asked, which has
	// its metrics port at metrics, or that a context says where the cluster is.
	find    func() ([]daemons.Daemon, error)
	here    bool
	metrics string
}

// connected gives a command, and those below it, the flags that say where the
// cluster is.
func (t *tool) connected(cmd *cobra.Command) *cobra.Command {
	cmd.PersistentFlags().StringVar(&t.context, contextFlag, "",
		"`name` of a cluster that \"etcd-manager-ctl config set-context\" has remembered")
	_ = cmd.RegisterFlagCompletionFunc(contextFlag, contexts.Complete) // the flag is there
	t.connect.addFlags(cmd.PersistentFlags())
	cli.Chooses(cmd.PersistentFlags(), "cluster", append([]string{contextFlag}, connectFlags[:len(connectFlags)-1]...)...)
	cli.Sections(cmd, connectSection)
	return cmd
}

// contextFlag is the flag that stands for others.
const contextFlag = "context"

// connectSection is the heading of those flags in help.
var connectSection = cli.FlagSection{
	Title:  "Where the cluster is",
	Common: []string{"context", "backup-store", "cluster-name", "nodes", "pki-dir", "timeout"},
	More:   []string{"cert", "key", "cacert", "etcd-cert", "etcd-key", "etcd-cacert", "insecure", "etcd-insecure"},
}

// levels are the values of --log-level, as the retired etcdadm had them.
var levels = []string{"debug", "info", "warn", "error", "fatal", "panic"}

// New returns the tree of commands. Those on a cluster with daemons reach it
// through open.
func New(open Opener, parts ...*cobra.Command) *cobra.Command {
	return newTree(open, daemons.Find, parts...)
}

func newTree(open Opener, find func() ([]daemons.Daemon, error), parts ...*cobra.Command) *cobra.Command {
	t := &tool{open: open, find: find}
	root := &cobra.Command{
		Use:   "etcdadm",
		Short: "run etcd: make, grow, fix, back up and check a cluster",
		Long: `etcdadm runs etcd on machines: it makes a cluster, adds and removes members, issues certificates, and shows the
state of it all. The commands of the first group work on the machine that they run on. "Showing and planning" and
"Operations" are for a cluster that etcd-manager runs: every change that the daemon can make is one of
the operations. "etcdadm plan" prints the steps that lead to the spec, and "sh -e" can run them.

Flags that describe the machine's etcd, or say where the daemons are, can also be set in the environment:
--bind-address as ETCDADM_BIND_ADDRESS, and so on.

Exit codes:
` + cli.CodeLines(),
		Version: cli.BuildVersion(),
		Args:    cli.Known,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	level := cli.Choice(levels, "info")
	root.PersistentFlags().VarP(level, "log-level", "l",
		"how much to log on standard error: "+strings.Join(levels, ", "))
	cli.AddKlogFlags(root.PersistentFlags())
	root.AddGroup(
		&cobra.Group{ID: "machine", Title: "On this machine:"}, &cobra.Group{ID: "etcd", Title: "On a running etcd:"},
		&cobra.Group{ID: "auto", Title: "Automatic:"},
		&cobra.Group{ID: "show", Title: "Showing and planning:"}, &cobra.Group{ID: "do", Title: "Operations:"},
		&cobra.Group{ID: "seldom", Title: "Seldom needed:"},
	)
	t.out = cli.AddOutput(root, cli.Table, cli.JSON, cli.YAML)
	root.AddCommand(parts...)
	root.AddCommand(t.connected(t.observeCommand()), t.connected(t.planCommand()), t.statusCommand(),
		t.connected(t.dashboardCommand()), versionCommand(t.out))
	t.addUpgradePlan(root)
	t.addOperations(root)
	cli.Fold(root, "do", "operations", "the single steps that a plan is made of")
	cli.Fold(root, "seldom", "seldom", "repairs that a message asks for, and manual pages")
	return root
}

// run opens the cluster for f. All of it must end within --timeout.
func (t *tool) run(cmd *cobra.Command, f func(ctx context.Context, c Cluster) error) error {
	if _, err := t.fromHere(cmd); err != nil {
		return err
	}
	if err := t.connect.complete(cmd.Flags(), t.here); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), t.connect.Timeout)
	defer cancel()
	t.connect.Progress = cmd.ErrOrStderr()
	flag := cli.StoreFlag(cmd, t.connect.BackupStore)
	t.out.Paste = func(text string) string { return plan.AtStore(text, flag) }
	t.connect.Answered = cli.Waiting(cmd.ErrOrStderr(), t.connect.waiting)
	defer t.connect.Answered()
	c, err := t.open(ctx, t.connect)
	if err == nil {
		err = f(ctx, c)
		if closing := c.Close(); err == nil {
			err = closing
		}
	}
	return t.inTime(ctx, err)
}
