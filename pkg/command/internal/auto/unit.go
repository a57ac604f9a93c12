package auto

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/command/internal/manifest"
	"github.com/etcdadm/etcdadm/pkg/command/manager"
	"github.com/etcdadm/etcdadm/pkg/daemon"
)

// newUnit returns "auto unit". It has the daemon's flags, and reads them as
// the daemon does, so that a unit that is printed starts.
func newUnit() *cobra.Command {
	program := ""
	cmd := daemonCommand("unit STORE-URL", false, func(cmd *cobra.Command) manager.Run {
		return func(_ context.Context, c daemon.Config, _ *slog.Logger) error {
			words := append([]string{"auto", c.BackupStore}, given(cmd, "program")...)
			text, err := manifest.Daemon{Flags: cmd.Flags(), Args: words}.Unit(
				"etcd cluster "+c.ClusterName+" (etcdadm auto)", program)
			if err == nil {
				_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			}
			return err
		}
	})
	cmd.Short = "print a systemd unit that runs auto"
	cmd.Long = `unit prints a systemd unit that runs auto with the given store and flags. Address and name of the machine are
found at start unless flags give them, so all machines can have the same unit. "etcdadm render etcd-manager
--as=systemd-unit" prints that of etcd-manager itself.`
	cmd.Example = "  etcdadm auto unit file:///mnt/etcd-store >/etc/systemd/system/etcdadm.service && systemctl enable " +
		"--now etcdadm"
	self, err := os.Executable()
	if err != nil {
		self = "/usr/local/bin/etcdadm"
	}
	cmd.Flags().StringVar(&program, "program", self, "`path` of etcdadm on the machine")
	return cmd
}
