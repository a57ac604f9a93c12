package certs

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A WriteFunc replaces a file as a whole, or leaves it as it was.
type WriteFunc func(path string, data []byte, perm os.FileMode) error

// A Pair is a certificate and a key in files.
type Pair struct {
	// CertFile and KeyFile are written with the modes 0644 and 0600, their
	// directories are created with 0700.
	CertFile, KeyFile string
	// CAFile, if not empty, is kept equal to the CA's bundle. (etcd reads it
	// when it starts, the two others at each handshake.)
	CAFile  string
	Request Request
	// RenewBefore is the remaining life at which a new certificate is issued;
	// zero is a third of the request's lifetime. One that is longer than the
	// lifetime means a new certificate each time.
	RenewBefore time.Duration
	// KeepNames adds the host names of the certificate in the file to those of the
	// request: whoever looks for the member by one of them still finds it.
	KeepNames bool
	// KeyOfCA makes the key an RSA key where that of the CA is one: the existing
	// etcd-manager reads nothing else, and has no other CAs.
	KeyOfCA bool
	// WriteFile writes the files; nil is a temporary file and a rename.
	WriteFile WriteFunc
}

// Ensure makes the files hold a certificate of ca as the request says, and
// reports whether it had to issue one. A key that can be read is used again:
// so a server that reads the files in between finds a certificate and a key
// that belong together.
func (p Pair) Ensure(ca *CA, now time.Time) (leaf Leaf, issued bool, err error) {
	leaf, issued, err = p.ensure(ca, now, false)
	if err != nil {
		err = fmt.Errorf("certificate %s: %w", p.CertFile, err)
	}
	return leaf, issued, err
}

// ensure is Ensure; with fresh, no certificate is good enough.
func (p Pair) ensure(ca *CA, now time.Time, fresh bool) (Leaf, bool, error) {
	if p.CAFile != "" {
		if err := p.write(p.CAFile, ca.PEM(), 0o644); err != nil {
			return Leaf{}, false, err
		}
	}
	key, err := p.readKey()
	if err != nil {
		return Leaf{}, false, err
	}
	if p.KeyOfCA && isRSA(ca.key) {
		p.Request.RSA = true
		if key != nil && !isRSA(key) {
			key = nil
		}
	}
	if key != nil && !p.Request.takes(key.Public()) {
		key = nil
	}
	p.keepNames()
	if key != nil {
		if leaf, ok := p.current(ca, key, now); ok && !fresh {
			return leaf, false, nil
		}
	} else if key, err = newKey(p.Request.RSA); err != nil {
		return Leaf{}, false, err
	}
	leaf, err := ca.issue(p.Request, key, now)
	if err != nil {
		return Leaf{}, false, err
	}
	text, err := leaf.KeyPEM()
	if err != nil {
		return Leaf{}, false, err
	}
	if err := p.write(p.KeyFile, text, 0o600); err != nil {
		return Leaf{}, false, err
	}
	if err := p.write(p.CertFile, leaf.CertPEM(), 0o644); err != nil {
		return Leaf{}, false, err
	}
	return leaf, true, nil
}

// maxKeptNames bounds the names that a certificate takes over from the last one.
const maxKeptNames = 32

// keepNames adds the names of the certificate in the file to the request.
func (p *Pair) keepNames() {
	if !p.KeepNames {
		return
	}
	text, err := os.ReadFile(p.CertFile)
	if err != nil {
		return
	}
	certs, err := parseCerts(text)
	if err != nil || certs[0].Subject.CommonName != p.Request.CommonName {
		return
	}
	names := slices.Clone(p.Request.DNSNames)
	for _, name := range certs[0].DNSNames {
		if !slices.Contains(names, name) && len(names) < maxKeptNames {
			names = append(names, name)
		}
	}
	p.Request.DNSNames = names
}

func isRSA(key crypto.Signer) bool {
	_, ok := key.(*rsa.PrivateKey)
	return ok
}

// readKey returns the key in the file, nil if there is none or no usable one.
func (p Pair) readKey() (crypto.Signer, error) {
	text, err := os.ReadFile(p.KeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	key, err := parseKey(text)
	if err != nil {
		return nil, nil //nolint:nilerr // it is replaced
	}
	return key, nil
}

// current returns the certificate in the file, if it is good enough.
func (p Pair) current(ca *CA, key crypto.Signer, now time.Time) (Leaf, bool) {
	text, err := os.ReadFile(p.CertFile)
	if err != nil {
		return Leaf{}, false
	}
	certs, err := parseCerts(text)
	if err != nil || !samePublicKey(certs[0], key) || !p.Request.matches(certs[0]) ||
		certs[0].CheckSignatureFrom(ca.Cert) != nil {
		return Leaf{}, false
	}
	left := p.RenewBefore
	if left == 0 {
		left = p.Request.lifetime() / 3
	}
	return Leaf{Cert: certs[0], key: key}, !due(certs[0], ca, p.Request, now.Add(left), now)
}

// due reports whether c, which must be valid until at least then, is to be
// replaced. It is not if a new one would not live longer: the CA ends first.
func due(c *x509.Certificate, ca *CA, r Request, then, now time.Time) bool {
	return then.After(c.NotAfter) && ca.end(r, now).After(c.NotAfter)
}

// matches reports whether c says what r asks for.
func (r Request) matches(c *x509.Certificate) bool {
	return c.Subject.CommonName == r.CommonName &&
		sameSet(c.Subject.Organization, r.Organization) &&
		sameSet(c.DNSNames, r.DNSNames) &&
		sameSet(ipStrings(c.IPAddresses), ipStrings(r.IPs)) &&
		sameSet(c.ExtKeyUsage, r.usages())
}

func ipStrings(ips []net.IP) []string {
	var texts []string
	for _, ip := range ips {
		texts = append(texts, ip.String())
	}
	return texts
}

func sameSet[T interface{ ~string | ~int }](a, b []T) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// write writes the file if it does not have that content already.
func (p Pair) write(path string, data []byte, perm os.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if p.WriteFile != nil {
		return p.WriteFile(path, data, perm)
	}
	return writeFile(path, data, perm)
}

// writeFile is the [WriteFunc] for want of another.
func writeFile(path string, data []byte, perm os.FileMode) error {
	return writeFileAs(nil, path, data, perm)
}

// writeFileAs is writeFile for a file of an owner, if not nil: the file is his
// before it has its name.
func writeFileAs(owner *FileOwner, path string, data []byte, perm os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return err
	}
	err = f.Chmod(perm)
	if err == nil && owner != nil {
		err = f.Chown(owner.UID, owner.GID)
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is the one to report
	}
	return err
}
