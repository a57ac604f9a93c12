package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// A hand is a machine that etcdadm works on, below a directory of its own, with
// the binaries installed already.
type hand struct {
	bin, dir, name string
	client         int
	env            []string
}

func (b *bench) hand(t harness.T, root, name string) *hand {
	t.Helper()
	etcd, err := harness.EtcdBinary(b.etcdDirs, version, "etcd")
	must(t, err)
	h := &hand{bin: filepath.Join(b.bin, "etcdadm"), dir: filepath.Join(root, name), name: name, client: testport.Free(t)}
	must(t, os.MkdirAll(filepath.Join(h.dir, "pki"), 0o755))
	set := map[string]string{
		"NAME": name, "VERSION": version, "BIND_ADDRESS": "127.0.0.1", "CLIENT_PORT": strconv.Itoa(h.client),
		"PEER_PORT":   strconv.Itoa(testport.Free(t)),
		"INIT_SYSTEM": "process", "BINARIES_DIR": filepath.Dir(etcd),
		"DATA_DIR": filepath.Join(h.dir, "data"), "CERTS_DIR": filepath.Join(h.dir, "pki"),
		"ENVIRONMENT_DIR": filepath.Join(h.dir, "etc"),
		"INSTALL_DIR":     filepath.Join(h.dir, "bin"), "CACHE_DIR": filepath.Join(h.dir, "cache"),
		"UNIT_DIR": filepath.Join(h.dir, "units"),
	}
	h.env = append(os.Environ(), "GODEBUG=")
	for k, v := range set {
		h.env = append(h.env, "ETCDADM_"+k+"="+v)
	}
	h.run(t, "init", "phase", "install")
	t.Cleanup(func() { h.run(t, "reset", "--skip-remove-member", "--discard-data") })
	return h
}

func (h *hand) run(t harness.T, args ...string) {
	t.Helper()
	cmd := exec.Command(h.bin, args...)
	cmd.Env = h.env
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("etcdadm %v: %v\n%s", args, err, said.String())
	}
}

func (h *hand) url() string {
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(h.client))
}

// copyCA brings the certificate authority of another machine.
func (h *hand) copyCA(t harness.T, from *hand) {
	t.Helper()
	for _, file := range []string{"ca.crt", "ca.key"} {
		b, err := os.ReadFile(filepath.Join(from.dir, "pki", file))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(h.dir, "pki", file), b, 0o600))
	}
}

// serving waits until a write through the member is acknowledged.
func (h *hand) serving(ctx context.Context, t harness.T) {
	t.Helper()
	at := func(name string) string { return filepath.Join(h.dir, "pki", name) }
	conf, err := certs.ClientTLSFromFiles(at("ca.crt"), at("etcdctl-etcd-client.crt"), at("etcdctl-etcd-client.key"))
	must(t, err)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{h.url()}, TLS: conf, Logger: zap.NewNop()})
	must(t, err)
	defer func() { _ = c.Close() }()
	until(ctx, t, func(ctx context.Context) error { return write(ctx, c) })
}

func (b *bench) root(t harness.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "etcdadm-bench-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return dir
}

// byHandInit is etcdadm init with the binaries there, certificates included,
// until a write is acknowledged.
func (b *bench) byHandInit(ctx context.Context, t harness.T) time.Duration {
	h := b.hand(t, b.root(t), "a")
	began := time.Now()
	h.run(t, "init")
	h.serving(ctx, t)
	return time.Since(began)
}

// preflightInit is etcdadm preflight on a machine with the binaries there.
func (b *bench) preflightInit(_ context.Context, t harness.T) time.Duration {
	h := b.hand(t, b.root(t), "a")
	began := time.Now()
	h.run(t, "preflight", "-o", "json")
	return time.Since(began)
}

// preflightJoin is the same for a machine that is to join, with a member on
// loopback to ask.
func (b *bench) preflightJoin(ctx context.Context, t harness.T) time.Duration {
	root := b.root(t)
	first, h := b.hand(t, root, "a"), b.hand(t, root, "b")
	first.run(t, "init")
	first.serving(ctx, t)
	h.copyCA(t, first)
	began := time.Now()
	h.run(t, "preflight", "-o", "json", "--endpoints", first.url())
	return time.Since(began)
}

// initFloor is one bare etcd that bootstraps a cluster of one.
func (b *bench) initFloor(ctx context.Context, t harness.T) time.Duration {
	f := b.bare(t)
	f.names = f.names[:1]
	f.client.SetEndpoints(f.clientURL("a"))
	began := time.Now()
	f.startAll(t)
	until(ctx, t, func(ctx context.Context) error { return write(ctx, f.client) })
	return time.Since(began)
}

// byHandJoin is etcdadm join on the second machine, until it is a voter and a
// write through it is acknowledged.
func (b *bench) byHandJoin(ctx context.Context, t harness.T) time.Duration {
	root := b.root(t)
	first := b.hand(t, root, "a")
	first.run(t, "init")
	first.serving(ctx, t)
	h := b.hand(t, root, "b")
	h.copyCA(t, first)
	began := time.Now()
	h.run(t, "join", first.url())
	h.serving(ctx, t)
	return time.Since(began)
}

// joinFloor is a bare etcd that is added as a learner, started and promoted.
func (b *bench) joinFloor(ctx context.Context, t harness.T) time.Duration {
	f := b.bare(t)
	all := f.names
	f.names = all[:1]
	f.client.SetEndpoints(f.clientURL("a"))
	f.startAll(t)
	until(ctx, t, func(ctx context.Context) error { return write(ctx, f.client) })
	f.names = all[:2]
	began := time.Now()
	added, err := f.client.MemberAddAsLearner(ctx, []string{f.peerURL("b")})
	must(t, err)
	f.start(t, "b", "existing")
	until(ctx, t, func(ctx context.Context) error {
		_, err := f.client.MemberPromote(ctx, added.Member.ID)
		return err
	})
	second, err := clientv3.New(clientv3.Config{
		Endpoints: []string{f.clientURL("b")}, TLS: f.pki.ClientTLS(), Logger: zap.NewNop(),
	})
	must(t, err)
	defer func() { _ = second.Close() }()
	until(ctx, t, func(ctx context.Context) error { return write(ctx, second) })
	return time.Since(began)
}

// issue prints how long a machine's certificates take, with both kinds of keys.
func (b *bench) issue(t harness.T) {
	for _, kind := range []struct {
		name string
		rsa  bool
	}{{"ECDSA P-256", false}, {"RSA 2048", true}} {
		var times []time.Duration
		for range b.rounds {
			spec := certs.MachineSpec{Dir: b.root(t), Name: "a", Address: "10.0.0.1", RSA: kind.rsa}
			began := time.Now()
			must(t, certs.CreateMachineCA(spec, began))
			_, err := certs.IssueMachine(spec, began)
			must(t, err)
			times = append(times, time.Since(began))
		}
		row("certificates of `etcdadm init`, the authority and four pairs, "+kind.name,
			fmt.Sprintf("%.3f s", median(times).Seconds()), "-")
	}
}
