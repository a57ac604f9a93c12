package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
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
	if r.code != code || !strings.Contains(r.stderr, want) || code != 2 && !strings.Contains(r.stderr, "hint: ") &&
		!strings.Contains(r.stderr, `"hint":`) {
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

// A testCluster is a cluster of real members on this machine.
type testCluster struct {
	bin     etcdbin.Binaries
	members []*etcdtest.Member
	// pki is the directory of the certificates, empty for plain http.
	pki string
	// timeout is how long each command waits for a member, a minute if zero.
	timeout time.Duration
}

// newTestCluster starts a cluster and waits until all its members serve.
func newTestCluster(t *testing.T, version string, size int, pki string, args ...string) *testCluster {
	t.Helper()
	w := &testCluster{bin: etcdtest.Binaries(t, version), pki: pki}
	for i := range size {
		m := etcdtest.New(t, string(rune('a'+i)))
		if pki != "" {
			m.SecureClients(etcdtest.Pair{Cert: pki + "/server.crt", Key: pki + "/server.key", CA: pki + "/ca.crt"})
		}
		w.members = append(w.members, m)
	}
	for _, m := range w.members {
		m.Start(t, w.bin, append([]string{"--initial-cluster=" + etcdtest.Initial(w.members...)}, args...)...)
	}
	testwait.For(t, "a leader", func(ctx context.Context) error {
		// One put may be applied after nobody waits for it any more: it is not repeated then,
		// as tests know the revisions.
		_, err := w.api(t).Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision("ready"), "=", 0)).
			Then(clientv3.OpPut("ready", "yes")).Commit()
		return err
	})
	for _, m := range w.members {
		one := w.api(t, m)
		testwait.For(t, m.Name+", which knows the leader and has applied what it did", func(ctx context.Context) error {
			_, err := one.Get(ctx, "ready")
			return err
		})
	}
	return w
}

// flags are those that reach the cluster.
func (w *testCluster) flags() []string {
	var list []string
	for _, c := range w.members {
		list = append(list, c.ClientURL)
	}
	return w.flagsFor(list...)
}

func (w *testCluster) flagsFor(endpoints ...string) []string {
	timeout := cmp.Or(w.timeout, time.Minute)
	flags := []string{"--endpoints=" + strings.Join(endpoints, ","), "--timeout=" + timeout.String()}
	if w.pki != "" {
		flags = append(flags, "--certs-dir="+w.pki)
	}
	return flags
}

// with are the words of a command and the flags that reach the cluster.
func (w *testCluster) with(words ...string) []string { return append(words, w.flags()...) }

// api is a client of these members, or of all.
func (w *testCluster) api(t *testing.T, members ...*etcdtest.Member) *clientv3.Client {
	t.Helper()
	var config clientv3.Config
	if len(members) == 0 {
		members = w.members
	}
	for _, c := range members {
		config.Endpoints = append(config.Endpoints, c.ClientURL)
	}
	if w.pki != "" {
		config.TLS = tlsOf(t, w.pki)
	}
	return etcdtest.Open(t, config)
}

// leader returns the member that leads, and its id.
func (w *testCluster) leader(t *testing.T) (name string, id uint64) {
	t.Helper()
	api := w.api(t)
	testwait.For(t, "a leader", func(ctx context.Context) error {
		for _, c := range w.members {
			// The client waits for one that is down.
			one, cancel := context.WithTimeout(ctx, 600*time.Millisecond)
			s, err := api.Status(one, c.ClientURL)
			cancel()
			if err == nil && s.Leader == s.Header.MemberId {
				name, id = c.Name, s.Leader
				return nil
			}
		}
		return fmt.Errorf("nobody leads")
	})
	return name, id
}

// commit has the initial member write to its database what is only in its write-ahead
// log, as etcd does before a snapshot.
func (w *testCluster) commit(t *testing.T) {
	t.Helper()
	testwait.For(t, "a snapshot", func(ctx context.Context) error {
		r, err := w.api(t).Snapshot(ctx)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r)
		return errors.Join(err, r.Close())
	})
}

// storageVersion waits until a member has written which version its data is of: etcd sets it
// when the cluster's version changes, and tries again after five seconds where that was before
// the first commit (monitorStorageVersion).
func (w *testCluster) storageVersion(t *testing.T) {
	t.Helper()
	testwait.For(t, "a storage version", func(ctx context.Context) error {
		s, err := w.api(t).Status(ctx, w.members[0].ClientURL)
		if err == nil && s.StorageVersion == "" {
			err = errors.New("it has none")
		}
		return err
	})
}

// another returns a member that is not the named one.
func (w *testCluster) another(name string) *etcdtest.Member {
	for _, c := range w.members {
		if c.Name != name {
			return c
		}
	}
	return nil
}

func (w *testCluster) named(name string) *etcdtest.Member {
	for _, c := range w.members {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// id returns the id of the named member.
func (w *testCluster) id(t *testing.T, name string) uint64 {
	t.Helper()
	s, err := w.api(t).Status(t.Context(), w.named(name).ClientURL)
	if err != nil {
		t.Fatal(err)
	}
	return s.Header.MemberId
}

// raise has a member raise an alarm.
func (w *testCluster) raise(t *testing.T, id uint64, kind etcdserverpb.AlarmType) {
	t.Helper()
	m := etcdserverpb.NewMaintenanceClient(w.api(t).ActiveConnection())
	_, err := m.Alarm(t.Context(), &etcdserverpb.AlarmRequest{
		Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: id, Alarm: kind,
	})
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
		leaf, err := ca.Issue(certs.Request{
			CommonName: name, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Client: true, Server: true, Lifetime: time.Hour,
		}, now)
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
