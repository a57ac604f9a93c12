// Package auto has the commands of etcdadm for a cluster that runs itself:
// seed says once what it should be, auto runs on each machine.
package auto

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/manager"
	"github.com/etcdadm/etcdadm/pkg/daemon"
	"github.com/etcdadm/etcdadm/pkg/internal/hostaddr"
)

// New returns the command auto. run is what it does: [daemon.Run] outside of tests.
func New(run manager.Run) *cobra.Command { return newAuto(run) }

// defaults are the values of the daemon's flags where they differ from those of
// etcd-manager, which are kops'.
var defaults = map[string]string{
	"cluster-name": "etcd",
	"data-dir":     cluster.ManagerDir,
	"pki-dir":      cluster.AutoPKI,
	"client-urls":  cluster.AutoClientURL,
}

// hidden are flags that auto has another way for, or that only make sense in a
// cloud's pod.
var hidden = []string{
	"backup-store", "containerized", "volume-provider", "volume-tag", "volume-name-tag", "network-cidr", "static-config",
}

// other are flags of auto that are another name of the daemon's.
var other = map[string]string{"name": "node-name", "bind-address": "address"}

func newAuto(run manager.Run) *cobra.Command {
	cmd := daemonCommand("auto STORE-URL", true, func(*cobra.Command) manager.Run { return run })
	cmd.Short = "run this machine's member of a cluster that runs itself"
	cmd.Long = `auto runs this machine's member of etcd. It finds the other machines through the store, and together they
keep the cluster as the spec in the store says: they bootstrap it, replace members and take backups. auto
runs until it is stopped, and stops etcd then. "auto unit" and "auto manifest" print what starts it at boot.

"etcdadm seed" writes the spec, before the first machine. The daemons trust each other by three CAs in --pki-dir,
the same on all machines. "auto pki" makes them, once.

auto is etcd-manager with the defaults of a plain machine, in one program with etcdadm.`
	cmd.Example = "  etcdadm seed file:///mnt/etcd-store version=3.6.16 nodes=3\n  etcdadm auto file:///mnt/etcd-store"
	cmd.AddCommand(newUnit(), newManifest(), newPKI())
	return cmd
}

// daemonCommand returns the daemon's command with the store as its argument.
// Where it is here that it is to run, what the machine knows is filled in.
func daemonCommand(use string, here bool, run func(cmd *cobra.Command) manager.Run) *cobra.Command {
	var cmd *cobra.Command
	cmd = manager.Command(func(ctx context.Context, c daemon.Config, log *slog.Logger) error {
		return run(cmd)(ctx, c, log)
	})
	start := cmd.RunE
	flags := cmd.Flags()
	for name, value := range defaults {
		setDefault(flags, name, value)
	}
	for name, of := range other {
		f := flags.Lookup(of)
		flags.Var(f.Value, name, f.Usage)
		f.Hidden = true
	}
	flags.Lookup("bind-address").Usage = "IP `address` to listen on and to announce (default: that of the " +
		"default route)"
	flags.Lookup("name").Usage = "`name` of this machine and of its member (default: the host name)"
	flags.Lookup("cluster-name").Usage = "`name` of the etcd cluster"
	clientPort := flags.Uint16("client-port", cluster.EtcdClientPort, "etcd's port for clients")
	peerPort := flags.Uint16("peer-port", cluster.EtcdPeerPort, "etcd's port for its peers")
	for _, name := range hidden {
		flags.Lookup(name).Hidden = true
	}
	if !here {
		_ = flags.SetAnnotation("address", manager.FoundAtStart, nil) // the flag is there
	}
	cmd.Use = use
	cmd.Args = needStore
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		// The daemon's own flags; they have no form that could be wrong here.
		_ = flags.Lookup("backup-store").Value.Set(args[0])
		for name, port := range map[string]*uint16{"client": clientPort, "peer": peerPort} {
			if flags.Changed(name + "-port") {
				_ = flags.Lookup(name + "-urls").Value.Set(fmt.Sprintf("https://__address__:%d", *port))
			}
		}
		switch {
		case here:
			if err := fillIn(flags); err != nil {
				return err
			}
		case local(args[0]) && !filepath.IsAbs(strings.TrimPrefix(args[0], "file://")):
			return cli.Usagef("the directory %s must be an absolute path: at boot a relative one is another directory", args[0])
		}
		return start(cmd, nil)
	}
	return cmd
}

func setDefault(flags *pflag.FlagSet, name, value string) {
	f := flags.Lookup(name)
	_ = f.Value.Set(value) // all are strings
	f.DefValue = value
}

func needStore(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return &cli.UsageError{
			Text: fmt.Sprintf("%s needs the URL of the store, and nothing else", cmd.CommandPath()),
			Next: cmd.CommandPath() + " file:///mnt/etcd-store; etcdadm seed writes the spec into it",
		}
	}
	return nil
}

// fillIn sets what no flag says: the address, and the name where the data
// directory has none.
func fillIn(flags *pflag.FlagSet) error {
	if f := flags.Lookup("address"); f.Value.String() == "" {
		address, err := hostaddr.Default(false)
		if err != nil {
			return err
		}
		_ = f.Value.Set(address)
	}
	name := flags.Lookup("node-name")
	if name.Value.String() != "" {
		return nil
	}
	// A machine that ran before keeps its name, whatever its host name is by now.
	_, err := os.Stat(filepath.Join(flags.Lookup("data-dir").Value.String(), "myid"))
	if !errors.Is(err, fs.ErrNotExist) {
		return nil // the daemon reads it, or says what is wrong with it
	}
	host, err := os.Hostname()
	if err != nil {
		return cli.WithHint(err, "name the machine with --name")
	}
	_ = name.Value.Set(host)
	return nil
}
