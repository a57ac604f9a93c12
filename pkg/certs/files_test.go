package certs

import (
	"bytes"
	"crypto/rsa"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// pair is a pair of a member in a directory that does not exist yet.
func pair(t *testing.T) Pair {
	t.Helper()
	r, err := EtcdPeer("a", cluster.URLs{Peer: []string{"https://10.0.0.1:2380"}})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "pki", "peers")
	return Pair{CertFile: filepath.Join(dir, "me.crt"), KeyFile: filepath.Join(dir, "me.key"),
		CAFile: filepath.Join(dir, "ca.crt"), Request: r}
}

func ensure(t *testing.T, p Pair, ca *CA, at time.Time) (Leaf, bool) {
	t.Helper()
	leaf, issued, err := p.Ensure(ca, at)
	if err != nil {
		t.Fatal(err)
	}
	// Whatever happened, the files hold what was returned.
	cert, err := os.ReadFile(p.CertFile)
	if err != nil || !bytes.Equal(cert, leaf.CertPEM()) {
		t.Fatalf("%s is not the certificate: %v", p.CertFile, err)
	}
	key, err := os.ReadFile(p.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parseKey(key)
	if err != nil || !samePublicKey(leaf.Cert, parsed) || !samePublicKey(leaf.Cert, leaf.key) {
		t.Fatalf("%s is not the key: %v", p.KeyFile, err)
	}
	return leaf, issued
}

func TestEnsureIssuesOnceAndKeeps(t *testing.T) {
	ca, p := newCA(t, "ca"), pair(t)
	first, issued := ensure(t, p, ca, now)
	if !issued {
		t.Fatal("not issued")
	}
	for name, want := range map[string]fs.FileMode{
		p.CertFile: 0o644, p.KeyFile: 0o600, p.CAFile: 0o644, filepath.Dir(p.CertFile): 0o700,
	} {
		if st, err := os.Stat(name); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
	if got, err := os.ReadFile(p.CAFile); err != nil || !bytes.Equal(got, ca.PEM()) {
		t.Errorf("CA file: %v", err)
	}
	again, issued := ensure(t, p, ca, now.Add(time.Hour))
	if issued || !again.Cert.Equal(first.Cert) {
		t.Error("issued again without need")
	}
}

func TestEnsureIssuesAgain(t *testing.T) {
	ca := newCA(t, "ca")
	for name, c := range map[string]struct {
		change  func(*Pair)
		at      time.Time
		ca      *CA
		keepKey bool
	}{
		"certificate missing":    {change: func(p *Pair) { os.Remove(p.CertFile) }, keepKey: true},
		"certificate is garbage": {change: func(p *Pair) { put(t, p.CertFile, []byte("x")) }, keepKey: true},
		"certificate of others":  {change: func(p *Pair) { put(t, p.CertFile, newCA(t, "other").PEM()) }, keepKey: true},
		"key missing":            {change: func(p *Pair) { os.Remove(p.KeyFile) }},
		"key is garbage":         {change: func(p *Pair) { put(t, p.KeyFile, []byte("x")) }},
		"other common name":      {change: func(p *Pair) { p.Request.CommonName = "b" }, keepKey: true},
		"DNS name more": {
			change: func(p *Pair) { p.Request.DNSNames = append(p.Request.DNSNames, "b") }, keepKey: true,
		},
		"address less":           {change: func(p *Pair) { p.Request.IPs = p.Request.IPs[1:] }, keepKey: true},
		"no client any more":     {change: func(p *Pair) { p.Request.Client = false }, keepKey: true},
		"other CA":               {ca: newCA(t, "other"), keepKey: true},
		"other CA of same name":  {ca: newCA(t, "ca"), keepKey: true},
		"last third of its life": {at: now.Add(2*year - 2*year/3 + time.Second), keepKey: true},
		"below the limit": {
			change: func(p *Pair) { p.RenewBefore = 2*year - time.Hour }, at: now.Add(2 * time.Hour), keepKey: true,
		},
		"limit above the life": {
			change: func(p *Pair) { p.RenewBefore = 20 * year }, at: now.Add(time.Minute), keepKey: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pair(t)
			first, _ := ensure(t, p, ca, now)
			if c.change != nil {
				c.change(&p)
			}
			at, issuer := now, ca
			if !c.at.IsZero() {
				at = c.at
			}
			if c.ca != nil {
				issuer = c.ca
			}
			second, issued := ensure(t, p, issuer, at)
			if !issued || second.Cert.Equal(first.Cert) {
				t.Fatal("not issued again")
			}
			if kept := samePublicKey(second.Cert, first.key); kept != c.keepKey {
				t.Errorf("old key kept: %v", kept)
			}
			if err := second.Cert.CheckSignatureFrom(issuer.Cert); err != nil {
				t.Error(err)
			}
			if _, issued := ensure(t, p, issuer, at); issued {
				t.Error("issued a third time")
			}
		})
	}
}

func TestEnsureKeepsInEveryOrderOfNames(t *testing.T) {
	ca, p := newCA(t, "ca"), pair(t)
	p.Request.DNSNames = []string{"a", "b"}
	p.Request.IPs = []net.IP{net.IPv4(10, 0, 0, 1), net.IPv6loopback}
	ensure(t, p, ca, now)
	p.Request.DNSNames = []string{"b", "a", "b"}
	p.Request.IPs = []net.IP{net.IPv6loopback, net.IPv4(10, 0, 0, 1).To4()}
	if _, issued := ensure(t, p, ca, now); issued {
		t.Error("issued again for the same names")
	}
}

// Near the end of the CA a new certificate ends with the old one.
func TestEnsureDoesNotIssueInVain(t *testing.T) {
	p := pair(t)
	ca, err := NewCA(CASpec{CommonName: "short", Lifetime: time.Hour}, now)
	if err != nil {
		t.Fatal(err)
	}
	ensure(t, p, ca, now)
	if _, issued := ensure(t, p, ca, now.Add(time.Minute)); issued {
		t.Error("issued again, for the same end")
	}
}

// The keys of the existing etcd-manager are RSA and stay in use.
func TestEnsureKeepsAnExistingRSAKey(t *testing.T) {
	ca, p := newCA(t, "ca"), pair(t)
	if err := os.MkdirAll(filepath.Dir(p.KeyFile), 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := keyPEM(rsaKey())
	if err != nil {
		t.Fatal(err)
	}
	put(t, p.KeyFile, text)
	leaf, issued := ensure(t, p, ca, now)
	if _, isRSA := leaf.Cert.PublicKey.(*rsa.PublicKey); !issued || !isRSA || !samePublicKey(leaf.Cert, rsaKey()) {
		t.Errorf("issued %v for a %T", issued, leaf.Cert.PublicKey)
	}
}

func TestEnsureFailures(t *testing.T) {
	ca := newCA(t, "ca")
	full := errors.New("disk full")
	for _, file := range []string{"ca.crt", "me.key", "me.crt"} {
		p := pair(t)
		p.WriteFile = func(path string, data []byte, perm os.FileMode) error {
			if filepath.Base(path) == file {
				return full
			}
			return writeFile(path, data, perm)
		}
		if _, issued, err := p.Ensure(ca, now); issued || !errors.Is(err, full) ||
			!strings.Contains(err.Error(), p.CertFile) {
			t.Errorf("%s: issued %v, %v", file, issued, err)
		}
		p.WriteFile = nil // cut off at that file: the next time completes it
		if _, issued := ensure(t, p, ca, now); !issued {
			t.Errorf("%s: not issued", file)
		}
	}
	p := pair(t)
	if err := os.MkdirAll(p.KeyFile, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Ensure(ca, now); err == nil {
		t.Error("a directory was taken for a key")
	}
	p = pair(t)
	if _, _, err := p.Ensure(ca, now.Add(-year)); err == nil {
		t.Error("issued before the CA is valid")
	}
	p = pair(t)
	put(t, filepath.Dir(filepath.Dir(p.CertFile)), nil) // a file for the directory
	if _, _, err := p.Ensure(ca, now); err == nil {
		t.Error("wrote below a file")
	}
}

func TestNamesOfTheLastCertificateAreKept(t *testing.T) {
	ca, p := newCA(t, "ca"), pair(t)
	p.Request.DNSNames = []string{"a", "a.old"}
	ensure(t, p, ca, now)
	p.Request.DNSNames, p.KeepNames = []string{"a", "a.new"}, true
	leaf, issued := ensure(t, p, ca, now)
	if got := strings.Join(leaf.Cert.DNSNames, " "); !issued || got != "a a.new a.old" {
		t.Errorf("issued %t with the names %s", issued, got)
	}
	if _, again := ensure(t, p, ca, now); again {
		t.Error("it is issued again for nothing")
	}
	// Those of somebody else are not.
	p.Request.CommonName, p.Request.DNSNames = "b", []string{"b"}
	if leaf, _ := ensure(t, p, ca, now); strings.Join(leaf.Cert.DNSNames, " ") != "b" {
		t.Errorf("b has the names %v", leaf.Cert.DNSNames)
	}
}

func TestAKeyLikeThatOfTheCA(t *testing.T) {
	elliptic, err := NewCA(CASpec{CommonName: "ca"}, now)
	if err != nil {
		t.Fatal(err)
	}
	old, err := NewCA(CASpec{CommonName: "ca", RSA: true}, now)
	if err != nil {
		t.Fatal(err)
	}
	p := pair(t)
	p.KeyOfCA = true
	if leaf, _ := ensure(t, p, elliptic, now); isRSA(leaf.key) {
		t.Error("an ECDSA CA has an RSA leaf")
	}
	// A key that the existing tool cannot read is replaced where its CA is there.
	leaf, _ := ensure(t, p, old, now)
	if !isRSA(leaf.key) {
		t.Errorf("the key is a %T", leaf.key)
	}
	if again, issued := ensure(t, p, old, now); issued || !samePublicKey(again.Cert, leaf.key) {
		t.Error("the RSA key is replaced too")
	}
}
