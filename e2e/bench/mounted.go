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
	const kubernetes = "prod.example.com"
	ec2 := c.NewEC2()
	args := []string{
		"--backup-store=file:///rootfs" + c.Store, "--client-urls=https://__name__:4001", "--cluster-name=etcd",
		"--containerized=true", "--dns-suffix=.internal." + kubernetes, "--grpc-port=3996",
		"--peer-urls=https://__name__:2380", "--quarantine-client-urls=https://__name__:3994", "--v=6",
		"--volume-name-tag=k8s.io/etcd/main", "--volume-provider=aws", "--volume-tag=k8s.io/etcd/main",
	}
	c.SetSpec(3, version)
	var machines []*harness.Machine
	for _, member := range []string{"a", "b", "c"} {
		n := c.Node("etcd-" + member)
		n.Host, n.Cluster = n.Name+".internal."+kubernetes, "etcd"
		m := c.NewMachine(n, ec2.Volume(kubernetes, "main", member, 512))
		m.Etcd(version)
		m.Env = ec2.Serve(m)
		m.Pod(args...)
		machines = append(machines, m)
	}
	c.WaitVoters(harness.Soon, len(machines))
	m := machines[1]
	m.Replace()
	began := time.Now()
	m.Pod(args...)
	until(ctx, t, func(ctx context.Context) error {
		return serves(ctx, func(ctx context.Context) (*clientv3.StatusResponse, error) { return m.EtcdStatus(ctx) })
	})
	return time.Since(began)
}
