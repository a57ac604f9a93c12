// Package etcdtest runs real etcds for tests.
package etcdtest

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/testing/testchild"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// Versions are those that are tested, one of each minor version.
var Versions = []string{"3.5.35", "3.6.16", "3.7.3"}

// V3521 is what EKS Distro's machines go to 3.6 from: a patch far below the one that
// etcd advises. Few tests need it.
const V3521 = "3.5.21"

// V3612 is what they go to. It is there for long tests alone.
const V3612 = "3.6.12"

// Managed are [Versions] and [V3521]: what tests run that look at each version for
// itself. Which others there are depends on what else has run on the machine.
func Managed() (list []etcdversion.Version) {
	for _, v := range slices.Concat([]string{V3521}, Versions) {
		list = append(list, etcdversion.Must(v))
	}
	return list
}

// V36 is the version of tests for which one version is enough.
const V36 = "3.6.16"

// Timeout bounds every wait for an etcd: it is for a machine that does a lot
// besides, and a test that must fail takes that long.
const Timeout = 3 * time.Minute

// Finder finds all versions that there are. The test is skipped where nobody
// says where they are.
func Finder(t testing.TB) etcdbin.Finder {
	t.Helper()
	list := os.Getenv(etcdbin.DirVariable)
	if list == "" {
		t.Skip(etcdbin.DirVariable + " names no directory with etcd binaries")
	}
	// Those of this machine are not looked for.
	return etcdbin.Finder{Dirs: filepath.SplitList(list), Opt: "/nonexistent"}
}

