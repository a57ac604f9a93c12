package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// The files of a rotation, beside those of the CA: the pair that comes, and the
// key that went, which is kept until the rotation is finished.
const (
	NextCA      = "ca-next"
	previousKey = "ca-previous.key"
)

// A RotationStep is a step of a rotation of the CA, done on each machine before
// the next one begins on any.
type RotationStep string

// The steps, in their order.
const (
	// StepPrepare makes the next CA, or takes the one that was copied here, and
	// trusts both.
	StepPrepare RotationStep = "prepare"
	// StepIssue issues the machine's certificates from the next CA, which becomes
	// the CA.
	StepIssue RotationStep = "issue"
	// StepFinish trusts the old CA no more.
	StepFinish RotationStep = "finish"
)

// A RotationState says how far the rotation of the CA is on a machine. The
// files show it: there is no other record.
type RotationState string

// The states. Those in -ing are left by a crash, or by files that were copied;
// the step of that name goes on from there.
const (
	// RotationIdle: one CA, no next one.
	RotationIdle RotationState = "idle"
	// RotationPreparing: the next CA is there, and not trusted yet.
	RotationPreparing RotationState = "preparing"
	// RotationPrepared: both are trusted, the old one issues.
	RotationPrepared RotationState = "prepared"
	// RotationIssuing: the next one has issued some certificates.
	RotationIssuing RotationState = "issuing"
	// RotationIssued: the new one issues, the old one is still trusted.
	RotationIssued RotationState = "issued"
)

// A Rotation is what the files say of the rotation of the CA.
type Rotation struct {
	State RotationState `json:"state"`
	// Issuing is the fingerprint of the CA that issues, Next that of the one
	// that will, empty if there is none.
	Issuing string `json:"issuing"`
	Next    string `json:"next,omitempty"`
	// Old are the fingerprints of those in ca.crt that are to be dropped at the
	// end: all but the newest CA, and those that issued it.
	Old []string `json:"old,omitempty"`
	// OldLeaves are the pairs that the newest CA has not issued.
	OldLeaves []string `json:"oldLeaves,omitempty"`

	ca, next *CA
}

// newest returns the CA that is to issue in the end.
func (r Rotation) newest() *CA {
	if r.next != nil {
		return r.next
	}
	return r.ca
}

// CheckRotation says how far the rotation of the CA is. It needs the CA's key:
// without it, the CA is rotated where the key is, and the error says how the
// machine follows.
func CheckRotation(dir string, now time.Time) (Rotation, error) {
	files, check := checkCA(dir, now)
	switch check.State {
	case PairOK:
	case PairMissing:
		return Rotation{}, &NoCAError{Dir: dir, Problem: check.Problem}
	case PairExternal:
		return Rotation{}, &FileError{
			File:    pairFile(dir, MachineCA, ".key"),
			Problem: fmt.Sprintf("the CA's key %s is not on this machine", pairFile(dir, MachineCA, ".key")),
			Do: "add the new CA's certificate to ca.crt on all machines and restart etcd; have new certificates issued " +
				"(etcdadm certs generate-csr); " +
				"then remove the old one from ca.crt and restart etcd again",
		}
	default:
		return Rotation{}, caProblem(dir, check)
	}
	r := Rotation{State: RotationIdle, Issuing: check.Fingerprint, ca: files.ca}
	if err := r.findNext(dir, now); err != nil {
		return Rotation{}, err
	}
	keep := chainOf(r.newest().Cert, files.bundle)
	for _, c := range files.bundle {
		if !trusted(keep, c) {
			r.Old = append(r.Old, Fingerprint(c))
		}
	}
	for _, name := range MachinePairs() {
		chain, _, _ := readPair(dir, name)
		if len(chain) > 0 && chain[0].CheckSignatureFrom(r.newest().Cert) != nil {
			r.OldLeaves = append(r.OldLeaves, name)
		}
	}
	r.State = r.judge(dir)
	return r, nil
}

