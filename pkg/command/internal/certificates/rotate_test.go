package certificates

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// The commands of a rotation on a machine whose etcd does not run, and what
// they print.
func TestRotateCA(t *testing.T) {
	s := made(t, "a", 0)
	step := func(line string) run { return do(t, words("certs rotate-ca "+line, s.Dir)...) }
	step("status").want(t, 0, "rotation:                  idle\n", "")
	step("issue --skip-trust-check").want(t, 1, "", "hint: etcdadm certs rotate-ca prepare, on all machines")
	step("finish").want(t, 0, "changed:    nothing, it is done already\n", "")

	r := step("prepare")
	r.want(t, 0, "changed:    ca-next.key, ca-next.crt, ca.crt\n", "")
	for _, text := range []string{
		"systemctl restart etcd", "copy ca-next.crt and ca-next.key from " + s.Dir, "etcdadm kubeadm bundle",
		"rotate-ca issue --certs-dir=" + s.Dir + " --expect-ca=",
	} {
		r.want(t, 0, text, "")
	}
	ca := read(t, s.Dir, "ca-next.crt")
	r = step("status -o json")
	var status certs.Rotation
	if err := json.Unmarshal([]byte(r.stdout), &status); err != nil || status.State != certs.RotationPrepared ||
		len(status.Next) != 64 || len(status.OldLeaves) != 4 {
		t.Errorf("%v %+v", err, r)
	}
	step("status").want(t, 0, "step that is due:          issue", "")
	r = step("prepare -o json --init-system=kubelet --expect-ca=" + colons(status.Next)) // as openssl writes it
	var result rotated
	if err := json.Unmarshal([]byte(r.stdout), &result); err != nil || len(result.Changed) > 0 || !result.Restart ||
		len(result.Next) != 4 || result.Fingerprint != status.Next ||
		!strings.Contains(result.Next[0], "etcd.manifest out of /etc/kubernetes/manifests") {
		t.Errorf("%v %+v", err, r)
	}
	step("finish --skip-trust-check").want(t, 1, "", "finish is not possible, the rotation on this machine is prepared")
	step("issue --environment-dir="+t.TempDir()).want(t, 1, "",
		"name them with --endpoints, or skip the check with --skip-trust-check")
	step("issue --skip-trust-check --expect-ca="+strings.Repeat("0", 64)).want(t, 1, "",
		"hint: copy ca-next.crt and ca-next.key")
	step("issue --skip-trust-check --expect-ca="+status.Next).want(t, 0, "rotation:   issued\n", "")
	step("status").want(t, 0, "step that is due:          finish", "")
	// Done already: nobody needs to be asked.
	step("issue").want(t, 0, "nothing, it is done already", "")
	step("finish --skip-trust-check --init-system=process --expect-ca="+status.Next).want(t, 0,
		"until then it trusts the old authority", "")
	if read(t, s.Dir, "ca.crt") != ca {
		t.Error("ca.crt is not the new authority")
	}
	step("prepare --expect-ca="+status.Next).want(t, 0, "nothing, it is done already", "")
	step("issue --expect-ca=abc").want(t, 2, "", "is not the SHA-256 of a certificate")
	step("prepare --endpoints=x").want(t, 2, "", "unknown flag --endpoints")

	if err := os.Remove(filepath.Join(s.Dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"status", "prepare", "issue", "finish"} {
		step(line).want(t, 1, "", "hint: add the new CA's certificate to ca.crt")
	}
}

func colons(hex string) string {
	var parts []string
	for b := range slices.Chunk([]byte(strings.ToUpper(hex)), 2) {
		parts = append(parts, string(b))
	}
	return strings.Join(parts, ":")
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A machine that is not ready, in whatever way, is named, and nothing is done.
func TestTrustCheckNamesWhoIsNotReady(t *testing.T) {
	s := made(t, "a", 0)
	do(t, words("certs rotate-ca prepare", s.Dir)...).want(t, 0, "prepared", "")
	stranger := made(t, "x", 0)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	// It accepts the connection and says nothing.
	unreachable, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer unreachable.Close()
	for _, c := range []struct{ name, endpoint, want string }{
		{"stranger", serve(t, stranger.Dir), "has a certificate of an authority that is neither the old nor the new one"},
		{"plain text", "https://" + plain.Listener.Addr().String(), "does not answer: "},
		{"closed", "https://" + testport.Address(t), "connection refused"},
		{"unreachable", "https://" + unreachable.Addr().String(), "does not answer: "},
		{"no URL", "https://a b", "https://a b: "},
	} {
		timeout := "1m"
		if c.name == "unreachable" {
			timeout = "1s"
		}
		args := append(words("certs rotate-ca issue --timeout="+timeout, s.Dir), "--endpoints="+c.endpoint)
		r := do(t, args...)
		r.want(t, 1, "", c.want)
		r.want(t, 1, "", "hint: run etcdadm certs rotate-ca prepare on all machines, and restart etcd on each")
	}
	do(t, words("certs rotate-ca status", s.Dir)...).want(t, 0, "prepared", "")
}

// serve answers with the server's pair of a machine, without asking clients
// for theirs.
func serve(t *testing.T, dir string) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = quiet()
	config, err := serverTLS(dir)
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = config
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// A real cluster of two goes through a rotation by the printed commands. Each
// step is refused as long as a member is not ready for it.
func TestRotationOfARealCluster(t *testing.T) {
	bin := etcdtest.Binaries(t, machine.DefaultVersion.String())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	a, b := newMember(t, "a"), newMember(t, "b")
	if err := certs.CreateMachineCA(a.MachineSpec, time.Now()); err != nil {
		t.Fatal(err)
	}
	copied(t, a.Dir, b.Dir, "ca.crt", "ca.key")
	initial := "--initial-cluster=" + etcdtest.Initial(a.etcd, b.etcd)
	members := []*member{a, b}
	for _, m := range members {
		issue(t, m.MachineSpec)
		m.etcd.Start(t, bin, initial)
	}
	for _, m := range members {
		m.waitUp(t)
	}
	// kubeadm is given the members that there are, whatever the files say.
	r := do(t, words("kubeadm config", a.Dir, env(t, "ETCD_ADVERTISE_CLIENT_URLS="+a.etcd.ClientURL+"\n"))...)
	r.want(t, 0, "      - "+slices.Sorted(slices.Values([]string{a.etcd.ClientURL, b.etcd.ClientURL}))[0]+"\n", "")
	if r.stderr != "" || !strings.Contains(r.stdout, a.etcd.ClientURL) || !strings.Contains(r.stdout, b.etcd.ClientURL) {
		t.Errorf("%+v", r)
	}

	on := func(m *member, line string) run {
		return do(t, words("certs rotate-ca "+line, m.Dir, "--environment-dir="+m.dir)...)
	}
	on(a, "prepare").want(t, 0, "rotation:   prepared", "")
	copied(t, a.Dir, b.Dir, "ca-next.crt", "ca-next.key")
	on(a, "issue").want(t, 1, "", "does not trust the new authority")
	on(b, "prepare").want(t, 0, "rotation:   prepared", "")
	a.restart(ctx, t, bin, initial)
	on(a, "issue").want(t, 1, "", b.etcd.ClientURL+" does not trust the new authority")
	on(a, "status").want(t, 0, "prepared", "")
	b.restart(ctx, t, bin, initial)
	on(a, "issue").want(t, 0, "rotation:   issued", "ready: ")
	on(a, "finish").want(t, 1, "", b.etcd.ClientURL+" still has a certificate of the old authority")
	on(b, "issue").want(t, 0, "rotation:   issued", "")
	for _, m := range members {
		on(m, "finish").want(t, 0, "rotation:   idle", "ready: ")
		m.restart(ctx, t, bin, initial)
	}
	if read(t, a.Dir, "ca.crt") != read(t, b.Dir, "ca.crt") {
		t.Error("the machines have different authorities")
	}
}

type member struct {
	certs.MachineSpec
	dir  string
	etcd *etcdtest.Member
}

func newMember(t *testing.T, name cluster.NodeName) *member {
	t.Helper()
	dir := t.TempDir()
	m := &member{MachineSpec: certs.MachineSpec{Dir: filepath.Join(dir, "pki"), Name: name, Address: testport.Local},
		dir: dir, etcd: etcdtest.New(t, string(name))}
	file := func(name string) string { return filepath.Join(m.Dir, name) }
	m.etcd.SecurePeers(etcdtest.Pair{Cert: file("peer.crt"), Key: file("peer.key"), CA: file("ca.crt")})
	m.etcd.SecureClients(etcdtest.Pair{Cert: file("server.crt"), Key: file("server.key"), CA: file("ca.crt")})
	text := fmt.Sprintf("ETCD_NAME=%s\nETCD_ADVERTISE_CLIENT_URLS=%s\n", name, m.etcd.ClientURL)
	if err := os.WriteFile(filepath.Join(dir, "etcd.env"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *member) restart(ctx context.Context, t *testing.T, bin etcdbin.Binaries, initial string) {
	t.Helper()
	m.etcd.Kill()
	m.etcd.Start(t, bin, initial)
	m.waitUp(t)
}

// waitUp waits until the member answers a read that needs the quorum.
func (m *member) waitUp(t *testing.T) {
	t.Helper()
	cfg := machine.Defaults()
	cfg.Paths.Certificates, cfg.Paths.Environment = m.Dir, m.dir
	testwait.For(t, string(m.Name), func(ctx context.Context) error {
		list, err := handHome(cfg).live(ctx)
		if err == nil && len(list) != 2 {
			err = fmt.Errorf("it lists %d members", len(list))
		}
		return err
	})
}
