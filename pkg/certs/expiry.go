package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// An Expiry says when a certificate of a machine ends.
type Expiry struct {
	// Name of the pair: one of [MachinePairs], "ca", or "ca-next" in a rotation.
	Name string `json:"name"`
	File string `json:"file"`
	// Missing: there is no such file.
	Missing bool `json:"missing,omitempty"`
	// Problem says why the certificate cannot be used, apart from its time. The
	// rest is empty if it cannot be read.
	Problem string `json:"problem,omitempty"`

	NotAfter time.Time `json:"notAfter,omitzero"`
	// Residual is the time left, in seconds; less than zero after the end.
	Residual int64 `json:"residualSeconds"`
	// CA is the common name of the one that issued it, empty for a CA.
	CA string `json:"ca,omitempty"`
	// External: the key of the CA is not on this machine, so that the certificate
	// cannot be renewed on it.
	External bool `json:"externallyManaged"`
	// Fingerprint is its SHA-256, see [Fingerprint].
	Fingerprint string `json:"fingerprint,omitempty"`
	// CommonName and SANs are what it says.
	CommonName string   `json:"commonName,omitempty"`
	SANs       []string `json:"sans,omitempty"`
}

// IsCA distinguishes CAs from what they issue.
func (e Expiry) IsCA() bool { return e.Name == MachineCA || e.Name == NextCA }

// Left returns the time left.
func (e Expiry) Left() time.Duration { return time.Duration(e.Residual) * time.Second }

// Expiries reads the certificates in the PKI directory of a machine: the pairs
// in the order of [MachinePairs], and then the CAs, one entry for each
// certificate in ca.crt. It changes nothing. A directory that is not there, or
// has no certificate at all, is an error.
func Expiries(dir string, now time.Time) ([]Expiry, error) {
	ca, check := checkCA(dir, now)
	_, err := os.Stat(pairFile(dir, MachineCA, ".key"))
	external := errors.Is(err, fs.ErrNotExist)
	var all []Expiry
	for _, name := range MachinePairs() {
		e := Expiry{Name: name, File: pairFile(dir, name, ".crt"), External: external}
		chain, _, why := readPair(dir, name)
		if len(chain) == 0 {
			e.Missing = !exists(e.File)
			if !e.Missing {
				e.Problem = why
			}
			all = append(all, e)
			continue
		}
		e.of(chain[0], now)
		e.CA, e.Problem = chain[0].Issuer.CommonName, why
		if why == "" {
			e.Problem = ca.untrusted(chain, now)
		}
		all = append(all, e)
	}
	all = append(all, caExpiries(dir, ca, check, now)...)
	if !slices.ContainsFunc(all, func(e Expiry) bool { return !e.Missing }) {
		return nil, &FileError{File: dir, Problem: fmt.Sprintf("there is no certificate in %s", dir),
			Do: "name the directory with --certs-dir"}
	}
	return all, nil
}

// caExpiries returns the entries of ca.crt and ca-next.crt.
func caExpiries(dir string, ca caFiles, check CACheck, now time.Time) []Expiry {
	var all []Expiry
	for _, c := range ca.bundle {
		e := Expiry{Name: MachineCA, File: pairFile(dir, MachineCA, ".crt"), External: check.State == PairExternal}
		e.of(c, now)
		if check.State == PairBroken {
			e.Problem = check.Problem
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		all = append(all, Expiry{
			Name: MachineCA, File: pairFile(dir, MachineCA, ".crt"), Missing: check.State == PairMissing, Problem: check.Problem,
		})
	}
	next := Expiry{Name: NextCA, File: pairFile(dir, NextCA, ".crt")}
	if !exists(next.File) {
		return all
	}
	certs, err := readCerts(next.File, "")
	if err != nil {
		next.Problem = strings.TrimPrefix(err.Error(), "certificates: ")
		return append(all, next)
	}
	next.of(certs[0], now)
	// It may be in ca.crt too.
	all = slices.DeleteFunc(all, func(e Expiry) bool { return len(ca.bundle) > 1 && e.Fingerprint == next.Fingerprint })
	return append(all, next)
}

// of takes over what a certificate says.
func (e *Expiry) of(c *x509.Certificate, now time.Time) {
	e.NotAfter, e.Residual = c.NotAfter.UTC(), int64(math.Floor(c.NotAfter.Sub(now).Seconds()))
	e.Fingerprint, e.CommonName = Fingerprint(c), c.Subject.CommonName
	e.SANs = append(slices.Clone(c.DNSNames), ipStrings(c.IPAddresses)...)
}

// untrusted says why those who trust ca.crt do not accept a certificate.
func (f caFiles) untrusted(chain []*x509.Certificate, now time.Time) string {
	return caFiles{bundle: f.bundle}.refuses(chain, now)
}

func trusted(bundle []*x509.Certificate, c *x509.Certificate) bool {
	return slices.ContainsFunc(bundle, c.Equal)
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return !errors.Is(err, fs.ErrNotExist)
}
