package programs

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/internal/netreason"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// run runs etcdadm, and returns what it printed and its exit code.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	root := Etcdadm()
	var out, reported bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&reported)
	code = cli.Run(t.Context(), root, args)
	return out.String(), reported.String(), code
}

func says(t *testing.T, what, text string, code int, patterns ...string) {
	t.Helper()
	if code != 9 {
		t.Errorf("%s: code %d: %s", what, code, text)
	}
	for _, p := range patterns {
		if !regexp.MustCompile("(?m)" + p).MatchString(text) {
			t.Errorf("%s: no %q in\n%s", what, p, text)
		}
	}
}

// published makes a store of a cluster of three whose daemons had these addresses.
func published(t *testing.T, addresses ...string) string {
	t.Helper()
	dir := t.TempDir()
	s, err := store.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutSpec(t.Context(), store.SpecFile{MemberCount: 3, EtcdVersion: etcdversion.Must("3.6.16")}); err != nil {
		t.Fatal(err)
	}
	for i, a := range addresses {
		name := cluster.NodeName("abc"[i : i+1])
		if err := s.PutNode(t.Context(), store.NodeRecord{Name: name, Address: a, Boot: "boot"}); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Of a cluster whose daemons are all gone nothing is known: it is not degraded, which says
// that a majority serves.
func TestAClusterWhoseDaemonsAreGoneIsUnknown(t *testing.T) {
	a, b, c := testport.Address(t), testport.Address(t), testport.Address(t)
	dir := published(t, a, b, c)
	out, reported, code := run(t, "status", "--check", "--insecure", "--etcd-insecure", "--backup-store="+dir)
	says(t, "with a store", out+reported, code, "^health +unknown; no daemon answers; node a: .*"+a+".*connection refused",
		"^error: the health of the cluster is unknown: no daemon answers", "^hint: check whether etcd-manager runs")
	_, reported, code = run(t, "status", "--check", "--insecure", "--etcd-insecure", "--nodes="+a+","+b)
	says(t, "without one", reported, code,
		"^error: none of "+a+", "+b+" answers: "+a+": .*connection refused; "+b+": .*refused",
		"^hint: check whether etcd-manager runs there")
	if strings.Contains(reported, "transport:") || strings.Contains(reported, "desc =") {
		t.Errorf("it has the words of gRPC: %s", reported)
	}
}

// What listens and is no daemon that answers is said in plain words, with what to do.
func TestWhatIsNoDaemonIsNamedInPlainWords(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	closing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer closing.Close()
	go func() {
		for c, err := closing.Accept(); err == nil; c, err = closing.Accept() {
			_ = c.Close()
		}
	}()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	pki, _ := authority(t)
	for name, tc := range map[string]struct{ address, tls, reason, hint string }{
		"mute":    {mute.Addr().String(), "--insecure", netreason.NoAnswer, "the machine or its etcd-manager hangs"},
		"closing": {closing.Addr().String(), "--insecure", netreason.Closed, "the daemon may expect TLS"},
		"another": {web.Listener.Addr().String(), "--insecure", netreason.Foreign, "give the address and the port"},
		"plaintext": {
			web.Listener.Addr().String(), "--pki-dir=" + pki, netreason.Plaintext, "the daemon may run without TLS",
		},
	} {
		for _, command := range []string{"status", "plan"} {
			_, reported, code := run(t, command, tc.tls, "--cluster-name=main", "--etcd-insecure", "--nodes="+tc.address)
			says(t, name+" "+command, reported, code,
				"^error: .*none of "+tc.address+" answers: "+tc.address+": "+tc.reason+"$", "^hint: "+tc.hint)
			note := "note: waiting for the daemons at " + tc.address + ", for 1m0s at most (--timeout)\n"
			if name == "mute" && strings.Count(reported, note) != 1 {
				t.Errorf("%s %s: not one time %q in %s", name, command, note, reported)
			}
		}
	}
}

// A certificate that no daemon accepts, or that is of another authority, shows nothing
// either, whatever the store says.
func TestAClusterOfAnotherAuthorityIsUnknown(t *testing.T) {
	_, theirs := authority(t)
	dir, _ := authority(t)
	server, err := theirs.Issue(certs.ManagerServer("a"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	key, err := server.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(server.CertPEM(), key)
	if err != nil {
		t.Fatal(err)
	}
	s, err := rpc.NewServer(rpc.ServerOptions{
		Name: "a", Cluster: "main", Identify: func(tls.ConnectionState) (rpc.Caller, error) { return rpc.Caller{}, nil },
		TLS: &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop(t.Context())
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	out, reported, code := run(t, "status", "--check", "--pki-dir="+dir, "--cluster-name=main",
		"--backup-store="+published(t, l.Addr().String()))
	says(t, "with a store", out+reported, code, "^health +unknown; no daemon answers; node a: .*certificate signed by unknown authority")
}

// authority makes the authorities of a cluster.
func authority(t *testing.T) (dir string, manager *certs.CA) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{certs.ManagerCA, certs.ClientsCA} {
		ca, err := certs.NewCA(certs.CASpec{CommonName: name, Lifetime: time.Hour}, time.Now())
		if err == nil {
			err = ca.Write(dir, name)
		}
		if err != nil {
			t.Fatal(err)
		}
		if name == certs.ManagerCA {
			manager = ca
		}
	}
	return dir, manager
}
