package certs

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A PairState says whether a pair of files is good.
type PairState string

// The states of pairs.
const (
	// PairOK: nothing is to be done.
	PairOK PairState = "ok"
	// PairMissing: the certificate is not there.
	PairMissing PairState = "missing"
	// PairExternal: a CA without its key. It says whom to trust, and others issue.
	PairExternal PairState = "external"
	// PairDue: good, but in the last third of its life.
	PairDue PairState = "due"
	// PairExpired: its time is over.
	PairExpired PairState = "expired"
	// PairWrong: a certificate that says something else than the spec, that
	// another CA issued, or whose key the wrong people can read.
	PairWrong PairState = "wrong"
	// PairBroken: what is in the files cannot be used.
	PairBroken PairState = "broken"
)

// A CACheck is what is there of the CA.
type CACheck struct {
	// State is ok, missing, external, expired or broken.
	State PairState `json:"state"`
	// Problem says why it is not ok, empty for external.
	Problem string `json:"problem,omitempty"`
	// Fingerprint and KeyHash are of the certificate that issues, and without the
	// CA's key of the first one in the file; see the functions of these names.
	Fingerprint string    `json:"fingerprint,omitempty"`
	KeyHash     string    `json:"keyHash,omitempty"`
	NotAfter    time.Time `json:"notAfter,omitzero"`
	// ValidFrom is when the CA will be valid by this machine's clock, zero if it is or
	// never will be.
	ValidFrom time.Time `json:"validFrom,omitzero"`
	// Trusted are the fingerprints of all certificates in the file, sorted by
	// their DER bytes: more than one in a rotation.
	Trusted []string `json:"trusted,omitempty"`
}

// A LeafCheck is what is there of one pair.
type LeafCheck struct {
	// Name is one of [MachinePairs].
	Name  string    `json:"name"`
	State PairState `json:"state"`
	// Why says why it is not ok.
	Why string `json:"why,omitempty"`
	// OtherKey says that its key is not of the kind that etcd's cipher suites are for.
	OtherKey bool `json:"otherKey,omitempty"`
	// The rest is empty where no certificate can be read.
	CommonName  string    `json:"commonName,omitempty"`
	Fingerprint string    `json:"fingerprint,omitempty"`
	NotAfter    time.Time `json:"notAfter,omitzero"`

	// reissue is false where only the key's owner or mode is wrong.
	reissue bool
}

// Usable reports whether etcd can work with the pair for now.
func (l LeafCheck) Usable() bool { return l.State == PairOK || l.State == PairDue }

// A MachinePKI is what is in the PKI directory of a machine.
type MachinePKI struct {
	CA     CACheck     `json:"ca"`
	Leaves []LeafCheck `json:"leaves"`
	// Warnings are of use to a person: names that are in the certificates in
	// another form, names that an issue would drop.
	Warnings []string `json:"warnings,omitempty"`
}

// ToIssue returns the names of the pairs that [IssueMachine] would change, in
// its order. With an external CA they are those that it would refuse.
func (p MachinePKI) ToIssue() []string {
	var names []string
	for _, l := range p.Leaves {
		if l.State != PairOK && (p.CA.State != PairExternal || !l.Usable()) {
			names = append(names, l.Name)
		}
	}
	return names
}

// Complete reports whether nothing is to be done.
func (p MachinePKI) Complete() bool {
	return (p.CA.State == PairOK || p.CA.State == PairExternal) && len(p.ToIssue()) == 0
}

// ObserveMachine says what is in the files of a machine, and holds it against the
// spec. It changes nothing and makes no connection. A spec that is wrong
// ([MachineSpec.Validate]) makes every pair wrong.
//
// Names that a certificate has beyond the spec are no fault, and neither is
// another subject. It may lack the names that nobody asked for, unless the
// spec asks for them: the host name, localhost, and loopback addresses that etcd
// does not need.
func ObserveMachine(spec MachineSpec, now time.Time) MachinePKI {
	ca, check := checkCA(spec.Dir, now)
	pki := MachinePKI{CA: check}
	requests, warnings, err := spec.requests()
	if err != nil {
		for _, name := range MachinePairs() {
			pki.Leaves = append(pki.Leaves, LeafCheck{Name: name, State: PairWrong, Why: err.Error()})
		}
		return pki
	}
	pki.Warnings = warnings
	if why := keyAccess(pairFile(spec.Dir, MachineCA, ".key"), nil); check.State == PairOK && why != "" {
		pki.Warnings = append(pki.Warnings, why)
	}
	for _, r := range requests {
		pki.Leaves = append(pki.Leaves, r.check(spec, ca, now))
	}
	return pki
}

