// Command images builds the etcd releases that this project is tested with,
// from the Go modules in its etcd folder. See etcdbuild.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/etcdadm/etcdadm/images/etcdbuild"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := etcdbuild.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
