package certificates

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
)

// From requests to a machine that works, with an authority whose key is never
// on it.
func TestExternalAuthority(t *testing.T) {
	elsewhere := made(t, "elsewhere", 0)
	dir := filepath.Join(t.TempDir(), "pki")
	do(t, words("certs generate-csr --name=a --bind-address=10.0.0.1", dir)...).want(t, 0, "server.csr", "")
	for _, name := range certs.MachinePairs() {
		sign(t, elsewhere.Dir, dir, name)
	}
	copied(t, elsewhere.Dir, dir, "ca.crt")
	r := do(t, words("certs check-expiration", dir)...)
	r.want(t, 0, "", "")
	if !matches(`server +20.* etcd +yes\n`, r.stdout) || !matches(`ca +20.* yes\n`, r.stdout) {
		t.Error(r.stdout)
	}
	if issued, err := certs.IssueMachine(certs.MachineSpec{Dir: dir, Name: "a", Address: "10.0.0.1"},
		time.Now()); err != nil || len(issued) > 0 {
		t.Errorf("issued %q, %v", issued, err)
	}
	do(t, words("certs renew all", dir)...).want(t, 1, "", "etcdadm certs generate-csr --certs-dir="+dir)
	do(t, words("kubeadm bundle --out="+t.TempDir(), dir)...).want(t, 0, "", "rsync")
	before := read(t, dir, "server.key")
	do(t, words("certs generate-csr server", dir)...).want(t, 0, "CN=a", "")
	sign(t, elsewhere.Dir, dir, "server")
	do(t, words("certs check-expiration", dir)...).want(t, 0, "server", "")
	if read(t, dir, "server.key") != before {
		t.Error("the key changed while etcd used it")
	}
}

// sign does what an external authority does with a request.
func sign(t *testing.T, caDir, dir, name string) {
	t.Helper()
	ca, err := tls.LoadX509KeyPair(filepath.Join(caDir, "ca.crt"), filepath.Join(caDir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(read(t, dir, name+".csr")))
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || csr.CheckSignature() != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: csr.Subject,
		// the names are among them
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour * 24),
		ExtraExtensions: csr.Extensions,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, csr.PublicKey, ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".crt"),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		t.Fatal(err)
	}
}
