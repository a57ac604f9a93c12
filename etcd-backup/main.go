// Command etcd-backup is to back up any etcd into a backup store; in this
// release it has only a version.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/backup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, backup.New(), os.Args[1:])
	stop()
	os.Exit(code)
}
