package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/testport"
)

// A result is what became of a command line.
type result struct {
	code           int
	stdout, stderr string
}

// run runs a command line as etcdadm does, on a machine that has nothing.
func run(t *testing.T, args ...string) result {
	t.Helper()
	return runIn(t, t.Context(), args...)
}

func runIn(t *testing.T, ctx context.Context, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := &cobra.Command{Use: "etcdadm", Args: cli.Known}
	root.AddCommand(New()...)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	code := cli.Run(ctx, root, args)
	return result{code, stdout.String(), stderr.String()}
}

// ok runs a command line that must succeed.
func ok(t *testing.T, args ...string) result {
	t.Helper()
	r := run(t, args...)
	if r.code != 0 {
		t.Fatalf("%v: exit code %d, %s", args, r.code, r.stderr)
	}
	return r
}

// fails runs a command line that must end with the code, an error that has want
// in it, and a hint.
func fails(t *testing.T, code int, want string, args ...string) result {
	t.Helper()
	r := run(t, args...)
	if r.code != code || !strings.Contains(r.stderr, want) || code != 2 && !strings.Contains(r.stderr, "hint: ") && !strings.Contains(r.stderr, `"hint":`) {
		t.Errorf("%v: exit code %d, want %d, and %q in\n%s", args, r.code, code, want, r.stderr)
	}
	return r
}

// decoded runs a command line with -o json and decodes what it prints.
func decoded[T any](t *testing.T, args ...string) T {
	t.Helper()
	var v T
	r := ok(t, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(r.stdout), &v); err != nil {
		t.Fatalf("%v: %v in %s", args, err, r.stdout)
	}
	return v
}

// binaries returns those of an etcd version.
func binaries(t *testing.T, version string) etcdbin.Binaries {
	t.Helper()
	list := os.Getenv(etcdbin.DirVariable)
	if list == "" {
		t.Skip(etcdbin.DirVariable + " names no directory with etcd binaries")
	}
	bin, err := etcdbin.Finder{Dirs: filepath.SplitList(list)}.Find(etcdversion.Must(version))
	if err != nil {
		t.Skip(err)
	}
	return bin
}

// A town is a cluster of real members on this machine.
type town struct {
	bin     etcdbin.Binaries
	members []*citizen
	// pki is the directory of the certificates, empty for plain http.
	pki string
}

type citizen struct {
	name, client, peer string
	cmd                *exec.Cmd
	log                bytes.Buffer
}

// newTown starts a cluster and waits until it serves.
func newTown(t *testing.T, version string, size int, pki string, args ...string) *town {
	t.Helper()
	w := &town{bin: binaries(t, version), pki: pki}
	scheme := "http://"
	if pki != "" {
		scheme = "https://"
		args = append(args, "--client-cert-auth", "--trusted-ca-file="+pki+"/ca.crt", "--cert-file="+pki+"/server.crt", "--key-file="+pki+"/server.key")
	}
	var initial []string
	for i := range size {
		c := &citizen{name: string(rune('a' + i)), client: scheme + testport.Address(t), peer: "http://" + testport.Address(t)}
		w.members = append(w.members, c)
		initial = append(initial, c.name+"="+c.peer)
	}
	for _, c := range w.members {
		w.start(t, c, append([]string{"--initial-cluster=" + strings.Join(initial, ","), "--initial-cluster-state=new"}, args...)...)
	}
	w.eventually(t, "a leader", func(ctx context.Context) error {
		_, err := w.api(t).Put(ctx, "ready", "yes")
		return err
	})
	return w
}