// caFiles are the CA as far as it can be read. The issuing CA is nil in one
// without key, and all is nil where nothing can be trusted.
type caFiles struct {
	ca     *CA
	bundle []*x509.Certificate
}

func pairFile(dir, name, ext string) string { return filepath.Join(dir, name+ext) }

// checkCA reads ca.crt and ca.key.
func checkCA(dir string, now time.Time) (caFiles, CACheck) {
	certFile, keyFile := pairFile(dir, MachineCA, ".crt"), pairFile(dir, MachineCA, ".key")
	text, err := os.ReadFile(certFile)
	if errors.Is(err, fs.ErrNotExist) {
		return caFiles{}, missingCA(dir)
	}
	var bundle []*x509.Certificate
	if err == nil {
		bundle, err = parseCerts(text)
	}
	if err != nil {
		return caFiles{}, CACheck{State: PairBroken, Problem: fmt.Sprintf("%s: %s", certFile, cause(err))}
	}
	first := bundle[0]
	bundle = sortBundle(bundle)
	check := CACheck{Fingerprint: Fingerprint(first), KeyHash: KeyHash(first), NotAfter: first.NotAfter}
	for _, c := range bundle {
		check.Trusted = append(check.Trusted, Fingerprint(c))
	}
	if _, err := os.Stat(keyFile); errors.Is(err, fs.ErrNotExist) {
		return observeExternal(check, bundle, certFile, now)
	}
	ca, err := LoadCA(dir, MachineCA, now)
	var invalid *ValidityError
	switch {
	case err == nil:
		check.State, check.Fingerprint, check.KeyHash, check.NotAfter = PairOK, Fingerprint(ca.Cert), KeyHash(ca.Cert),
			ca.Cert.NotAfter
		return caFiles{ca, bundle}, check
	case errors.As(err, &invalid):
		check.outside(invalid)
	default:
		check.State = PairBroken
	}
	check.Problem = strings.TrimPrefix(err.Error(), "load CA: ")
	return caFiles{bundle: bundle}, check
}

// missingCA distinguishes nothing at all from a key without its certificate.
func missingCA(dir string) CACheck {
	keyFile := pairFile(dir, MachineCA, ".key")
	_, err := os.Stat(keyFile)
	if errors.Is(err, fs.ErrNotExist) || halfMade(dir, MachineCA) {
		return CACheck{State: PairMissing, Problem: fmt.Sprintf("there is no CA in %s", dir)}
	}
	return CACheck{State: PairBroken,
		Problem: fmt.Sprintf("%s exists, but not its certificate %s", keyFile, pairFile(dir, MachineCA, ".crt"))}
}

// observeExternal judges a CA whose key is not here: one of the certificates must
// be good.
func observeExternal(check CACheck, bundle []*x509.Certificate, file string, now time.Time) (caFiles, CACheck) {
	var first error
	for _, c := range bundle {
		err := usable(c, file, now)
		if err == nil {
			check.State = PairExternal
			return caFiles{bundle: bundle}, check
		}
		if first == nil {
			first = err
		}
	}
	check.State, check.Problem = PairBroken, first.Error()
	var invalid *ValidityError
	if errors.As(first, &invalid) {
		check.outside(invalid)
	}
	return caFiles{bundle: bundle}, check
}

// outside notes that now is not in the time of the CA.
func (c *CACheck) outside(e *ValidityError) {
	if c.State = PairExpired; !e.Expired() {
		c.State, c.ValidFrom = PairBroken, e.NotBefore
	}
}

