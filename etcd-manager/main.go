// Command etcd-manager is the daemon that runs on each control-plane machine.
// Called etcdadm or etcd-manager-ctl it is that program.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/programs"
	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	_ "github.com/etcdadm/etcdadm/pkg/host/volumes/clouds" // --volume-provider=aws and others
	_ "github.com/etcdadm/etcdadm/pkg/store/cloud"         // s3://, gs://, azblob:// and others
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == volumes.HostExecCommand {
		fmt.Fprintln(os.Stderr, volumes.HostExec(os.Args[2:]))
		os.Exit(volumes.HostExecFailed)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, programs.Called(os.Args[0]), os.Args[1:])
	stop()
	os.Exit(code)
}
