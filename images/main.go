// Command images builds the etcd releases that this project is tested with, from the Go
// modules in its etcd folder, and container images. See etcdbuild and imagebuild.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/etcdadm/etcdadm/images/etcdbuild"
	"github.com/etcdadm/etcdadm/images/imagebuild"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	run, args := etcdbuild.Main, os.Args[1:]
	if len(args) > 0 && args[0] == "build" {
		run, args = imagebuild.Main, args[1:]
	}
	code := run(ctx, args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
