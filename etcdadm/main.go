// Command etcdadm changes and checks an etcd cluster, one step at a time.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/etcdadm"
	"github.com/etcdadm/etcdadm/pkg/daemon/fleet"
	_ "github.com/etcdadm/etcdadm/pkg/store/cloud" // s3://, gs://, azblob:// and others
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, etcdadm.New(connect, etcdadm.Parts()...), os.Args[1:])
	stop()
	os.Exit(code)
}

func connect(ctx context.Context, o etcdadm.ConnectOptions) (etcdadm.Cluster, error) {
	return fleet.Connect(ctx, fleet.ConnectOptions{
		Cluster: o.ClusterName, BackupStore: o.BackupStore, Nodes: o.Nodes,
		PKIDir: o.PKIDir, Cert: o.Cert, Key: o.Key, CACert: o.CACert,
		EtcdCert: o.EtcdCert, EtcdKey: o.EtcdKey, EtcdCACert: o.EtcdCACert,
		Insecure: o.Insecure, EtcdInsecure: o.EtcdInsecure,
	})
}
