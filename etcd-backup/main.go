// Command etcd-backup backs up any etcd into a backup store.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/etcdbackup"
	_ "github.com/etcdadm/etcdadm/pkg/store/cloud" // s3://, gs://, azblob:// and others
)

// memory is what garbage may grow to, beside the 40 MB of the program itself. It
// is no limit for what is in use. Collecting earlier in any case would cost a
// sixth of the processor time of a backup.
const memory = 54 << 20

func main() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memory)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, etcdbackup.New(), os.Args[1:])
	stop()
	os.Exit(code)
}
