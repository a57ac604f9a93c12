// Package programs puts the command lines of the programs together, so that one
// file can be several of them.
package programs

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/command/ctl"
	"github.com/etcdadm/etcdadm/pkg/command/etcdadm"
	"github.com/etcdadm/etcdadm/pkg/command/internal/storewait"
	"github.com/etcdadm/etcdadm/pkg/command/manager"
	"github.com/etcdadm/etcdadm/pkg/daemon"
	"github.com/etcdadm/etcdadm/pkg/daemon/fleet"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// Called returns the program that a process is to be which was started under
// the name argv0: etcdadm and etcd-manager-ctl by their names, etcd-manager by
// any other one.
func Called(argv0 string) *cobra.Command {
	switch filepath.Base(argv0) {
	case "etcdadm":
		return Etcdadm()
	case "etcd-manager-ctl":
		return ctl.New()
	}
	return manager.New(daemon.Run)
}

// Etcdadm returns the command line of etcdadm.
func Etcdadm() *cobra.Command { return etcdadm.New(connect, etcdadm.Parts()...) }

func connect(ctx context.Context, o etcdadm.ConnectOptions) (etcdadm.Cluster, error) {
	return fleet.Connect(ctx, fleet.ConnectOptions{
		Cluster: o.ClusterName, BackupStore: o.BackupStore, Nodes: o.Nodes,
		PKIDir: o.PKIDir, Cert: o.Cert, Key: o.Key, CACert: o.CACert,
		EtcdCert: o.EtcdCert, EtcdKey: o.EtcdKey, EtcdCACert: o.EtcdCACert,
		Insecure: o.Insecure, EtcdInsecure: o.EtcdInsecure, Answered: o.Answered,
		Undrained: func(node cluster.NodeName, why error) {
			fmt.Fprintf(o.Progress, "note: the member of %s could not be drained: %s; its removal is next, and what clients ask of it now may fail\n",
				cli.Plain(string(node)), cli.Plain(why.Error()))
		},
		OpenStore: func(ctx context.Context, location string) (*store.Store, error) {
			return storewait.Open(ctx, location, o.Timeout, o.Progress)
		},
	})
}
