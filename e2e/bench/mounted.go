package main

import (
	"context"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// mounted has a new machine take the place of one of three, which has the volume attached
// and nothing mounted, and runs kops' pod there: the daemon asks the cloud, has the file
// system checked and mounted, makes keys of its own, and starts the member.
func (b *bench) mounted(ctx context.Context, t harness.T) time.Duration {
	dir, err := os.MkdirTemp("", "etcdadm-bench-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	runner, err := harness.BuildLogRunner(ctx, dir)
	must(t, err)
	c := harness.New(ctx, t, harness.Options{
		Net: harness.NewNet(t), Bin: b.bin, LogRunner: runner, EtcdDirs: b.etcdDirs, RSA: true, Unwatched: true,
		OnFailure: func(*harness.Cluster) {},
	})
	c.SetSpec(3, version)
	e := harness.KopsMain
	machines := e.AWSMachines(c, []string{"a", "b", "c"}, version)
	for _, m := range machines {
		m.Pod(e.AWSArgs(c)...)
	}
	c.WaitVoters(harness.Soon, len(machines))
	m := machines[1]
	m.Replace()
	began := time.Now()
	m.Pod(e.AWSArgs(c)...)
	until(ctx, t, func(ctx context.Context) error {
		return serves(ctx, func(ctx context.Context) (*clientv3.StatusResponse, error) { return m.EtcdStatus(ctx) })
	})
	return time.Since(began)
}
