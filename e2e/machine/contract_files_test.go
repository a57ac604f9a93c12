package machine

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"io/fs"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// An oldCA is a certificate authority as the retired etcdadm and the controllers
// around it make it: RSA, the key as PKCS #1, the number 0.
type oldCA struct{ cert, key string }

func newOldCA(t *testing.T) oldCA { return newOldCAFrom(t, time.Now().Add(-time.Minute)) }

// newOldCAFrom returns one that is valid from a time.
func newOldCAFrom(t *testing.T, from time.Time) oldCA {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: new(big.Int), Subject: pkix.Name{CommonName: "etcd"}, DNSNames: []string{"etcd"},
		NotBefore: from, NotAfter: from.AddDate(10, 0, 0), BasicConstraintsValid: true,
		IsCA:     true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return oldCA{encode("CERTIFICATE", der), encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))}
}

func (ca oldCA) install(h *host) {
	h.t.Helper()
	h.write(h.path("pki", "ca.crt"), ca.cert, 0o644)
	h.write(h.path("pki", "ca.key"), ca.key, 0o600)
}

// A traffic is what the kernel has counted in a network.
type traffic struct{ connects, datagrams string }

// traffic returns how many connections were begun in the host's network, and
// how many datagrams sent, be it to nobody.
func (h *host) traffic() traffic {
	h.t.Helper()
	var b []byte
	err := h.space.do(func() (err error) {
		b, err = os.ReadFile("/proc/thread-self/net/snmp")
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	count := func(proto, name string) string {
		lines := regexp.MustCompile(`(?m)^`+proto+`: .*$`).FindAllString(string(b), -1)
		if len(lines) != 2 {
			h.t.Fatalf("no counters of %s in %s", proto, b)
		}
		i := slices.Index(strings.Fields(lines[0]), name)
		if i < 0 {
			h.t.Fatalf("no counter %s of %s", name, proto)
		}
		return strings.Fields(lines[1])[i]
	}
	return traffic{count("Tcp", "ActiveOpens"), count("Udp", "OutDatagrams")}
}

// The renewal that EKS Anywhere documents: delete all but the authority, and
// call one phase with an endpoint that nobody has.
func renewal(t *testing.T) {
	for name, flags := range map[string][]string{"systemd": nil, "kubelet": {"--init-system", "kubelet"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, _ := newPair(t, v36)
			h.withoutTools()
			ca := newOldCA(t)
			ca.install(h)
			renew := append([]string{"join", "phase", "certificates", "http://eks-a-etcd-dumb-url"}, flags...)
			before := h.traffic()
			h.ok(renew...)
			first := h.pki()
			if len(first) != 10 {
				t.Fatalf("the files are %q", keysOf(first))
			}
			h.unchanged("the renewal of what is there", func() { h.ok(renew...) })
			for _, name := range []string{"peer.crt", "peer.key"} {
				if err := os.Remove(h.path("pki", name)); err != nil {
					t.Fatal(err)
				}
			}
			h.ok(renew...)
			for name, text := range h.pki() {
				if made := name == "peer.crt" || name == "peer.key"; made == (text == first[name]) {
					t.Errorf("%s: a file that was missing is %t, and has changed is %t", name, made, !made)
				}
			}
			if after := h.traffic(); after != before {
				t.Errorf("the network was used: %+v, before %+v", after, before)
			}
			for _, path := range tree(t, h.root).names() {
				if f := filepath.Join(h.root, path); strings.HasPrefix(path, "var/") || strings.HasPrefix(path, "opt/") ||
					strings.HasPrefix(path, "etc/systemd") {
					t.Errorf("%s was made", f)
				}
			}
		})
	}
}

// pki returns the files of the host's PKI directory, without locks.
func (h *host) pki() map[string]string {
	h.t.Helper()
	entries, err := os.ReadDir(h.path("pki"))
	if err != nil {
		h.t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".lock") {
			files[e.Name()] = h.read(h.path("pki", e.Name()))
		}
	}
	return files
}

