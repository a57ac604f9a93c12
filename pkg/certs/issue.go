package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// A CAExistsError says that a CA is not created because there is something.
type CAExistsError struct{ File string }

func (e *CAExistsError) Error() string {
	return fmt.Sprintf("create CA: %s already exists, and is not overwritten", e.File)
}

// Hint says what to do about it.
func (e *CAExistsError) Hint() string {
	return "a CA is ca.crt and ca.key; restore the missing one, or move both away to start with a new CA"
}

// A NoCAError says that there is no CA to issue with.
type NoCAError struct{ Dir, Problem string }

func (e *NoCAError) Error() string { return "certificates: " + e.Problem }

// Hint says what to do about it.
func (e *NoCAError) Hint() string {
	return "copy ca.crt and ca.key from a machine of the cluster to " + e.Dir
}

// An ExternalCAError says that certificates are needed and that the CA's key
// is elsewhere.
type ExternalCAError struct {
	Dir string
	// Problems say what is wrong, one pair each.
	Problems []string
}

func (e *ExternalCAError) Error() string {
	text := fmt.Sprintf("certificates: the CA's key %s is not on this machine, and", pairFile(e.Dir, MachineCA, ".key"))
	for i, p := range e.Problems {
		if i > 0 {
			text += ";"
		}
		text += " " + p
	}
	return text
}

// Hint says what to do about it.
func (e *ExternalCAError) Hint() string {
	return fmt.Sprintf("write requests for the CA: etcdadm certs generate-csr --certs-dir=%s; then put the "+
		"certificates beside their keys", e.Dir)
}

// CreateMachineCA makes the CA of a new cluster: ca.crt and ca.key. If one of
// the two is there it changes nothing and returns a *[CAExistsError]. After a
// crash in between, calling it again completes the same CA.
//
// A machine that joins must never call it: its CA is the cluster's.
func CreateMachineCA(spec MachineSpec, now time.Time) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	return locked(spec.Dir, func() error { return createCA(spec, MachineCA, now) })
}

// halfFile is the name under which a file of a CA is made. It gets its own
// name when both files are there, the key first: so a CA that was cut short
// can be distinguished from a key that somebody has brought without its certificate.
func halfFile(dir, name, ext string) string { return filepath.Join(dir, "."+name+"-new"+ext) }

// createCA makes the CA pair of a name.
func createCA(spec MachineSpec, name string, now time.Time) error {
	certFile, keyFile := pairFile(spec.Dir, name, ".crt"), pairFile(spec.Dir, name, ".key")
	if exists(certFile) {
		return &CAExistsError{certFile}
	}
	if !exists(keyFile) {
		if err := newMachineCA(spec, name, now); err != nil {
			return err
		}
		if err := os.Rename(halfFile(spec.Dir, name, ".key"), keyFile); err != nil {
			return fmt.Errorf("create CA: %w", err)
		}
	} else if !halfMade(spec.Dir, name) {
		return &CAExistsError{keyFile}
	}
	if err := hostfs.Rename(halfFile(spec.Dir, name, ".crt"), certFile); err != nil {
		return fmt.Errorf("create CA: %w", err)
	}
	return nil
}

// newMachineCA writes a new CA pair under its first names.
func newMachineCA(spec MachineSpec, name string, now time.Time) error {
	ca, err := NewCA(CASpec{
		CommonName: machineCAName, DNSNames: []string{machineCAName}, Lifetime: spec.caLifetime(), RSA: spec.RSA,
	}, now)
	if err != nil {
		return err
	}
	key, err := keyPEM(ca.key)
	if err != nil {
		return fmt.Errorf("new CA: %w", err)
	}
	keyFile, certFile := halfFile(spec.Dir, name, ".key"), halfFile(spec.Dir, name, ".crt")
	for _, file := range []string{keyFile, certFile} {
		if err := hostfs.RemoveTemp(file); err != nil {
			return fmt.Errorf("new CA: %w", err)
		}
	}
	write := spec.writer(nil)
	if err := write(keyFile, key, 0o600); err != nil {
		return fmt.Errorf("new CA: %w", err)
	}
	if err := write(certFile, ca.PEM(), 0o644); err != nil {
		return fmt.Errorf("new CA: %w", err)
	}
	return nil
}

// halfMade reports whether the key of a CA is one whose certificate still has
// its first name.
func halfMade(dir, name string) bool {
	text, err := os.ReadFile(halfFile(dir, name, ".crt"))
	if err != nil {
		return false
	}
	bundle, err := parseCerts(text)
	if err != nil {
		return false
	}
	keyText, err := os.ReadFile(pairFile(dir, name, ".key"))
	if err != nil {
		return false
	}
	key, err := parseKey(keyText)
	return err == nil && samePublicKey(bundle[0], key)
}

