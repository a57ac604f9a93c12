// Command etcd-manager-ctl reads and queues requests in the control store of an
// etcd cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/ctl"
	_ "github.com/etcdadm/etcdadm/pkg/store/cloud" // s3://, gs://, azblob:// and others
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, ctl.New(), os.Args[1:])
	stop()
	os.Exit(code)
}