// findNext reads the pair of the next CA.
func (r *Rotation) findNext(dir string, now time.Time) error {
	certFile, keyFile := pairFile(dir, NextCA, ".crt"), pairFile(dir, NextCA, ".key")
	switch {
	case !exists(certFile) && (!exists(keyFile) || halfMade(dir, NextCA)):
		return nil
	case !exists(certFile):
		return nextProblem(certFile, fmt.Sprintf("%s exists, but not %s", keyFile, certFile))
	case !exists(keyFile):
		if samePublicKeys(certFile, r.ca) {
			return nil // the last removal of "issue" was cut short
		}
		return nextProblem(keyFile, fmt.Sprintf("%s exists, but not %s", certFile, keyFile))
	}
	next, err := LoadCA(dir, NextCA, now)
	if err != nil {
		return nextProblem(certFile, strings.TrimPrefix(err.Error(), "load CA: "))
	}
	r.next, r.Next = next, Fingerprint(next.Cert)
	return nil
}

// samePublicKeys reports whether the certificate in a file is that of a CA.
func samePublicKeys(file string, ca *CA) bool {
	certs, err := readCerts(file, "")
	return err == nil && certs[0].Equal(ca.Cert)
}

func nextProblem(file, problem string) error {
	return &FileError{File: file, Problem: problem,
		Do: "copy ca-next.crt and ca-next.key from the machine on which etcdadm certs rotate-ca prepare made them"}
}

func (r Rotation) judge(dir string) RotationState {
	switch {
	case r.next == nil && len(r.Old) == 0:
		return RotationIdle
	case r.next == nil:
		return RotationIssued
	case r.Issuing == r.Next:
		return RotationIssuing // only the old files are to go
	case !trusted(r.ca.Bundle, r.next.Cert):
		return RotationPreparing
	}
	for _, name := range MachinePairs() {
		chain, _, _ := readPair(dir, name)
		if len(chain) > 0 && !slices.Contains(r.OldLeaves, name) {
			return RotationIssuing
		}
	}
	return RotationPrepared
}

// TrustProbe returns the TLS configuration of a client with which another
// machine can be asked whether a step may be done here: it shows a certificate
// of the new CA, which only an etcd accepts that was restarted after "prepare",
// and before "finish" it accepts only a server with a certificate of the new
// CA. The certificate is in memory alone and good for an hour.
func TrustProbe(dir string, step RotationStep, now time.Time) (*tls.Config, error) {
	r, err := CheckRotation(dir, now)
	if err != nil {
		return nil, err
	}
	newest := r.newest()
	leaf, err := newest.Issue(Request{CommonName: "etcdadm-rotate-ca", Client: true, Lifetime: time.Hour}, now)
	if err != nil {
		return nil, err
	}
	roots := r.ca.With(newest).Bundle
	if step == StepFinish {
		roots = chainOf(newest.Cert, r.ca.Bundle)
	}
	pool := x509.NewCertPool()
	for _, c := range roots {
		pool.AddCert(c)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{leaf.TLS()}}, nil
}

// chainOf returns the certificates in bundle that vouch for a CA: its own, the
// one that issued it, and so on.
func chainOf(ca *x509.Certificate, bundle []*x509.Certificate) []*x509.Certificate {
	chain := []*x509.Certificate{ca}
	for i := 0; i < len(chain); i++ {
		for _, c := range bundle {
			if !trusted(chain, c) && chain[i].CheckSignatureFrom(c) == nil {
				chain = append(chain, c)
			}
		}
	}
	return chain
}

// writeBundle writes ca.crt, if it is not that already.
func (s MachineSpec) writeBundle(bundle []*x509.Certificate) (bool, error) {
	file := pairFile(s.Dir, MachineCA, ".crt")
	text := certPEM(sortBundle(slices.Clone(bundle))...)
	if old, err := os.ReadFile(file); err == nil && string(old) == string(text) {
		return false, nil
	}
	return true, s.writer(nil)(file, text, 0o644)
}
