// Package backup is the command line of etcd-backup, which is to back up any
// etcd into a backup store. Nothing of it is there yet but its version.
package backup

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
)

// New returns the tree of commands.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:     "etcd-backup",
		Short:   "back up any etcd into a backup store (in a later release)",
		Version: cli.BuildVersion(),
		Args:    cli.Known,
		RunE: func(*cobra.Command, []string) error {
			return cli.WithHint(errors.New("etcd-backup comes with a later release"), "the daemon etcd-manager takes backups of its cluster")
		},
	}
	// The flags of the existing tool are taken, so that what is said is the
	// truth about the release and not about a flag.
	fs := root.Flags()
	for _, name := range []string{
		"cluster-name", "backup-store", "data-dir", "client-url", "interval",
		"client-ca-file", "client-cert-file", "client-key-file",
	} {
		fs.String(name, "", "for a later release")
	}
	cli.AddKlogFlags(root.PersistentFlags())
	root.AddCommand(cli.VersionCommand(cli.AddOutput(root, cli.Table, cli.JSON, cli.YAML)))
	return root
}