func (w *town) start(t *testing.T, c *citizen, args ...string) {
	t.Helper()
	c.cmd = exec.Command(w.bin.Etcd, append([]string{
		"--name=" + c.name, "--data-dir=" + filepath.Join(t.TempDir(), c.name), "--unsafe-no-fsync",
		"--listen-client-urls=" + c.client, "--advertise-client-urls=" + c.client,
		"--listen-peer-urls=" + c.peer, "--initial-advertise-peer-urls=" + c.peer,
	}, args...)...)
	c.cmd.Stdout, c.cmd.Stderr = &c.log, &c.log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.kill()
		if t.Failed() {
			t.Logf("the end of %s's log:\n%s", c.name, c.log.String()[max(0, c.log.Len()-1500):])
		}
	})
}

func (c *citizen) kill() {
	_ = c.cmd.Process.Signal(syscall.SIGCONT)
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait() // "signal: killed"
}

// flags are those that reach the cluster.
func (w *town) flags() []string {
	var list []string
	for _, c := range w.members {
		list = append(list, c.client)
	}
	return w.flagsFor(list...)
}

func (w *town) flagsFor(endpoints ...string) []string {
	flags := []string{"--endpoints=" + strings.Join(endpoints, ","), "--timeout=10s"}
	if w.pki != "" {
		flags = append(flags, "--certs-dir="+w.pki)
	}
	return flags
}

// with are the words of a command and the flags that reach the cluster.
func (w *town) with(words ...string) []string { return append(words, w.flags()...) }

// api is a client of all members.
func (w *town) api(t *testing.T) *clientv3.Client {
	t.Helper()
	config := clientv3.Config{Logger: zap.NewNop()}
	for _, c := range w.members {
		config.Endpoints = append(config.Endpoints, c.client)
	}
	if w.pki != "" {
		config.TLS = tlsOf(t, w.pki)
	}
	c, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// leader returns the member that leads, and its id.
func (w *town) leader(t *testing.T) (name string, id uint64) {
	t.Helper()
	api := w.api(t)
	w.eventually(t, "a leader", func(ctx context.Context) error {
		for _, c := range w.members {
			// The client waits for one that is down.
			one, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			s, err := api.Status(one, c.client)
			cancel()
			if err == nil && s.Leader == s.Header.MemberId {
				name, id = c.name, s.Leader
				return nil
			}
		}
		return fmt.Errorf("nobody leads")
	})
	return name, id
}

// another returns a member that is not the named one.
func (w *town) another(name string) *citizen {
	for _, c := range w.members {
		if c.name != name {
			return c
		}
	}
	return nil
}

func (w *town) named(name string) *citizen {
	for _, c := range w.members {
		if c.name == name {
			return c
		}
	}
	return nil
}

// id returns the id of the named member.
func (w *town) id(t *testing.T, name string) uint64 {
	t.Helper()
	s, err := w.api(t).Status(t.Context(), w.named(name).client)
	if err != nil {
		t.Fatal(err)
	}
	return s.Header.MemberId
}

func (w *town) eventually(t *testing.T, what string, ok func(ctx context.Context) error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := ok(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited 30 s for %s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// raise has a member raise an alarm.
func (w *town) raise(t *testing.T, id uint64, kind etcdserverpb.AlarmType) {
	t.Helper()
	m := etcdserverpb.NewMaintenanceClient(w.api(t).ActiveConnection())
	_, err := m.Alarm(t.Context(), &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: id, Alarm: kind})
	if err != nil {
		t.Fatal(err)
	}
}

// newPKI makes a directory of certificates as a machine has it.
func newPKI(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	now := time.Now()
	ca, err := certs.NewCA(certs.CASpec{CommonName: "etcd", Lifetime: time.Hour}, now)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("ca.crt", ca.PEM())
	for _, name := range []string{"server", "etcdctl-etcd-client"} {
		leaf, err := ca.Issue(certs.Request{CommonName: name, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Client: true, Server: true, Lifetime: time.Hour}, now)
		if err != nil {
			t.Fatal(err)
		}
		key, err := leaf.KeyPEM()
		if err != nil {
			t.Fatal(err)
		}
		write(name+".crt", leaf.CertPEM())
		write(name+".key", key)
	}
	return dir
}
