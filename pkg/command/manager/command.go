// Package manager is the command line of etcd-manager. It takes every flag of
// the existing etcd-manager, with one dash or two, and some of its own.
package manager

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/daemon"
)

// New returns the root command. run is what it does with its configuration:
// [daemon.Run] outside of tests.
func New(run func(ctx context.Context, c daemon.Config, log *slog.Logger) error) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:           "etcd-manager",
		Short:         "run one member of an etcd cluster, and agree with the other daemons about the rest",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       cli.BuildVersion(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.readEnvFile(); err != nil {
				return cli.Usagef("%v", err)
			}
			c, err := f.config(os.Environ())
			if err != nil {
				return cli.Usagef("%v", err)
			}
			c.EtcdLog = cmd.OutOrStdout()
			// The existing daemon's first line; scripts look for it.
			fmt.Fprintln(cmd.OutOrStdout(), "etcd-manager")
			return run(cmd.Context(), c, f.logger(cmd.ErrOrStderr()))
		},
	}
	f.add(cmd.Flags())
	return cmd
}
