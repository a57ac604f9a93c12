// Package ctl is the command line of etcd-manager-ctl: it reads and writes the
// control store, and never talks to etcd; of the daemons it only finds out whether they are there.
//
// The commands get, configure-cluster, list-backups, list-commands and
// delete-command have the names, flags and output of the existing tool, so that
// scripts written for it go on working.
package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/command/docs"
	"github.com/etcdadm/etcdadm/pkg/command/internal/backups"
	"github.com/etcdadm/etcdadm/pkg/command/internal/contexts"
	"github.com/etcdadm/etcdadm/pkg/command/internal/daemons"
	"github.com/etcdadm/etcdadm/pkg/command/internal/prune"
	"github.com/etcdadm/etcdadm/pkg/command/internal/storewait"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// storeVariable says where the store is, as it does to etcdadm.
const storeVariable = "ETCDADM_BACKUP_STORE"

// A tool holds the flags that all commands share.
type tool struct {
	location string
	// context is --context.
	context string
	// root has the flags of location and context. located says that it stands, find which daemons run
	// on this machine.
	root    *cobra.Command
	located bool
	find    func() ([]daemons.Daemon, error)
	// old is the directory that is taken where no daemon runs, if it is there.
	old string

	timeout time.Duration
	// publishedOnly is --published, and fromPublished what the context says of that.
	publishedOnly, fromPublished bool
	// screen says that the output is a screen, where a note would be in the way.
	screen bool

	out *cli.Output
	now func() time.Time

	// memberCount and etcdVersion are configure-cluster's. They may stand before
	// the command, as in the existing tool, and so belong to all.
	memberCount int
	risk        string
	// allowRestore is --allow-restore.
	allowRestore bool
	etcdVersion  string
}

// New returns the tree of commands.
func New() *cobra.Command { return newTree(daemons.Find, oldStore) }

func newTree(find func() ([]daemons.Daemon, error), old string) *cobra.Command {
	t := &tool{now: time.Now, find: find, old: old}
	root := &cobra.Command{
		Use:   "etcd-manager-ctl",
		Short: "read and queue requests in the control store of an etcd cluster",
		Long: `etcd-manager-ctl reads the control store of an etcd cluster, and queues requests in it.
Without a command it prints the spec, as get does.

The store is that of --backup-store or --context, of $` + storeVariable + `, of the context that $` +
			contexts.Variable + `
or "config use-context" names, or else that of the etcd-manager that runs on this machine.

Exit codes:
` + cli.CodeLines(),
		Version: cli.BuildVersion(),
		Args:    cli.Known,
		RunE:    t.legacy(t.get),

		// The existing tool ignores a flag that a command does not use, and what was meant does not happen.
		PersistentPreRunE: cli.Unused,
	}
	t.root = root
	flags := root.PersistentFlags()
	flags.StringVar(&t.location, storeFlag, "", "`URL` of the backup and control store, overrides $"+storeVariable+
		" (default: that of a context, of the daemon that runs on this machine, or "+oldStore+")")
	t.addContext(flags)
	cli.Chooses(flags, "store", storeFlag, contextFlag)
	// In the existing tool's lines they may stand before the command.
	flags.IntVar(&t.memberCount, "member-count", 0, "`number` of members")
	flags.StringVar(&t.etcdVersion, "etcd-version", "", "etcd `version`")
	for _, name := range []string{"member-count", "etcd-version"} {
		cli.OnlyFor(flags, name, "configure-cluster", "restore-backup")
	}
	flags.DurationVar(&t.timeout, "timeout", 30*time.Second, "how long to wait for the store")
	cli.AddKlogFlags(flags)
	t.out = cli.AddOutput(root, cli.Table, cli.JSON, cli.YAML)
	root.AddGroup(
		&cobra.Group{ID: "spec", Title: "Spec:"},
		&cobra.Group{ID: "show", Title: "Showing:"},
		&cobra.Group{ID: "queue", Title: "Requests:"},
		&cobra.Group{ID: "backups", Title: "Backups:"},
		&cobra.Group{ID: "contexts", Title: "Contexts:"},
	)
	root.AddCommand(t.specCommands()...)
	root.AddCommand(t.observeCommands()...)
	root.AddCommand(t.queueCommands()...)
	root.AddCommand(t.backupCommands()...)
	root.AddCommand(t.contextCommands())
	root.AddCommand(cli.VersionCommand(t.out), docs.New(root.Name()))
	return root
}

