// Package manager is the command line of etcd-manager. It takes every flag of
// the existing etcd-manager, with one dash or two, and some of its own.
package manager

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/docs"
	"github.com/etcdadm/etcdadm/pkg/command/statuspage"
	"github.com/etcdadm/etcdadm/pkg/daemon"
	"github.com/etcdadm/etcdadm/pkg/internal/timerslack"
)

// A Run runs the daemon until its context ends: [daemon.Run] outside of tests.
type Run func(ctx context.Context, c daemon.Config, log *slog.Logger) error

// New returns the root command.
func New(run Run) *cobra.Command {
	var cmd *cobra.Command
	cmd = Command(func(ctx context.Context, c daemon.Config, log *slog.Logger) error {
		// The existing daemon's first line; scripts look for it.
		fmt.Fprintln(cmd.OutOrStdout(), "etcd-manager")
		return run(ctx, c, log)
	})
	cmd.Use = "etcd-manager"
	cmd.Version = cli.BuildVersion()
	cmd.AddCommand(cli.VersionCommand(nil), docs.New(cmd.Name()))
	return cmd
}

// FoundAtStart is an annotation of the flag address, of commands that only print how the daemon is
// started: it finds its own address then, where none is given.
const FoundAtStart = "etcdadm_found_at_start"

// Command returns the daemon's command for others to name: with all flags, and
// nothing else.
func Command(run Run) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Short:         "run one member of an etcd cluster, and manage the cluster together with the other daemons",
		Args:          cli.Known,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.readEnvFile(); err != nil {
				return cli.Usagef("%v", err)
			}
			_, f.findsAddress = cmd.Flags().Lookup("address").Annotations[FoundAtStart]
			c, err := f.config(cmd.Context(), os.Environ(), f.logger(cmd.ErrOrStderr()))
			if err != nil && cmd.Context().Err() != nil {
				return nil // it was ended while it waited for its volume
			}
			if err != nil {
				return &cli.UsageError{Text: err.Error(), Next: f.next(cmd)}
			}
			c.EtcdLog, c.Page = cmd.OutOrStdout(), statuspage.New
			limitMemory(os.Getenv)
			_ = timerslack.Widen(timerSlack) // without it the daemon only takes more processor time
			go keepFewPages(cmd.Context())
			return run(cmd.Context(), c, f.logger(cmd.ErrOrStderr()))
		},
	}
	f.add(cmd.Flags())
	cli.Sections(cmd, sections...)
	return cmd
}

// memoryLimit is how much memory the daemon may take before its garbage
// collector works as hard as it can, eight times what it has at rest. etcd dies
// with its daemon, so the daemon must not be what fills the machine.
const memoryLimit = 256 << 20

// gcPercent is how much the heap may grow, in percent, before it is collected.
// The daemon makes little garbage: collecting it twice as often as by default
// costs no processor time that can be measured, and saves 6 MiB of 38.
const gcPercent = 50

// limitMemory sets the limits where the environment (GOMEMLIMIT, GOGC) does not.
func limitMemory(env func(string) string) {
	if env("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	if env("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// needs is a command line that a daemon starts with, for who has not named what it needs.
const needs = "--cluster-name=etcd --backup-store=file:///mnt/etcd-store --data-dir=/var/lib/etcd-manager " +
	"--address=IP-OF-THIS-MACHINE"

// next is the hint for flags that no daemon starts with.
func (f *flags) next(cmd *cobra.Command) string {
	if help := cmd.CommandPath() + " --help"; f.clusterName != "" && f.backupStore != "" {
		return help
	}
	return "as an example: " + cmd.CommandPath() + " " + needs + "; etcdadm auto has defaults for all of them"
}