// Binaries returns those of a version. The test is skipped where nobody says
// where any are.
func Binaries(t testing.TB, version string) etcdbin.Binaries {
	t.Helper()
	bin, err := Finder(t).Find(etcdversion.Must(version))
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// Each runs f as a subtest with each of [Versions], all at the same time: most
// of the time is etcd's own waiting.
func Each(t *testing.T, f func(t *testing.T, bin etcdbin.Binaries)) {
	t.Helper()
	t.Parallel()
	for _, version := range Versions {
		t.Run(version, func(t *testing.T) {
			bin := Binaries(t, version)
			t.Parallel()
			f(t, bin)
		})
	}
}

// A Member is an etcd of a test. Its fields may be changed before it starts.
type Member struct {
	Name, DataDir string
	// ClientURL and PeerURL are both listened at and advertised.
	ClientURL, PeerURL string
	// Flags come after those that the fields make, and override them.
	Flags []string

	cmd *exec.Cmd
	log bytes.Buffer
}

// New returns a member that does not run yet, with a directory of the test's
// and ports that nobody else is given until the test ends.
func New(t testing.TB, name string) *Member {
	t.Helper()
	return &Member{
		Name: name, DataDir: filepath.Join(t.TempDir(), name),
		ClientURL: "http://" + testport.Address(t), PeerURL: "http://" + testport.Address(t),
		Flags: []string{"--unsafe-no-fsync"},
	}
}

// A Pair names the files of a certificate, of its key, and of the authority
// that the other side must have its certificate from.
type Pair struct{ Cert, Key, CA string }

// SecureClients makes the member serve clients with certificates only.
func (m *Member) SecureClients(p Pair) {
	m.ClientURL = "https://" + strings.TrimPrefix(m.ClientURL, "http://")
	m.Flags = append(m.Flags, "--client-cert-auth", "--trusted-ca-file="+p.CA, "--cert-file="+p.Cert, "--key-file="+p.Key)
}

// SecurePeers makes the member talk to its peers with certificates.
func (m *Member) SecurePeers(p Pair) {
	m.PeerURL = "https://" + strings.TrimPrefix(m.PeerURL, "http://")
	m.Flags = append(m.Flags, "--peer-client-cert-auth", "--peer-trusted-ca-file="+p.CA, "--peer-cert-file="+p.Cert,
		"--peer-key-file="+p.Key)
}

// Initial returns the value of --initial-cluster for members.
func Initial(members ...*Member) string {
	var list []string
	for _, m := range members {
		list = append(list, m.Name+"="+m.PeerURL)
	}
	return strings.Join(list, ",")
}

// Start starts the member, alone if the flags do not say otherwise. It is
// killed when the test ends, or is killed itself; if the test has failed, the
// end of what etcd said is shown.
func (m *Member) Start(t testing.TB, bin etcdbin.Binaries, flags ...string) {
	t.Helper()
	if m.cmd != nil && !m.Killed() {
		t.Fatalf("etcd %s runs already", m.Name)
	}
	m.cmd = exec.Command(bin.Etcd, slices.Concat([]string{
		"--name=" + m.Name, "--data-dir=" + m.DataDir, "--initial-cluster=" + Initial(m),
		"--listen-client-urls=" + m.ClientURL, "--advertise-client-urls=" + m.ClientURL,
		"--listen-peer-urls=" + m.PeerURL, "--initial-advertise-peer-urls=" + m.PeerURL,
	}, m.Flags, flags)...)
	m.cmd.Stdout, m.cmd.Stderr = &m.log, &m.log
	if err := testchild.Start(m.cmd); err != nil {
		t.Fatal(err)
	}
	started := m.cmd
	t.Cleanup(func() {
		if m.cmd != started {
			return // it was started again, and shows its end then
		}
		m.Kill()
		if t.Failed() {
			t.Logf("the end of what etcd %s said:\n%s", m.Name, m.log.Bytes()[max(0, m.log.Len()-2000):])
		}
	})
}

// Signal sends the member a signal. Like those below it is for a member that was
// started.
func (m *Member) Signal(s os.Signal) error { return m.cmd.Process.Signal(s) }

// Stop asks the member to end, and waits until it has.
func (m *Member) Stop(t testing.TB) {
	t.Helper()
	if err := m.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = m.cmd.Wait() // "signal: terminated"
}

// Killed reports whether a member that was started has gone by [Member.Kill] or [Member.Stop].
func (m *Member) Killed() bool { return m.cmd.ProcessState != nil }

// Kill kills the member, also one that is halted, and waits until it has gone.
// It may be called again.
func (m *Member) Kill() {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait() // "signal: killed"
}

// Dial returns a client of members over plain HTTP, whether they serve or not.
func Dial(t testing.TB, members ...*Member) *clientv3.Client {
	t.Helper()
	var endpoints []string
	for _, m := range members {
		endpoints = append(endpoints, m.ClientURL)
	}
	return Open(t, clientv3.Config{Endpoints: endpoints})
}

// Open returns a client that is closed when the test ends, and writes no log.
func Open(t testing.TB, config clientv3.Config) *clientv3.Client {
	t.Helper()
	config.Logger = zap.NewNop()
	c, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Serve runs a cluster of one, and returns a client that it answers.
func Serve(t testing.TB, bin etcdbin.Binaries) *clientv3.Client {
	t.Helper()
	m := New(t, "a")
	m.Start(t, bin)
	c := Dial(t, m)
	AwaitRead(t, c)
	return c
}

// AwaitRead waits until a client gets an answer that needs the quorum.
func AwaitRead(t testing.TB, c *clientv3.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		try, stop := context.WithTimeout(ctx, 2*time.Second)
		_, err := c.Get(try, "k")
		stop()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("etcd does not serve: %v", err)
		}
		<-again.C
	}
}

// V2 changes a key of the v2 store, which etcd has up to 3.5, as soon as the member
// answers. What has taken effect is refused when it is asked for again, so no try is cut
// short.
func (m *Member) V2(t testing.TB, method, key string, form url.Values) {
	t.Helper()
	testwait.For(t, method+" "+key, func(context.Context) error {
		req, err := http.NewRequestWithContext(t.Context(), method, m.ClientURL+"/v2/keys"+key,
			strings.NewReader(form.Encode()))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_ = r.Body.Close()
		if r.StatusCode >= 300 {
			return errors.New(r.Status)
		}
		return nil
	})
}
