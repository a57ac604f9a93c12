package certs

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The names of the CA pairs in the PKI directory: files with these names and
// .crt and .key.
const (
	// ManagerCA issues the certificates with which the daemons talk.
	ManagerCA = "etcd-manager-ca"
	// PeersCA issues the certificates with which etcd members talk.
	PeersCA = "etcd-peers-ca"
	// ClientsCA issues the certificates of etcd's servers and clients.
	ClientsCA = "etcd-clients-ca"
)

// A CA issues certificates and says whom to trust. It does not change.
type CA struct {
	// Cert is the certificate that issues.
	Cert *x509.Certificate
	// Bundle holds all certificates to trust, sorted by their DER bytes: Cert,
	// and in a rotation the one before or after it.
	Bundle []*x509.Certificate

	key crypto.Signer
	// certFile names the origin in errors.
	certFile string
	// sum is the digest of the files that the CA was read from.
	sum [sha256.Size]byte
}

// LoadCA reads the CA pair dir/name.crt and dir/name.key. The certificate file
// may hold several certificates: all are trusted, and the first one, by DER
// bytes, that belongs to the key and is valid at now issues. A pair that
// cannot issue gives a *[KeyMismatchError], *[NotCAError] or *[ValidityError].
func LoadCA(dir, name string, now time.Time) (*CA, error) {
	certFile, keyFile := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	certText, err := os.ReadFile(certFile)
	if err != nil {
		return nil, fmt.Errorf("load CA: %w", err)
	}
	keyText, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("load CA: %w", err)
	}
	bundle, err := parseCerts(certText)
	if err != nil {
		return nil, fmt.Errorf("load CA: %s: %w", certFile, err)
	}
	key, err := parseKey(keyText)
	if err != nil {
		return nil, fmt.Errorf("load CA: %s: %w", keyFile, err)
	}
	bundle = sortBundle(bundle)
	cert, err := issuer(bundle, key, certFile, now)
	if err != nil {
		return nil, fmt.Errorf("load CA: %w", err)
	}
	if cert == nil {
		return nil, fmt.Errorf("load CA: %w", &KeyMismatchError{CertFile: certFile, KeyFile: keyFile})
	}
	return &CA{Cert: cert, Bundle: bundle, key: key, certFile: certFile, sum: sumOf(certText, keyText)}, nil
}

// issuer returns the first certificate that belongs to key and can issue at
// now. Of those that belong to the key but cannot, the first one's reason is
// the error; if none belongs to the key, both results are nil.
func issuer(bundle []*x509.Certificate, key crypto.Signer, file string, now time.Time) (*x509.Certificate, error) {
	var first error
	for _, c := range bundle {
		if !samePublicKey(c, key) {
			continue
		}
		err := usable(c, file, now)
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// usable reports why c cannot issue certificates at now.
func usable(c *x509.Certificate, file string, now time.Time) error {
	name := c.Subject.CommonName
	if !c.BasicConstraintsValid || !c.IsCA || c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0 {
		return &NotCAError{File: file, CommonName: name}
	}
	if now.Before(c.NotBefore) || now.After(c.NotAfter) {
		return &ValidityError{File: file, CommonName: name, NotBefore: c.NotBefore, NotAfter: c.NotAfter, Now: now}
	}
	return nil
}

// Pool returns the certificates to trust.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range ca.Bundle {
		pool.AddCert(c)
	}
	return pool
}

// PEM returns the certificates to trust as PEM text, the content of a ca.crt.
func (ca *CA) PEM() []byte { return certPEM(ca.Bundle...) }

// CASpec says what [NewCA] makes.
type CASpec struct {
	CommonName string
	// DNSNames are names in the CA's own certificate. They mean nothing; the CA
	// of the existing etcdadm has one.
	DNSNames []string
	Lifetime time.Duration
	// RSA asks for an RSA key of 2048 bits instead of ECDSA P-256. The existing
	// etcd-manager accepts no other CA keys than RSA.
	RSA bool
}

// NewCA makes a self-signed CA, valid from five minutes before now, for
// clocks that are a little apart. It is on no disk until [CA.Write].
func NewCA(spec CASpec, now time.Time) (*CA, error) {
	key, err := newKey(spec.RSA)
	if err != nil {
		return nil, fmt.Errorf("new CA %s: %w", spec.CommonName, err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, fmt.Errorf("new CA %s: %w", spec.CommonName, err)
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: spec.CommonName},
		NotBefore:             now.Add(-5 * time.Minute),
		NotAfter:              now.Add(spec.Lifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		DNSNames:              spec.DNSNames,
	}
	der, err := x509.CreateCertificate(randomSource, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("new CA %s: %w", spec.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("new CA %s: %w", spec.CommonName, err)
	}
	return &CA{Cert: cert, Bundle: []*x509.Certificate{cert}, key: key, certFile: "memory"}, nil
}

// Write writes the CA pair to dir/name.crt and dir/name.key, the key first and
// readable by the owner alone. dir is created with mode 0700 if missing.
func (ca *CA) Write(dir, name string) error {
	key, err := keyPEM(ca.key)
	if err != nil {
		return fmt.Errorf("write CA: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write CA: %w", err)
	}
	if err := writeFile(filepath.Join(dir, name+".key"), key, 0o600); err != nil {
		return fmt.Errorf("write CA: %w", err)
	}
	if err := writeFile(filepath.Join(dir, name+".crt"), ca.PEM(), 0o644); err != nil {
		return fmt.Errorf("write CA: %w", err)
	}
	return nil
}

// With returns a CA that also trusts the certificates of others. That is how
// a rotation begins and ends: first everyone trusts both, then the new one
// issues, then the old one goes.
func (ca *CA) With(others ...*CA) *CA {
	c := *ca
	c.Bundle = slices.Clone(ca.Bundle)
	for _, o := range others {
		c.Bundle = append(c.Bundle, o.Bundle...)
	}
	c.Bundle = sortBundle(c.Bundle)
	return &c
}

func sortBundle(bundle []*x509.Certificate) []*x509.Certificate {
	slices.SortFunc(bundle, func(a, b *x509.Certificate) int { return bytes.Compare(a.Raw, b.Raw) })
	return slices.CompactFunc(bundle, (*x509.Certificate).Equal)
}

func sumOf(texts ...[]byte) [sha256.Size]byte {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d\n", len(t))
		h.Write(t)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// CAIsRSA reports whether the CA of a machine has an RSA key. Those who made it
// may know no other kind, and neither may their clients; false without a CA.
func CAIsRSA(dir string) bool {
	text, err := os.ReadFile(pairFile(dir, MachineCA, ".crt"))
	if err != nil {
		return false
	}
	bundle, err := parseCerts(text)
	return err == nil && bundle[0].PublicKeyAlgorithm == x509.RSA
}
