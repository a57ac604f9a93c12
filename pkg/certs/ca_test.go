package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// now is a time in the past, so that nothing here passes because of the real
// one.
var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const year = 365 * 24 * time.Hour

func newCA(t *testing.T, name string) *CA {
	t.Helper()
	ca, err := NewCA(CASpec{CommonName: name, Lifetime: 10 * year}, now)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func write(t *testing.T, ca *CA, dir, name string) {
	t.Helper()
	if err := ca.Write(dir, name); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// rsaKey is one RSA key for all tests: making one takes long.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func ecKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// selfSigned makes a certificate of key that is whatever change makes of a CA.
func selfSigned(t *testing.T, name string, key crypto.Signer, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(year),
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func block(t *testing.T, kind string, der []byte, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func pkcs8(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return block(t, "PRIVATE KEY", der, err)
}

func sec1(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(key)
	return block(t, "EC PRIVATE KEY", der, err)
}

func TestLoadCAReadsEveryKeyForm(t *testing.T) {
	p256, p384 := ecKey(t, elliptic.P256()), ecKey(t, elliptic.P384())
	params := pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7}})
	for name, c := range map[string]struct {
		key  crypto.Signer
		text []byte
	}{
		"RSA PKCS1":                  {rsaKey(), block(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey()), nil)},
		"RSA PKCS8":                  {rsaKey(), pkcs8(t, rsaKey())},
		"P-256 SEC1":                 {p256, sec1(t, p256)},
		"P-256 SEC1 from openssl":    {p256, append(params, sec1(t, p256)...)},
		"P-256 PKCS8":                {p256, pkcs8(t, p256)},
		"P-384 SEC1":                 {p384, sec1(t, p384)},
		"P-384 PKCS8 after comments": {p384, append([]byte("# the key\n"), pkcs8(t, p384)...)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cert := selfSigned(t, name, c.key, nil)
			put(t, filepath.Join(dir, "ca.crt"), certPEM(cert))
			put(t, filepath.Join(dir, "ca.key"), c.text)
			ca, err := LoadCA(dir, "ca", now)
			if err != nil {
				t.Fatal(err)
			}
			leaf, err := ca.Issue(Request{CommonName: "x", Client: true}, now)
			if err != nil {
				t.Fatal(err)
			}
			if err := leaf.Cert.CheckSignatureFrom(cert); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLoadCARefusals(t *testing.T) {
	key, other := ecKey(t, elliptic.P256()), ecKey(t, elliptic.P256())
	good := certPEM(selfSigned(t, "good", key, nil))
	with := func(change func(*x509.Certificate)) []byte { return certPEM(selfSigned(t, "odd", key, change)) }
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	encrypted := pem.EncodeToMemory(&pem.Block{
		Type: "RSA PRIVATE KEY", Bytes: []byte("x"), Headers: map[string]string{"DEK-Info": "AES"},
	})
	encryptedEC := pem.EncodeToMemory(&pem.Block{
		Type: "EC PRIVATE KEY", Bytes: []byte("x"), Headers: map[string]string{"DEK-Info": "AES"},
	})
	for name, c := range map[string]struct {
		cert, key []byte
		want      string
	}{
		"other key": {good, sec1(t, other),
			"no certificate in DIR/ca.crt belongs to the private key in DIR/ca.key; put"},
		"expired": {with(func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Second) }), sec1(t, key),
			`CA certificate "odd" in DIR/ca.crt expired on 2026-05-01 11:59:59 UTC, now is 2026-05-01 12:00:00 UTC; install`},
		"not yet valid": {with(func(c *x509.Certificate) { c.NotBefore = now.Add(time.Minute) }), sec1(t, key),
			`CA certificate "odd" in DIR/ca.crt is not valid before 2026-05-01 12:01:00 UTC, now is 2026-05-01 12:00:00 UTC; check the clock`},
		"not a CA": {with(func(c *x509.Certificate) { c.IsCA = false }), sec1(t, key),
			`certificate "odd" in DIR/ca.crt is not a CA certificate`},
		"may not sign": {with(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign }), sec1(t, key),
			"is not a CA certificate"},
		"no certificate": {sec1(t, key), sec1(t, key), "DIR/ca.crt: there is no certificate"},
		"bad certificate": {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), sec1(t, key),
			"DIR/ca.crt: certificate 1"},
		"no key":          {good, good, "DIR/ca.key: there is no private key"},
		"empty key":       {good, nil, "DIR/ca.key: there is no private key"},
		"bad key":         {good, block(t, "EC PRIVATE KEY", []byte("x"), nil), "DIR/ca.key"},
		"bad PKCS8 key":   {good, block(t, "PRIVATE KEY", []byte("x"), nil), "DIR/ca.key"},
		"Ed25519":         {good, pkcs8(t, edKey), "RSA and ECDSA keys are supported"},
		"P-224":           {good, sec1(t, ecKey(t, elliptic.P224())), "on the curve P-224"},
		"P-224 in PKCS8":  {good, pkcs8(t, ecKey(t, elliptic.P224())), "on the curve P-224"},
		"encrypted":       {good, encrypted, "the private key is encrypted"},
		"encrypted EC":    {good, encryptedEC, "the private key is encrypted"},
		"encrypted PKCS8": {good, block(t, "ENCRYPTED PRIVATE KEY", []byte("x"), nil), "the private key is encrypted"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, filepath.Join(dir, "ca.crt"), c.cert)
			put(t, filepath.Join(dir, "ca.key"), c.key)
			_, err := LoadCA(dir, "ca", now)
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), dir, "DIR"), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			var mismatch *KeyMismatchError
			var notCA *NotCAError
			var validity *ValidityError
			typed := map[string]bool{
				"other key": errors.As(err, &mismatch), "not a CA": errors.As(err, &notCA), "may not sign": errors.As(err, &notCA),
				"expired": errors.As(err, &validity) && validity.Expired(), "not yet valid": errors.As(err, &validity) &&
					!validity.Expired(),
			}
			if ok, known := typed[name]; known && !ok {
				t.Errorf("%v has not its type", err)
			}
		})
	}
}

func TestLoadCAOfMissingFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := LoadCA(dir, "ca", now); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "ca.crt") {
		t.Errorf("got %v", err)
	}
	write(t, newCA(t, "x"), dir, "ca")
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadCA(dir, "ca", now); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "ca.key") {
		t.Errorf("got %v", err)
	}
}

func TestBundleTrustsAllAndIssuesWithTheOneOfTheKey(t *testing.T) {
	dir := t.TempDir()
	older, newer := newCA(t, "older"), newCA(t, "newer")
	write(t, newer.With(older, newer), dir, PeersCA)
	ca, err := LoadCA(dir, PeersCA, now)
	if err != nil {
		t.Fatal(err)
	}
	if len(ca.Bundle) != 2 || bytes.Compare(ca.Bundle[0].Raw, ca.Bundle[1].Raw) >= 0 {
		t.Fatalf("bundle has %d certificates or is not sorted", len(ca.Bundle))
	}
	if !ca.Cert.Equal(newer.Cert) {
		t.Fatalf("issuer is %s", ca.Cert.Subject.CommonName)
	}
	for _, issuer := range []*CA{older, newer, ca} {
		leaf, err := issuer.Issue(ManagerClient("a"), now)
		if err != nil {
			t.Fatal(err)
		}
		_, err = leaf.Cert.Verify(x509.VerifyOptions{
			Roots: ca.Pool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
		if err != nil {
			t.Errorf("a certificate of %s is not trusted: %v", issuer.Cert.Subject.CommonName, err)
		}
	}
	if len(older.Bundle) != 1 || len(newer.Bundle) != 1 {
		t.Error("With changed its arguments")
	}
}

// A CA that was renewed with its old key: the bundle has two certificates of
// one key, one of them expired.
func TestBundleWithTwoCertificatesOfOneKey(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	expired := selfSigned(t, "same", key, func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Second) })
	valid := selfSigned(t, "same", key, func(c *x509.Certificate) { c.SerialNumber = big.NewInt(2) })
	for _, text := range [][]byte{certPEM(expired, valid), certPEM(valid, expired)} {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "ca.crt"), text)
		put(t, filepath.Join(dir, "ca.key"), sec1(t, key))
		if ca, err := LoadCA(dir, "ca", now); err != nil || !ca.Cert.Equal(valid) {
			t.Fatalf("got %v, want the valid one", err)
		}
	}
}

func TestNewCAIsWrittenForTheOwnerAlone(t *testing.T) {
	for _, useRSA := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "pki")
		ca, err := NewCA(CASpec{CommonName: "demo", Lifetime: year, RSA: useRSA}, now)
		if err != nil {
			t.Fatal(err)
		}
		write(t, ca, dir, ClientsCA)
		back, err := LoadCA(dir, ClientsCA, now)
		if err != nil || !back.Cert.Equal(ca.Cert) {
			t.Fatalf("read back: %v", err)
		}
		if _, isRSA := back.key.(*rsa.PrivateKey); isRSA != useRSA {
			t.Errorf("key is a %T", back.key)
		}
		for name, want := range map[string]fs.FileMode{".": 0o700, ClientsCA + ".key": 0o600, ClientsCA + ".crt": 0o644} {
			if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode().Perm() != want {
				t.Errorf("%s has mode %v, %v", name, st.Mode(), err)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	put(t, file, nil)
	if err := newCA(t, "x").Write(file, "ca"); err == nil {
		t.Error("a CA was written below a file")
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "ca.crt", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := newCA(t, "x").Write(dir, "ca"); err == nil {
		t.Error("a CA was written over a directory")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}
