package daemon

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// newPKI writes the CAs of the given names to a new directory.
func newPKI(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		ca, err := certs.NewCA(certs.CASpec{CommonName: name, Lifetime: time.Hour}, time.Now())
		must(t, err)
		must(t, ca.Write(dir, name))
	}
	return dir
}

// readCert reads the first certificate of a file.
func readCert(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	block, _ := pem.Decode(b)
	if block == nil {
		t.Fatalf("%s has no certificate", path)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	must(t, err)
	return c
}

func TestAMembersKeysAreWhereTheExistingToolHasThem(t *testing.T) {
	c := config()
	c.DataDir, c.EtcdAddress, c.CertLifetime = t.TempDir(), "10.0.0.7", 30*time.Minute
	c.PKIDir = newPKI(t, certs.ManagerCA, certs.ClientsCA, certs.PeersCA)
	k, err := newKeys(c, "a", time.Now)
	must(t, err)
	for _, file := range []string{
		"etcd-manager-server-a.crt", "etcd-manager-server-a.key", "etcd-manager-client-a.crt", "etcd-manager-client-a.key",
	} {
		if _, err := os.Stat(filepath.Join(c.PKIDir, file)); err != nil {
			t.Error(err)
		}
	}
	urls := cluster.URLs{Peer: []string{"https://a.peer:2380"}, Client: []string{"https://a.client:4001"},
		Quarantine: []string{"https://a.client:3994"}}
	files, err := k.Ensure("t1", urls)
	must(t, err)
	for got, want := range map[string]string{
		files.Peer.Cert: "peers/me.crt", files.Peer.CA: "peers/ca.crt", files.Client.Key: "clients/server.key",
		files.Client.CA: "clients/ca.crt",
	} {
		if got != filepath.Join(c.DataDir, "pki", "t1", want) {
			t.Errorf("a file is at %s, want %s", got, want)
		}
		if _, err := os.Stat(got); err != nil {
			t.Error(err)
		}
	}
	// Clients, peers and this daemon itself reach the member by these.
	server, peer := readCert(t, files.Client.Cert), readCert(t, files.Peer.Cert)
	for _, host := range []string{"a.client", "127.0.0.1", "10.0.0.7", "10.0.0.1"} {
		must(t, server.VerifyHostname(host))
	}
	for _, host := range []string{"a.peer", "10.0.0.1"} {
		must(t, peer.VerifyHostname(host))
	}
	if left := time.Until(server.NotAfter); left > 31*time.Minute {
		t.Errorf("the certificate lives for another %s", left)
	}
	if k.Client() == nil {
		t.Error("this daemon has no certificate for calling etcd")
	}
}

func TestWithoutTLSNoKeysAreMade(t *testing.T) {
	c := config()
	c.PKIDir, c.Insecure, c.EtcdInsecure = t.TempDir(), true, true
	k, err := newKeys(c, "a", time.Now)
	must(t, err)
	if k.Client() != nil || k.server != nil || k.client != nil {
		t.Error("there are keys")
	}
	if list, err := os.ReadDir(c.PKIDir); err != nil || len(list) != 0 {
		t.Errorf("files %v, %v", list, err)
	}
}

// A daemon whose etcd has no TLS has keys where it can, for calling members that have it. It
// needs none, so what it lacks keeps it from nothing.
func TestWithoutTLSKeysAreMadeWhereTheCAsAre(t *testing.T) {
	for _, tc := range []struct {
		cas     []string
		keyless string
	}{
		{[]string{certs.ManagerCA, certs.ClientsCA, certs.PeersCA}, ""},
		{[]string{certs.ManagerCA, certs.ClientsCA}, certs.PeersCA},
		{[]string{certs.ManagerCA, certs.PeersCA}, certs.ClientsCA},
		{[]string{certs.ManagerCA}, certs.PeersCA},
	} {
		c := config()
		c.EtcdInsecure, c.PKIDir = true, newPKI(t, tc.cas...)
		k, err := newKeys(c, "a", time.Now)
		must(t, err)
		if has := k.Client() != nil; has != (tc.keyless == "") {
			t.Errorf("of %v: keys %t", tc.cas, has)
		}
		if tc.keyless != "" {
			wantError(t, k.keyless, tc.keyless)
		} else {
			must(t, k.keyless)
		}
	}
	c := config()
	c.EtcdInsecure, c.Insecure, c.PKIDir = true, true, ""
	k, err := newKeys(c, "a", time.Now)
	must(t, err)
	wantError(t, k.keyless, "--pki-dir")
}

func TestAMissingCAIsSaidAtTheStart(t *testing.T) {
	all := []string{certs.ManagerCA, certs.ClientsCA, certs.PeersCA}
	for i, missing := range all {
		c := config()
		c.PKIDir = newPKI(t, append(append([]string{}, all[:i]...), all[i+1:]...)...)
		_, err := newKeys(c, "a", time.Now)
		wantError(t, err, missing)
	}
}

func TestURLsThatNoCertificateCanBeForAreRefused(t *testing.T) {
	c := config()
	c.DataDir, c.PKIDir = t.TempDir(), newPKI(t, certs.ManagerCA, certs.ClientsCA, certs.PeersCA)
	k, err := newKeys(c, "a", time.Now)
	must(t, err)
	_, err = k.Ensure("t1", cluster.URLs{Peer: []string{"https://:2380"}})
	wantError(t, err, "no host")
	_, err = k.Ensure("t1", cluster.URLs{Peer: []string{"https://a:2380"}, Client: []string{"https://:1"}})
	wantError(t, err, "no host")
}

func TestCertificatesAreRenewedWhileTheDaemonRuns(t *testing.T) {
	t.Parallel()
	c := config()
	c.EtcdInsecure, c.CertLifetime, c.PKIDir = true, 3*time.Second, newPKI(t, certs.ManagerCA)
	k, err := newKeys(c, "a", time.Now)
	must(t, err)
	first := k.server.Leaf().Cert.SerialNumber
	var out syncBuffer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.run(ctx, slog.New(slog.NewTextHandler(&out, nil)))
	}()
	waitFor := func(text string) {
		t.Helper()
		testwait.For(t, text, func(context.Context) error {
			if !strings.Contains(out.String(), text) {
				return fmt.Errorf("it says\n%s", out.String())
			}
			return nil
		})
	}
	waitFor("certificate renewed")
	waitFor("etcd-manager-server")
	if k.server.Leaf().Cert.SerialNumber.Cmp(first) == 0 {
		t.Error("the certificate in use is the old one")
	}
	must(t, os.Remove(filepath.Join(c.PKIDir, certs.ManagerCA+".key")))
	waitFor("certificates cannot be renewed")
	cancel()
	<-ended
	if n := strings.Count(out.String(), "certificates cannot be renewed"); n > 2 {
		t.Errorf("it says %d times that it cannot renew", n)
	}
}

