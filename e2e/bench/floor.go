package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// bare are three etcd processes with certificates and a static list of
// members: the floor for what a manager can do.
type bare struct {
	etcd, dir string
	pki       *harness.PKI
	names     []string
	addresses map[string]string
	processes map[string]*exec.Cmd
	client    *clientv3.Client
}

func (b *bench) bare(t harness.T) *bare {
	t.Helper()
	return b.bareOf(t, version)
}

// bareOf is bare with another version of etcd.
func (b *bench) bareOf(t harness.T, version string) *bare {
	t.Helper()
	etcd, err := harness.EtcdBinary(b.etcdDirs, version, "etcd")
	must(t, err)
	dir, err := os.MkdirTemp("", "etcdadm-bench-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	pki, err := harness.NewPKI(filepath.Join(dir, "pki"), false)
	must(t, err)
	f := &bare{etcd: etcd, dir: dir, pki: pki, names: []string{"a", "b", "c"}, addresses: map[string]string{},
		processes: map[string]*exec.Cmd{}}
	block := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(250), rand.IntN(256))
	cfg := clientv3.Config{TLS: pki.ClientTLS(), Logger: zap.NewNop()}
	for i, name := range f.names {
		f.addresses[name] = fmt.Sprintf("%s%d", block, 2+i)
		// The kernel calls from 127.0.0.1 to all of 127.0.0.0/8, and etcd looks
		// for the caller's address in its certificate.
		addresses := []string{f.addresses[name], "127.0.0.1"}
		for _, ca := range []string{harness.PeersCA, harness.ClientsCA} {
			_, err := pki.CAs[ca].Issue(dir, name+"-"+ca, addresses...)
			must(t, err)
		}
		cfg.Endpoints = append(cfg.Endpoints, f.clientURL(name))
	}
	f.client, err = clientv3.New(cfg)
	must(t, err)
	t.Cleanup(f.close)
	return f
}

func must(t harness.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// quota lets etcd take a database of 2 GiB, which its default does not.
const quota = "ETCD_QUOTA_BACKEND_BYTES=8589934592"

func (f *bare) clientURL(name string) string { return "https://" + f.addresses[name] + ":4001" }
func (f *bare) peerURL(name string) string   { return "https://" + f.addresses[name] + ":2380" }

// initialCluster is the list of the members.
func (f *bare) initialCluster() string {
	var initial []string
	for _, n := range f.names {
		initial = append(initial, n+"="+f.peerURL(n))
	}
	return strings.Join(initial, ",")
}

// start starts one member.
func (f *bare) start(t harness.T, name, state string) {
	t.Helper()
	args := []string{
		"--name=" + name, "--data-dir=" + filepath.Join(f.dir, name),
		"--initial-cluster=" + f.initialCluster(), "--initial-cluster-state=" + state, "--initial-cluster-token=bench",
		"--listen-peer-urls=" + f.peerURL(name), "--initial-advertise-peer-urls=" + f.peerURL(name),
		"--listen-client-urls=" + f.clientURL(name), "--advertise-client-urls=" + f.clientURL(name),
		"--log-level=error",
	}
	for flag, ca := range map[string]string{"peer-": harness.PeersCA, "": harness.ClientsCA} {
		pair := filepath.Join(f.dir, name+"-"+ca)
		args = append(args, "--"+flag+"client-cert-auth", "--"+flag+"trusted-ca-file="+filepath.Join(f.dir, "pki", ca+".crt"),
			"--"+flag+"cert-file="+pair+".crt", "--"+flag+"key-file="+pair+".key")
	}
	cmd := exec.Command(f.etcd, args...)
	cmd.Env = []string{quota}
	// The program's only thread that starts processes ends with the program.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	must(t, cmd.Start())
	f.processes[name] = cmd
}

func (f *bare) startAll(t harness.T) {
	for _, name := range f.names {
		f.start(t, name, "new")
	}
}

func (f *bare) kill(name string) {
	cmd := f.processes[name]
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	delete(f.processes, name)
}

func (f *bare) close() {
	for name := range f.processes {
		f.kill(name)
	}
	_ = f.client.Close()
}

func (f *bare) status(name string) func(ctx context.Context) (*clientv3.StatusResponse, error) {
	return func(ctx context.Context) (*clientv3.StatusResponse, error) {
		return f.client.Status(ctx, f.clientURL(name))
	}
}

func (b *bench) bootstrapFloor(ctx context.Context, t harness.T) time.Duration {
	f := b.bare(t)
	began := time.Now()
	f.startAll(t)
	until(ctx, t, func(ctx context.Context) error { return write(ctx, f.client) })
	return time.Since(began)
}

// settled returns a bare cluster that takes membership changes.
func (b *bench) settled(ctx context.Context, t harness.T) *bare {
	f := b.bare(t)
	f.startAll(t)
	for _, name := range f.names {
		until(ctx, t, func(ctx context.Context) error { return serves(ctx, f.status(name)) })
	}
	wait(ctx, memberRestTime)
	return f
}

func (b *bench) childFloor(ctx context.Context, t harness.T) time.Duration {
	f := b.settled(ctx, t)
	began := time.Now()
	f.kill("b")
	f.start(t, "b", "existing")
	until(ctx, t, func(ctx context.Context) error { return serves(ctx, f.status("b")) })
	return time.Since(began)
}

func (b *bench) restartFloor(ctx context.Context, t harness.T) time.Duration {
	f := b.settled(ctx, t)
	for _, name := range f.names {
		f.kill(name)
	}
	began := time.Now()
	for _, name := range f.names {
		f.start(t, name, "existing")
	}
	until(ctx, t, func(ctx context.Context) error { return write(ctx, f.client) })
	for _, name := range f.names {
		until(ctx, t, func(ctx context.Context) error { return serves(ctx, f.status(name)) })
	}
	return time.Since(began)
}

// diskFloor is what a person with a script does: remove the dead member, add a
// learner, start it, promote it as soon as etcd allows.
func (b *bench) diskFloor(ctx context.Context, t harness.T) time.Duration {
	f := b.settled(ctx, t)
	r, err := f.client.Status(ctx, f.clientURL("c"))
	must(t, err)
	f.kill("c")
	must(t, os.RemoveAll(filepath.Join(f.dir, "c")))
	wait(ctx, grace)
	began := time.Now()
	_, err = f.client.MemberRemove(ctx, r.Header.MemberId)
	must(t, err)
	added, err := f.client.MemberAddAsLearner(ctx, []string{f.peerURL("c")})
	must(t, err)
	f.start(t, "c", "existing")
	until(ctx, t, func(ctx context.Context) error {
		_, err := f.client.MemberPromote(ctx, added.Member.ID)
		return err
	})
	until(ctx, t, func(ctx context.Context) error { return serves(ctx, f.status("c")) })
	return time.Since(began)
}