// backupCommands are those on backups that are in the store. They take the time
// that they need.
func (t *tool) backupCommands() []*cobra.Command {
	open := func(ctx context.Context) (*store.Store, error) {
		if err := t.locate(); err != nil {
			return nil, err
		}
		return t.openStore(ctx)
	}
	list := append(backups.Commands(backups.Options{
		Open: open, OpenAt: t.openAt, Now: t.now, Tool: "etcd-manager-ctl " + cli.BuildVersion(),
		NoCluster: func() error { return &noClusterError{t.noCluster(), t.begin()} },
		Location:  t.where, Timeout: func() time.Duration { return t.timeout },
	}), prune.New(prune.Options{Open: open, Out: t.out, Now: t.now}))
	for _, c := range list {
		c.GroupID = "backups"
	}
	return list
}

// A do is what a command does with an open store.
type do func(ctx context.Context, cmd *cobra.Command, s *store.Store, args []string) error

// run returns the cobra function that opens the store for f. The store must
// answer everything within --timeout.
func (t *tool) run(f do) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), t.timeout)
		defer cancel()
		return t.open(ctx, cmd, args, f)
	}
}

// legacy is run for a command of the existing tool, whose first line of text
// names the store.
func (t *tool) legacy(f do) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := t.locate(); err != nil {
			return err
		}
		if t.out.Text() {
			fmt.Fprintf(cmd.OutOrStdout(), "Backup Store: %s\n", store.Shown(t.location))
		}
		return t.run(f)(cmd, args)
	}
}

func (t *tool) open(ctx context.Context, cmd *cobra.Command, args []string, f do) error {
	if err := t.locate(); err != nil {
		return err
	}
	if err := t.decidePublished(cmd); err != nil {
		return err
	}
	s, err := t.openStore(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	err = t.named(f(ctx, cmd, s, args), time.Since(began))
	// Also where ctx has ended: what is left to do is little.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if closing := s.Close(ctx); err == nil && closing != nil {
		err = fmt.Errorf("close the store: %w", closing)
	}
	return err
}

// openStore opens the store, and says so to a person where it does not answer for long; not
// where a screen shows that.
func (t *tool) openStore(ctx context.Context) (*store.Store, error) {
	reported := t.root.ErrOrStderr()
	if t.screen {
		reported = io.Discard
	}
	s, err := storewait.Open(ctx, t.location, t.timeout, reported)
	if err != nil {
		return nil, cli.Usagef("--backup-store: %v", err)
	}
	return s, nil
}

// openAt opens a store that is named with its backup, for which no --timeout counts.
func (t *tool) openAt(ctx context.Context, location string) (*store.Store, error) {
	return storewait.Open(ctx, location, 0, t.root.ErrOrStderr())
}

// named adds to an error that the store is away, or denies, which store that is, and after how
// long.
func (t *tool) named(err error, took time.Duration) error {
	if errors.Is(err, store.ErrUnreachable) && took >= time.Second {
		return fmt.Errorf("store %s, after %s: %w", store.Shown(t.location), took.Round(time.Second), err)
	}
	if errors.Is(err, store.ErrUnreachable) || errors.Is(err, store.ErrDenied) {
		return fmt.Errorf("store %s: %w", store.Shown(t.location), err)
	}
	return err
}

// paste makes the command lines of a text such that are about the store of cmd.
func (t *tool) paste(cmd *cobra.Command) func(text string) string {
	flag := cli.StoreFlag(cmd, t.location)
	return func(text string) string { return plan.AtStore(text, flag) }
}

func (t *tool) print(cmd *cobra.Command, v any, text func(w io.Writer) error) error {
	t.out.Paste = t.paste(cmd)
	return t.out.Print(cmd.OutOrStdout(), v, text)
}

// warn warns a person that what was asked for may be a mistake.
func warn(cmd *cobra.Command, format string, args ...any) {
	fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", cli.Plain(cli.Pasteable(cmd, fmt.Sprintf(format, args...))))
}

// note prints something that is not what was asked for.
func note(cmd *cobra.Command, format string, args ...any) {
	fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", cli.Plain(cli.Pasteable(cmd, fmt.Sprintf(format, args...))))
}