func TestAuthoritiesAreThoseOfTheFilesAndOfTheCertificate(t *testing.T) {
	t.Parallel()
	c := config()
	c.EtcdInsecure, c.PKIDir = true, newPKI(t, certs.ManagerCA)
	k, err := newKeys(c, "a", time.Now)
	must(t, err)
	of := hex.EncodeToString(k.server.Leaf().Cert.AuthorityKeyId)
	if got := k.authorities(); of == "" || !slices.Equal(got, []string{of}) {
		t.Errorf("%v, want %s alone", got, of)
	}
	// The CA's certificate is renewed with its key, by something that names that key otherwise.
	renewed := readCert(t, filepath.Join(c.PKIDir, certs.ManagerCA+".crt"))
	key := readKey(t, filepath.Join(c.PKIDir, certs.ManagerCA+".key"))
	renewed.SubjectKeyId, renewed.AuthorityKeyId = []byte{1}, nil
	der, err := x509.CreateCertificate(rand.Reader, renewed, renewed, key.Public(), key)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(c.PKIDir, certs.ManagerCA+".crt"),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
	if got, want := k.authorities(), []string{"01", of}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	must(t, os.Remove(filepath.Join(c.PKIDir, certs.ManagerCA+".key")))
	if got := k.authorities(); got != nil {
		t.Errorf("%v, want none while the files cannot be read", got)
	}
}

// readKey reads the key of a file.
func readKey(t *testing.T, path string) crypto.Signer {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	block, _ := pem.Decode(b)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	must(t, err)
	return key
}
