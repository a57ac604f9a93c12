//go:build e2e

package systemd

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
)

// A Mirror serves one archive of etcd to machines, over TLS and slowly: EKS
// Distro's, which holds etcd and etcdctl alone, with its checksum beside it. As a
// bucket does, it forbids what it does not have.
type Mirror struct {
	// URL is that of the archive.
	URL string
	// CA is the certificate that a machine has to trust.
	CA string
}

// pieces is in how many pieces a slow answer comes.
const pieces = 60

// NewMirror starts a mirror on this host, in the network of the machines. The version may
// have EKS Distro's suffix.
func NewMirror(t testing.TB, m *Machine, version string) *Mirror {
	t.Helper()
	file := filepath.Join(t.TempDir(), "etcd.tar.gz")
	number, _, _ := strings.Cut(version, "-")
	if err := release(file, number, "./", "etcd", "etcdctl"); err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ip := m.gateway()
	ca, leaf := credentials(t, ip)
	l, err := net.Listen("tcp", net.JoinHostPort(ip.String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("/etcd-linux-%s-v%s.tar.gz", runtime.GOARCH, version)
	server := &http.Server{
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{leaf}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case name:
				w.Header().Set("Content-Length", fmt.Sprint(len(archive)))
				slowly(r.Context(), w, archive)
			case name + ".sha256":
				fmt.Fprintf(w, "%x  %s\n", sha256.Sum256(archive), name[1:])
			default:
				w.WriteHeader(http.StatusForbidden)
			}
		}),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeTLS(l, "", "") // it ends with the test
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return &Mirror{URL: "https://" + l.Addr().String() + name, CA: ca}
}

// slowly writes an answer in pieces with a pause after each.
func slowly(ctx context.Context, w http.ResponseWriter, b []byte) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for size := len(b)/pieces + 1; len(b) > 0; b = b[min(size, len(b)):] {
		if _, err := w.Write(b[:min(size, len(b))]); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// credentials returns the certificate of a new authority, and a pair of it for a
// server at the address.
func credentials(t testing.TB, ip net.IP) (ca string, pair tls.Certificate) {
	t.Helper()
	authority, err := certs.NewCA(certs.CASpec{CommonName: "mirror", Lifetime: time.Hour}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := authority.Issue(certs.Request{
		CommonName: "mirror", IPs: []net.IP{ip}, Server: true, Lifetime: time.Hour,
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return string(authority.PEM()), leaf.TLS()
}

// gateway is this host's address in the machine's network.
func (m *Machine) gateway() net.IP {
	m.t.Helper()
	text := m.Do("ip -4 -o route show default")
	for _, word := range strings.Fields(text) {
		if ip := net.ParseIP(word); ip != nil {
			return ip
		}
	}
	m.t.Fatalf("%s: no default route: %s", m.Name, text)
	return nil
}

// Trust makes the machine's programs trust the mirror.
func (m *Machine) Trust(mirror *Mirror) {
	m.t.Helper()
	m.Write("/usr/local/share/ca-certificates/mirror.crt", mirror.CA, 0o644)
	m.Do("update-ca-certificates >/dev/null 2>&1")
}
