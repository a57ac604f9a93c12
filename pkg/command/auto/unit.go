package auto

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/manager"
	"github.com/etcdadm/etcdadm/pkg/daemon"
)

// newUnit returns "auto unit". It has the daemon's flags, and reads them as
// the daemon does, so that a unit that is printed starts.
func newUnit() *cobra.Command {
	program := ""
	cmd := daemonCommand("unit STORE-URL", false, func(cmd *cobra.Command) manager.Run {
		return func(_ context.Context, c daemon.Config, _ *slog.Logger) error {
			words := append([]string{program, "auto", c.BackupStore}, given(cmd, "program")...)
			_, err := fmt.Fprint(cmd.OutOrStdout(), unit(c, words))
			return err
		}
	})
	cmd.Short = "print a systemd unit that runs auto"
	cmd.Long = `unit prints a systemd unit that runs auto with the given store and flags. Address and name of the machine are
found at start unless flags give them, so all machines can have the same unit.`
	cmd.Example = "  etcdadm auto unit file:///mnt/etcd-store >/etc/systemd/system/etcdadm.service && systemctl enable " +
		"--now etcdadm"
	self, err := os.Executable()
	if err != nil {
		self = "/usr/local/bin/etcdadm"
	}
	cmd.Flags().StringVar(&program, "program", self, "`path` of etcdadm on the machine")
	return cmd
}

// unit returns the text of the unit.
func unit(c daemon.Config, words []string) string {
	for i, w := range words {
		words[i] = unitWord(w)
	}
	mounts := []string{unitWord(c.DataDir)}
	if local(c.BackupStore) {
		mounts = append(mounts, unitWord(strings.TrimPrefix(c.BackupStore, "file://")))
	}
	return strings.Join([]string{
		"[Unit]",
		"Description=etcd cluster " + strings.ReplaceAll(cli.Plain(c.ClusterName), "%", "%%") + " (etcdadm auto)",
		"Wants=network-online.target",
		"After=network-online.target",
		"RequiresMountsFor=" + strings.Join(mounts, " "),
		// It restarts for ever: the reason may be a store that is down.
		"StartLimitIntervalSec=0",
		"",
		"[Service]",
		"ExecStart=" + strings.Join(words, " "),
		"Restart=always",
		"RestartSec=5s",
		// It stops etcd itself, and gives it the time.
		"KillMode=mixed",
		"TimeoutStopSec=90s",
		"LimitNOFILE=65536",
		"MemoryLow=200M",
		"OOMScoreAdjust=-997",
		// An etcd that is killed for memory is started again by its daemon at once;
		// systemd would stop the daemon too.
		"OOMPolicy=continue",
		"NoNewPrivileges=yes",
		"ProtectKernelModules=yes",
		"ProtectKernelTunables=yes",
		"ProtectControlGroups=yes",
		"RestrictRealtime=yes",
		"RestrictSUIDSGID=yes",
		"",
		"[Install]",
		"WantedBy=multi-user.target",
		"",
	}, "\n")
}