// IssueMachine makes the pairs of a machine what the spec says, and returns
// the names of those that it changed. It leaves alone what is good, see
// [ObserveMachine]. A key that is there stays in use, so that the new certificate
// belongs to it at every moment and a running etcd takes it up at the next
// handshake, without a restart.
//
// It never makes a CA: without one it returns a *[NoCAError]. With an external
// CA it issues nothing, and returns an *[ExternalCAError] if something would
// have to be.
func IssueMachine(spec MachineSpec, now time.Time) (issued []string, err error) {
	requests, _, err := spec.requests()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(spec.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil, &NoCAError{Dir: spec.Dir, Problem: missingCA(spec.Dir).Problem}
	}
	err = locked(spec.Dir, func() error {
		ca, check := checkCA(spec.Dir, now)
		switch check.State {
		case PairOK, PairExternal:
		case PairMissing:
			return &NoCAError{Dir: spec.Dir, Problem: check.Problem}
		default:
			return caProblem(spec.Dir, check)
		}
		issued, err = spec.issue(ca, requests, now)
		if err != nil || len(issued) == 0 {
			return err
		}
		return hostfs.SyncDir(spec.Dir)
	})
	return issued, err
}

func (s MachineSpec) issue(ca caFiles, requests []machineRequest, now time.Time) (issued []string, err error) {
	var external []string
	for _, r := range requests {
		l := r.check(s, ca, now)
		switch {
		case l.State == PairOK:
			continue
		case l.State == PairWrong && !l.reissue:
			err = s.guardKey(r.name)
		case ca.ca == nil && l.Usable():
			continue
		case ca.ca == nil:
			external = append(external, r.name+": "+l.Why)
			continue
		default:
			_, err = s.issueOne(ca.ca, r.name, s.keeping(r, ca, now), now)
		}
		if err != nil {
			return issued, err
		}
		issued = append(issued, r.name)
	}
	if len(external) > 0 {
		return issued, &ExternalCAError{Dir: s.Dir, Problems: external}
	}
	return issued, nil
}

// keeping returns the request for a certificate in place of the present one,
// whose names stay in it. The subject stays where a CA that is trusted has issued
// it: somebody may know the machine, or its clients, by that.
func (s MachineSpec) keeping(r machineRequest, ca caFiles, now time.Time) Request {
	request := r.Request
	chain, _, _ := readPair(s.Dir, r.name)
	if len(chain) == 0 {
		return request
	}
	present := chain[0]
	request = request.plus(present.DNSNames, present.IPAddresses)
	if (caFiles{bundle: ca.bundle}).refuses(chain, now) == "" && present.Subject.CommonName != "" {
		request.like = present
	}
	return request
}

// issueOne replaces the certificate of a pair, and its key if that is not
// usable.
func (s MachineSpec) issueOne(ca *CA, name string, r Request, now time.Time) (*x509.Certificate, error) {
	p := Pair{
		CertFile: pairFile(s.Dir, name, ".crt"), KeyFile: pairFile(s.Dir, name, ".key"), Request: r,
		WriteFile: func(path string, data []byte, perm os.FileMode) error {
			if filepath.Ext(path) == ".key" {
				return s.writer(s.owner(name))(path, data, perm)
			}
			return s.writer(nil)(path, data, perm)
		},
	}
	for _, file := range []string{p.CertFile, p.KeyFile} {
		if err := hostfs.RemoveTemp(file); err != nil {
			return nil, err
		}
	}
	leaf, _, err := p.ensure(ca, now, true)
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", p.CertFile, err)
	}
	return leaf.Cert, s.guardKey(name)
}

// guardKey makes the key readable by its owner alone.
func (s MachineSpec) guardKey(name string) error {
	file, owner := pairFile(s.Dir, name, ".key"), s.owner(name)
	if keyAccess(file, owner) == "" {
		return nil
	}
	if owner != nil {
		if err := os.Chown(file, owner.UID, owner.GID); err != nil {
			return fmt.Errorf("key %s: %w", file, err)
		}
	}
	if err := os.Chmod(file, 0o600); err != nil {
		return fmt.Errorf("key %s: %w", file, err)
	}
	return nil
}

func (s MachineSpec) writer(owner *FileOwner) WriteFunc {
	if s.write != nil {
		return s.write
	}
	return func(path string, data []byte, perm os.FileMode) error {
		return writeFileAs(owner, path, data, perm)
	}
}

// lockName is the file in a PKI directory by which two who change it exclude
// each other.
const lockName = ".certs.lock"

// locked makes the directory if it is not there, and holds its lock while it
// calls do. A *[hostfs.LockedError] says who else has it.
func locked(dir string, do func() error) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := makeDir(dir); err != nil {
			return fmt.Errorf("certificates: %w", err)
		}
	}
	lock, err := hostfs.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	return errors.Join(do(), lock.Unlock())
}

// makeDir makes a directory that everybody may look into, whatever the umask
// is: etcd may run as somebody else.
func makeDir(dir string) error {
	if err := hostfs.MakeDir(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}