func keysOf[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// etcd shows the renewed certificates without a restart.
func TestRenewalUnderARunningEtcd(t *testing.T) {
	t.Parallel()
	h := newHost(t, "a", v36)
	h.ok("init")
	before, pid := h.certificate("server"), h.etcd()
	for name := range h.pki() {
		if !strings.HasPrefix(name, "ca.") {
			if err := os.Remove(h.path("pki", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.ok("join", "phase", "certificates", "http://eks-a-etcd-dumb-url")
	after := h.certificate("server")
	if after.SerialNumber.Cmp(before.SerialNumber) == 0 {
		t.Fatal("the certificate is the old one")
	}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(h.clientURL(), "https://"), h.tls("apiserver-etcd-client"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if shown := conn.ConnectionState().PeerCertificates[0]; !shown.Equal(after) {
		t.Errorf("etcd shows %s, and the file has %s", shown.SerialNumber, after.SerialNumber)
	}
	h.put("k", "v")
	if h.etcd() != pid {
		t.Errorf("etcd was restarted")
	}
}

// Scripts take values out of etcd.env with grep, source etcdctl.env, and call
// etcdctl.sh.
func scripts(t *testing.T) {
	h := newMachine(t, "a", v36)
	h.ok("init", "--init-system=process", "--bind-address=127.0.0.1", "--binaries-dir", h.binaries)
	for _, tt := range [][2]string{
		{`grep '^ETCD_NAME=' /etc/etcd/etcd.env | cut -d= -f2`, "a\n"},
		{`grep ETCD_INITIAL_ADVERTISE_PEER_URLS= /etc/etcd/etcd.env | cut -d= -f2-`, "https://127.0.0.1:2380\n"},
		{`. /etc/etcd/etcdctl.env && /opt/bin/etcdctl put k v`, "OK\n"},
		{`. /etc/etcd/etcdctl.env; /opt/bin/etcdctl --endpoints https://127.0.0.1:2379 get k`, "k\nv\n"},
		{`/opt/bin/etcdctl.sh get k --print-value-only`, "v\n"},
		{`test -d /var/lib/etcd/member && echo there`, "there\n"},
		{`cd /var; . /etc/etcd/etcd.env && echo "$ETCD_NAME $ETCD_DATA_DIR"`, "a /var/lib/etcd\n"},
	} {
		if r := h.shell(tt[0]); r.code != 0 || r.stdout != tt[1] || r.stderr != "" {
			t.Errorf("want %q: %s", tt[1], r)
		}
	}
	if err := os.Remove(h.path("etc", "etcdctl.env")); err != nil {
		t.Fatal(err)
	}
	if r := h.shell("/opt/bin/etcdctl.sh get k"); r.code != 1 || !strings.Contains(r.stderr, "/etc/etcd/etcdctl.env") {
		t.Errorf("without its file: %s", r)
	}
}

// The controller asks /health with its client certificate, at an address, and
// expects the word true.
func health(t *testing.T) {
	h := newHost(t, "a", v36)
	h.ok("init")
	resp, err := h.http("apiserver-etcd-client").Get(h.clientURL() + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK ||
		!strings.Contains(string(body), `"health":"true"`) {
		t.Errorf("%s %s %v", resp.Status, body, err)
	}
	if resp, err := h.http("").Get(h.clientURL() + "/health"); err == nil {
		resp.Body.Close()
		t.Errorf("without a certificate: %s", resp.Status)
	}
}

// 0 is success, anything else is not; the usage is not printed for failures.
func exitCodes(t *testing.T) {
	h := newHost(t, "a", v36)
	for _, tt := range []struct {
		code int
		args string
	}{
		{0, "help"},
		{0, "init --help"},
		{2, "init --nonsense"},
		{2, "nonsense"},
		{2, "join"},
		{2, "join phase health"},
		{2, "init --init-system=runit"},
		{2, "join http://127.0.0.1:2379"},
		{3, "join https://127.0.0.1:1"},
		{1, "info"},
		{0, "reset"},
		{0, "init"},
		{0, "init"},
		{3, "init --name other"},
	} {
		r := h.run(strings.Fields(tt.args)...)
		if r.code != tt.code {
			t.Errorf("want exit code %d: %s", tt.code, r)
		}
		if r.code != 0 && (r.stdout != "" || strings.Count(r.stderr, "error: ") != 1 ||
			strings.Contains(r.stderr, "Usage:")) {
			t.Errorf("an error is said once, on stderr: %s", r)
		}
	}
	// A hold has its own code, and its reason for programs.
	b := newHost(t, "b", v36)
	b.ok("init", "phase", "certificates")
	r := b.run("join", "phase", "membership", "https://127.0.0.1:1", "--retry=false", "-o", "json")
	if r.code != 1 || !strings.Contains(r.stderr, `"reason":"cluster-unreachable"`) {
		t.Errorf("%s", r)
	}
	r = b.run("preflight", "--endpoints", "https://127.0.0.1:2380/")
	if !strings.Contains(r.stdout+r.stderr, "https://127.0.0.1:2380 looks like a peer URL") {
		t.Errorf("a peer URL as an endpoint: %s", r)
	}
}

// cctl recovers a cluster by resetting all members, putting the authority back
// and beginning with a snapshot, on the same machines.
func recovery(t *testing.T) {
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 2)
	a, b := hosts[0], hosts[1]
	found(hosts...)
	a.put("saved", "yes")
	file := filepath.Join(t.TempDir(), "snapshot.db")
	if r := a.exec(a.path("bin", "etcdctl.sh"), "snapshot", "save", file); r.code != 0 {
		t.Fatalf("%s", r)
	}
	cert, key := a.read(a.path("pki", "ca.crt")), a.read(a.path("pki", "ca.key"))
	for _, h := range hosts {
		h.ok("reset", "--skip-remove-member")
		if err := os.RemoveAll(h.path("pki")); err != nil {
			t.Fatal(err)
		}
		oldCA{cert, key}.install(h)
	}
	a.ok("init", "--snapshot", file)
	b.ok("join", a.clientURL())
	a.wantVoters("a", "b")
	wantKeys(map[string]string{"saved": "yes"}, hosts...)
	if a.read(a.path("pki", "ca.crt")) != cert {
		t.Error("the certificate authority is another one")
	}
}

// kubeadm and the API server take the client pairs, and etcd's gateway calls
// itself with the server's.
func kubeadmCertificates(t *testing.T) {
	h := newMachine(t, "a", v36)
	h.ok("init", "phase", "certificates", "--bind-address=127.0.0.1", "--server-cert-extra-sans=etcd.example,10.0.0.1")
	both, client := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, []x509.ExtKeyUsage{
		x509.ExtKeyUsageClientAuth,
	}
	ca := h.certificate("ca")
	if !ca.IsCA || ca.KeyUsage&x509.KeyUsageCertSign == 0 {
		t.Errorf("the authority is for %d", ca.KeyUsage)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	for _, tt := range []struct {
		pair, name string
		groups     []string
		usage      []x509.ExtKeyUsage
		hosts      []string
	}{
		{"server", "a", nil, both, []string{"a", "127.0.0.1", "localhost", "::1", "etcd.example", "10.0.0.1"}},
		{"peer", "a", nil, both, []string{"a", "127.0.0.1"}},
		{"etcdctl-etcd-client", "a-etcdctl", []string{"system:masters"}, client, nil},
		{"apiserver-etcd-client", "a-kube-apiserver-etcd-client", []string{"system:masters"}, client, nil},
	} {
		c := h.certificate(tt.pair)
		slices.Sort(c.ExtKeyUsage)
		if c.Subject.CommonName != tt.name || !slices.Equal(c.Subject.Organization, tt.groups) ||
			!slices.Equal(c.ExtKeyUsage, tt.usage) || c.IsCA {
			t.Errorf("%s is %s", tt.pair, describe(c))
		}
		for _, name := range tt.hosts {
			if err := c.VerifyHostname(name); err != nil {
				t.Errorf("%s: %v", tt.pair, err)
			}
		}
		if _, err := c.Verify(x509.VerifyOptions{
			Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}); err != nil {
			t.Errorf("%s: %v", tt.pair, err)
		}
		if left := time.Until(c.NotAfter); left < 364*24*time.Hour || left > 366*24*time.Hour {
			t.Errorf("%s ends in %s", tt.pair, left)
		}
	}
}

// The files have the paths and modes that they had, except that the unit is not
// executable.
func fileModes(t *testing.T) {
	h := newMachine(t, "a", v36)
	h.fakeSystemd()
	h.ok("init", "--bind-address=127.0.0.1", "--binaries-dir", h.binaries)
	want := map[string]fs.FileMode{
		"/etc/etcd": fs.ModeDir | 0o755, "/etc/etcd/etcd.env": 0o600, "/etc/etcd/etcdctl.env": 0o600,
		"/etc/systemd/system/etcd.service": 0o644,
		"/opt/bin/etcd":                    0o755, "/opt/bin/etcdctl": 0o755, "/opt/bin/etcdutl": 0o755,
		"/opt/bin/etcdctl.sh": 0o755, "/etc/etcd/pki": fs.ModeDir | 0o755,
		"/var/lib/etcd": fs.ModeDir | 0o700,
	}
	for _, pair := range []string{"ca", "server", "peer", "etcdctl-etcd-client", "apiserver-etcd-client"} {
		want["/etc/etcd/pki/"+pair+".crt"], want["/etc/etcd/pki/"+pair+".key"] = 0o644, 0o600
	}
	for path, mode := range want {
		info, err := os.Stat(filepath.Join(h.root, path))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v; want %s", path, info, err, mode)
		}
	}
}
