package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// randomSource is the source of keys and serial numbers.
var randomSource = rand.Reader

// DefaultLifetime is how long an issued certificate is valid where the request
// does not say: two years, as with the existing etcd-manager.
const DefaultLifetime = 2 * 365 * 24 * time.Hour

// A Request says what a certificate must say.
type Request struct {
	CommonName string
	// Organization is empty for all but clients with special rights.
	Organization []string
	DNSNames     []string
	IPs          []net.IP
	// Server and Client are what the certificate is good for; at least one.
	Server, Client bool
	// Lifetime is how long it is valid, [DefaultLifetime] for zero. It is cut
	// where the CA's own certificate ends.
	Lifetime time.Duration
	// RSA asks for a key of RSA 2048 instead of ECDSA P-256.
	RSA bool

	// like, if not nil, has the subject instead of CommonName and Organization,
	// and names that are neither host names nor addresses.
	like *x509.Certificate
	// keys is the kind that the key must be of, zero for every kind.
	keys x509.PublicKeyAlgorithm
}

// takes reports whether a key is of the kind that is asked for. Where TLS 1.2 speaks of
// ECDSA, it means Ed25519 too.
func (r Request) takes(key crypto.PublicKey) bool {
	_, is := key.(*rsa.PublicKey)
	return r.keys == x509.UnknownPublicKeyAlgorithm || is == (r.keys == x509.RSA)
}

func (r Request) subject() pkix.Name {
	return pkix.Name{CommonName: r.CommonName, Organization: r.Organization}
}

func (r Request) lifetime() time.Duration {
	if r.Lifetime == 0 {
		return DefaultLifetime
	}
	return r.Lifetime
}

func (r Request) usages() []x509.ExtKeyUsage {
	var u []x509.ExtKeyUsage
	if r.Client {
		u = append(u, x509.ExtKeyUsageClientAuth)
	}
	if r.Server {
		u = append(u, x509.ExtKeyUsageServerAuth)
	}
	return u
}

// A Leaf is an issued certificate with its private key.
type Leaf struct {
	Cert *x509.Certificate
	key  crypto.Signer
}

// TLS returns the leaf for a TLS configuration.
func (l Leaf) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{l.Cert.Raw}, PrivateKey: l.key, Leaf: l.Cert}
}

// CertPEM returns the certificate as PEM text.
func (l Leaf) CertPEM() []byte { return certPEM(l.Cert) }

// KeyPEM returns the private key as PEM text.
func (l Leaf) KeyPEM() ([]byte, error) { return keyPEM(l.key) }

// Issue issues a certificate for a new key. It is valid from the moment from
// which the CA is (so clocks that are apart do no harm) until now plus the
// lifetime, but not longer than the CA. A CA that is not valid at now gives a
// *[ValidityError].
func (ca *CA) Issue(r Request, now time.Time) (Leaf, error) {
	key, err := newKey(r.RSA)
	if err != nil {
		return Leaf{}, fmt.Errorf("issue %s: %w", r.CommonName, err)
	}
	return ca.issue(r, key, now)
}

func (ca *CA) issue(r Request, key crypto.Signer, now time.Time) (Leaf, error) {
	switch {
	case r.CommonName == "":
		return Leaf{}, errors.New("issue certificate: common name is missing")
	case !r.Server && !r.Client:
		return Leaf{}, fmt.Errorf("issue %s: it is neither for a server nor for a client", r.CommonName)
	case r.lifetime() < 0:
		return Leaf{}, fmt.Errorf("issue %s: lifetime is %s", r.CommonName, r.Lifetime)
	}
	if err := usable(ca.Cert, ca.certFile, now); err != nil {
		return Leaf{}, fmt.Errorf("issue %s: %w", r.CommonName, err)
	}
	serial, err := newSerial()
	if err != nil {
		return Leaf{}, fmt.Errorf("issue %s: %w", r.CommonName, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      r.subject(),
		NotBefore:    ca.Cert.NotBefore,
		NotAfter:     ca.end(r, now),
		// keyEncipherment means nothing for ECDSA and does no harm: it is what
		// the existing etcd-manager's certificates say.
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:           r.usages(),
		BasicConstraintsValid: true,
		DNSNames:              r.DNSNames,
		IPAddresses:           r.IPs,
	}
	if r.like != nil {
		template.RawSubject, template.URIs, template.EmailAddresses = r.like.RawSubject, r.like.URIs, r.like.EmailAddresses
	}
	der, err := x509.CreateCertificate(randomSource, template, ca.Cert, key.Public(), ca.key)
	if err != nil {
		return Leaf{}, fmt.Errorf("issue %s: %w", r.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return Leaf{}, fmt.Errorf("issue %s: %w", r.CommonName, err)
	}
	return Leaf{Cert: cert, key: key}, nil
}

// end returns when a certificate that is issued now ends.
func (ca *CA) end(r Request, now time.Time) time.Time {
	end := now.Add(r.lifetime()).Truncate(time.Second) // certificates know seconds
	if end.After(ca.Cert.NotAfter) {
		return ca.Cert.NotAfter
	}
	return end
}

func newKey(useRSA bool) (crypto.Signer, error) {
	if useRSA {
		return rsa.GenerateKey(randomSource, 2048)
	}
	return ecdsa.GenerateKey(elliptic.P256(), randomSource)
}

// newSerial returns a random positive number of at most 63 bits.
func newSerial() (*big.Int, error) {
	limit := new(big.Int).Lsh(big.NewInt(1), 63)
	n, err := rand.Int(randomSource, limit.Sub(limit, big.NewInt(1)))
	if err != nil {
		return nil, err
	}
	return n.Add(n, big.NewInt(1)), nil
}
