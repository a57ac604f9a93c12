package etcdadm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/contexts"
	"github.com/etcdadm/etcdadm/pkg/command/internal/daemons"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/hostaddr"
)

// fromHere has a command that is given nothing of a cluster reach that of a context, or of
// the daemon on this machine. It returns false where there is none, or something was given.
func (t *tool) fromHere(cmd *cobra.Command) (bool, error) {
	if t.here {
		return true, nil
	}
	if t.connect.given(cmd.Flags()) && !cmd.Flags().Changed(contextFlag) {
		return false, nil
	}
	c, how, chosen, err := t.chosenContext(cmd)
	if err != nil {
		return false, err
	}
	// A current context that says nothing of daemons is for etcd-manager-ctl: the daemon
	// on this machine takes precedence.
	if chosen && (how != contexts.Current || c.ReachesDaemons()) {
		return true, t.fromContext(cmd, c, how)
	}
	d, s, ok, err := daemons.One(t.find, func(d daemons.Daemon, s daemons.Settings) string {
		return daemons.Again(cmd, daemons.Reach(d, s)...)
	})
	switch {
	case err != nil:
		return false, err
	case !ok && chosen:
		return true, t.fromContext(cmd, c, how)
	case !ok:
		return false, nil
	}
	own := ""
	if s.Address == "" {
		if own, err = hostaddr.Default(false); err != nil {
			return false, err
		}
	}
	t.here = true
	node := s.Node(own)
	t.connect.Nodes, t.connect.ClusterName = []string{node}, d.ClusterName()
	t.connect.Insecure, t.connect.EtcdInsecure = s.Insecure, s.EtcdInsecure
	if !s.Insecure || !s.EtcdInsecure {
		t.connect.PKIDir = s.PKIDir
	}
	store := "; its store is not reachable from here"
	if !d.Elsewhere {
		t.connect.BackupStore, store = d.Store, ""
	}
	t.metrics = s.Metrics(own)
	fmt.Fprintf(cmd.ErrOrStderr(), "the daemon on this machine is asked (%s, cluster %s, %s)%s\n", d.Where(),
		cli.Plain(d.ClusterName()), node, store)
	return true, nil
}

// chosenContext returns the context that a flag, the environment or the file of contexts
// chooses, and how; ok is false for none.
func (t *tool) chosenContext(cmd *cobra.Command) (c contexts.Context, how string, ok bool, err error) {
	fs := cmd.Flags()
	switch named := fs.Changed(contextFlag); {
	case named && t.context == "":
		return c, "", false, cli.Usagef("--%s has no name", contextFlag)
	case named && fs.Changed("backup-store"):
		return c, "", false, cli.Usagef("use only one of --backup-store and --%s", contextFlag)
	}
	return contexts.Choose(t.context)
}

// fromContext takes from a context what no flag says.
func (t *tool) fromContext(cmd *cobra.Command, c contexts.Context, how string) error {
	fs := cmd.Flags()
	for name, value := range c.Flags() {
		if fs.Lookup(name) == nil || fs.Changed(name) {
			continue
		}
		if err := cli.Fill(fs, name, value); err != nil {
			return cli.WithHint(fmt.Errorf("the context %s: %s: %w", c.Name, name, err),
				"etcd-manager-ctl config set-context "+c.Name+" --"+name+"=...")
		}
	}
	t.here = true
	if !fs.Changed(contextFlag) {
		fmt.Fprintf(cmd.ErrOrStderr(), "the cluster is that of the context %s (%s)\n", c.Name, how)
	}
	return nil
}

// machineFlags are flags of status and observe that are about a member by hand.
var machineFlags = []string{"data-dir", "certs-dir", "environment-dir", "install-dir", "config"}

// managed is fromHere for a command that shows a member by hand otherwise: where there is
// one, or a flag says where, that is meant.
func (t *tool) managed(cmd *cobra.Command) (bool, error) {
	if cmd.Flags().Changed(contextFlag) {
		return t.fromHere(cmd)
	}
	for _, name := range machineFlags {
		if cmd.Flags().Changed(name) || os.Getenv(variable(name)) != "" {
			return false, nil
		}
	}
	_, err := os.Stat(filepath.Join(machine.Defaults().Paths.Environment, "etcd.env"))
	if !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return t.fromHere(cmd)
}