// cause returns the text of an error about a file, without the file's name.
func cause(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// check judges one pair.
func (r machineRequest) check(spec MachineSpec, ca caFiles, now time.Time) LeafCheck {
	l := LeafCheck{Name: r.name, reissue: true}
	bad := func(state PairState, format string, args ...any) LeafCheck {
		l.State, l.Why = state, fmt.Sprintf(format, args...)
		return l
	}
	chain, state, why := readPair(spec.Dir, r.name)
	if len(chain) > 0 {
		l.CommonName, l.Fingerprint, l.NotAfter = chain[0].Subject.CommonName, Fingerprint(chain[0]), chain[0].NotAfter
	}
	if why != "" {
		return bad(state, "%s", why)
	}
	cert := chain[0]
	if why := ca.refuses(chain, now); why != "" {
		return bad(PairWrong, "%s", why)
	}
	if now.After(cert.NotAfter) {
		return bad(PairExpired, "it expired on %s", day(cert.NotAfter))
	}
	if now.Before(cert.NotBefore) {
		return bad(PairWrong, "it is not valid before %s; is this machine's clock correct?", day(cert.NotBefore))
	}
	if why := r.lacks(cert); why != "" {
		return bad(PairWrong, "%s", why)
	}
	if l.OtherKey = !r.takes(cert.PublicKey); l.OtherKey {
		return bad(PairWrong, "its key is %s, and the cipher suites are for %s alone", cert.PublicKeyAlgorithm, r.keys)
	}
	l.reissue = false
	if why := keyAccess(pairFile(spec.Dir, r.name, ".key"), spec.owner(r.name)); why != "" {
		return bad(PairWrong, "%s", why)
	}
	l.reissue = true
	if r.isDue(cert, ca, now) {
		return bad(PairDue, "it expires on %s", day(cert.NotAfter))
	}
	l.State = PairOK
	return l
}

// readPair reads a certificate, with those that follow it in its file, and
// holds it against its key. Why is empty if the pair can be used.
func readPair(dir, name string) (chain []*x509.Certificate, state PairState, why string) {
	certFile, keyFile := pairFile(dir, name, ".crt"), pairFile(dir, name, ".key")
	certText, certErr := os.ReadFile(certFile)
	keyText, keyErr := os.ReadFile(keyFile)
	if certErr == nil {
		chain, certErr = parseCerts(certText)
	}
	var key crypto.Signer
	if keyErr == nil {
		key, keyErr = parseKey(keyText)
	}
	noCert, noKey := errors.Is(certErr, fs.ErrNotExist), errors.Is(keyErr, fs.ErrNotExist)
	switch {
	case noCert && noKey:
		return nil, PairMissing, "certificate and key are missing"
	case noCert:
		return nil, PairMissing, "its key exists, but not " + certFile
	case certErr != nil:
		return nil, PairBroken, certFile + ": " + cause(certErr)
	case noKey:
		return chain, PairBroken, "the certificate exists, but not its key " + keyFile
	case keyErr != nil:
		return chain, PairBroken, keyFile + ": " + cause(keyErr)
	case !samePublicKey(chain[0], key):
		return chain, PairBroken, fmt.Sprintf("%s and %s do not belong together", certFile, keyFile)
	}
	return chain, "", ""
}

// refuses says why a certificate is not one of the CA. A CA with its key must
// have issued it itself; what is trusted but not issued by it, in a rotation,
// is to be issued again.
func (f caFiles) refuses(chain []*x509.Certificate, now time.Time) string {
	cert := chain[0]
	if f.ca != nil {
		if cert.CheckSignatureFrom(f.ca.Cert) == nil {
			return ""
		}
		return fmt.Sprintf("it was issued by another CA than that of ca.crt and ca.key (%q)", cert.Issuer.CommonName)
	}
	if f.bundle == nil {
		return "" // there is nothing to hold it against
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range f.bundle {
		roots.AddCert(c)
	}
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	at := now // the time of the certificate itself is checked elsewhere
	if at.After(cert.NotAfter) {
		at = cert.NotAfter
	}
	if at.Before(cert.NotBefore) {
		at = cert.NotBefore
	}
	o := x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}
	if _, err := cert.Verify(o); err != nil {
		return fmt.Sprintf("no CA in ca.crt has issued it (%q did): %s", cert.Issuer.CommonName, err)
	}
	return ""
}

// isDue reports whether a certificate is in the last third of its life and a
// new one would live longer.
func (r machineRequest) isDue(c *x509.Certificate, ca caFiles, now time.Time) bool {
	// Who made it may have given it a shorter life than ours.
	then := now.Add(min(r.lifetime(), c.NotAfter.Sub(c.NotBefore)) / 3)
	if ca.ca == nil {
		return then.After(c.NotAfter)
	}
	return due(c, ca.ca, r.Request, then, now)
}

// keyAccess says what is wrong with who can read a key.
func keyAccess(file string, owner *FileOwner) string {
	info, err := os.Stat(file)
	if err != nil {
		return cause(err)
	}
	mode := info.Mode().Perm()
	if mode&0o007 != 0 {
		return fmt.Sprintf("everybody on this machine can read %s (mode %04o)", file, mode)
	}
	is := ownerOf(file)
	if owner == nil || is == nil {
		return ""
	}
	if is.UID == owner.UID && mode&0o400 != 0 || is.GID == owner.GID && mode&0o040 != 0 {
		return ""
	}
	return fmt.Sprintf("user %d, who runs etcd, cannot read %s", owner.UID, file)
}

// ownerOf returns whose a file is, nil if that cannot be determined.
func ownerOf(file string) *FileOwner {
	info, err := os.Stat(file)
	if err != nil {
		return nil
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return &FileOwner{UID: int(stat.Uid), GID: int(stat.Gid)}
}

func day(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }
