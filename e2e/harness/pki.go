package harness

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// The names of the three CAs in a PKI directory.
const (
	ManagerCA = "etcd-manager-ca"
	PeersCA   = "etcd-peers-ca"
	ClientsCA = "etcd-clients-ca"
)

// A CA issues certificates. The harness has its own, apart from the package
// that it is there to test.
type CA struct {
	Cert *x509.Certificate
	Key  crypto.Signer
}

// NewCA returns a CA that is valid until notAfter, with an RSA key or an ECDSA
// key.
func NewCA(name string, withRSA bool, notAfter time.Time) (CA, error) {
	var key crypto.Signer
	var err error
	if withRSA {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		return CA{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: notAfter,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return CA{}, fmt.Errorf("make CA %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	return CA{Cert: cert, Key: key}, err
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 62))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return n
}

// Write puts the CA's certificate and key into dir, as name.crt and name.key.
func (ca CA) Write(dir, name string) error { return writePair(dir, name, ca.Cert.Raw, ca.Key) }

// Issue issues a certificate for a client, and for a server with these hosts
// if there are any, and puts it into dir, as name.crt and name.key.
func (ca CA) Issue(dir, name string, hosts ...string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name},
		NotBefore: ca.Cert.NotBefore, NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range hosts {
		if a := net.ParseIP(host); a != nil {
			template.IPAddresses = append(template.IPAddresses, a)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Cert, key.Public(), ca.Key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("issue the certificate %s: %w", name, err)
	}
	if err := writePair(dir, name, der, key); err != nil {
		return tls.Certificate{}, err
	}
	return tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
}

func writePair(dir, name string, cert []byte, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	crt := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), crt, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

// A PKI is the three CAs of a cluster and one client certificate.
type PKI struct {
	// CAs are by file name: [ManagerCA], [PeersCA], [ClientsCA].
	CAs    map[string]CA
	Client tls.Certificate
	// Next are further CAs that clients trust, as while one is rotated.
	Next []CA
	dir  string
}

// NewPKI makes three CAs, and a client certificate in dir.
func NewPKI(dir string, withRSA bool) (*PKI, error) {
	p := &PKI{CAs: map[string]CA{}, dir: dir}
	for _, name := range []string{ManagerCA, PeersCA, ClientsCA} {
		ca, err := NewCA(name, withRSA, time.Now().Add(30*24*time.Hour))
		if err != nil {
			return nil, err
		}
		p.CAs[name] = ca
		if err := ca.Write(dir, name); err != nil {
			return nil, err
		}
	}
	var err error
	p.Client, err = p.CAs[ClientsCA].Issue(dir, "client")
	return p, err
}

// Install copies the CAs into a node's PKI directory.
func (p *PKI) Install(dir string) error {
	for name, ca := range p.CAs {
		if err := ca.Write(dir, name); err != nil {
			return err
		}
	}
	return nil
}

// ClientFiles returns the paths of the CA that signs servers, of the client
// certificate and of its key.
func (p *PKI) ClientFiles() (ca, cert, key string) {
	return filepath.Join(p.dir, ClientsCA+".crt"), filepath.Join(p.dir, "client.crt"), filepath.Join(p.dir, "client.key")
}

// ClientTLS returns what a client of etcd needs.
func (p *PKI) ClientTLS() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(p.CAs[ClientsCA].Cert)
	for _, ca := range p.Next {
		pool.AddCert(ca.Cert)
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{p.Client}, MinVersion: tls.VersionTLS12}
}
