// Command etcdadm changes and checks an etcd cluster, one step at a time.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/programs"
	_ "github.com/etcdadm/etcdadm/pkg/store/cloud" // s3://, gs://, azblob:// and others
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, programs.Etcdadm(), os.Args[1:])
	stop()
	os.Exit(code)
}
