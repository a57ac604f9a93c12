package certs

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"

	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// A CSR is a request to an external CA.
type CSR struct {
	Name string `json:"name"`
	// File is the request, KeyFile the key, which stays on the machine.
	File    string `json:"file"`
	KeyFile string `json:"keyFile"`
	// CertFile is where the certificate belongs.
	CertFile string `json:"certFile"`
	// NewKey: the key was not there before.
	NewKey       bool     `json:"newKey,omitempty"`
	CommonName   string   `json:"commonName"`
	Organization []string `json:"organization,omitempty"`
	SANs         []string `json:"sans,omitempty"`
	Usages       []string `json:"usages"`
}

// GenerateCSRs writes a certificate signing request for each pair, or those
// that are named, to dir/NAME.csr; an empty dir is the PKI directory. A key
// that is there is used, one that is not is made, in the PKI directory: keys
// never leave it. So a certificate for the request can be put beside its key
// while etcd runs.
//
// What a request says is what the present certificate says, with the spec's
// Address and SANs besides; without a present certificate it is what the spec
// says.
func GenerateCSRs(spec MachineSpec, dir string, names ...string) (csrs []CSR, err error) {
	if len(names) == 0 {
		names = MachinePairs()
	}
	if err := knownPairs(names); err != nil {
		return nil, err
	}
	if dir == "" {
		dir = spec.Dir
	}
	requests := make([]Request, len(names))
	for i, name := range names {
		if requests[i], err = spec.copied(name); err != nil {
			return nil, err
		}
	}
	if err := hostfs.MakeDir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("certificate requests: %w", err)
	}
	err = locked(spec.Dir, func() error {
		for i, name := range names {
			c, err := spec.csr(dir, name, requests[i])
			if err != nil {
				return fmt.Errorf("certificate request %s: %w", name, err)
			}
			csrs = append(csrs, c)
		}
		return hostfs.SyncDir(spec.Dir)
	})
	return csrs, err
}

func (s MachineSpec) csr(dir, name string, r Request) (CSR, error) {
	c := CSR{
		Name: name, File: filepath.Join(dir, name+".csr"), KeyFile: pairFile(s.Dir, name, ".key"),
		CertFile:   pairFile(s.Dir, name, ".crt"),
		CommonName: r.CommonName, Organization: r.Organization, SANs: append(r.DNSNames, ipStrings(r.IPs)...),
		Usages: usageTexts(r),
	}
	s.Owner = s.keyOwner()
	text, err := os.ReadFile(c.KeyFile)
	if os.IsNotExist(err) {
		key, err := newKey(r.RSA)
		if err != nil {
			return c, err
		}
		if text, err = keyPEM(key); err != nil {
			return c, err
		}
		c.NewKey = true
		if err := s.writer(s.owner(name))(c.KeyFile, text, 0o600); err != nil {
			return c, err
		}
	} else if err != nil {
		return c, err
	}
	key, err := parseKey(text)
	if err != nil {
		return c, &FileError{File: c.KeyFile, Problem: fmt.Sprintf("%s: %s", c.KeyFile, err),
			Do: "move it away to have a new key made"}
	}
	template := &x509.CertificateRequest{Subject: r.subject(), DNSNames: r.DNSNames, IPAddresses: r.IPs}
	if r.like != nil {
		template.RawSubject, template.URIs, template.EmailAddresses = r.like.RawSubject, r.like.URIs, r.like.EmailAddresses
	}
	if template.ExtraExtensions, err = usageExtensions(r); err != nil {
		return c, err
	}
	der, err := x509.CreateCertificateRequest(randomSource, template, key)
	if err != nil {
		return c, err
	}
	return c, s.writer(nil)(c.File, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), 0o644)
}

// The identifiers of extensions and usages, RFC 5280 section 4.2.1.
var (
	oidKeyUsage    = asn1.ObjectIdentifier{2, 5, 29, 15}
	oidExtKeyUsage = asn1.ObjectIdentifier{2, 5, 29, 37}
	oidServerAuth  = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 1}
	oidClientAuth  = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 2}
)

// usageExtensions are what the certificate is to be good for, for CAs that take
// it from the request.
func usageExtensions(r Request) ([]pkix.Extension, error) {
	// digitalSignature and keyEncipherment, the first and third bit.
	usage, err := asn1.Marshal(asn1.BitString{Bytes: []byte{0b1010_0000}, BitLength: 3})
	if err != nil {
		return nil, err
	}
	var ids []asn1.ObjectIdentifier
	if r.Server {
		ids = append(ids, oidServerAuth)
	}
	if r.Client {
		ids = append(ids, oidClientAuth)
	}
	extended, err := asn1.Marshal(ids)
	if err != nil {
		return nil, err
	}
	return []pkix.Extension{{Id: oidKeyUsage, Critical: true, Value: usage}, {Id: oidExtKeyUsage, Value: extended}}, nil
}

func usageTexts(r Request) []string {
	var texts []string
	if r.Server {
		texts = append(texts, "serverAuth")
	}
	if r.Client {
		texts = append(texts, "clientAuth")
	}
	return texts
}
