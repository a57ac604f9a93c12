package handover

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/host/hostfs"
)

// A pair is the files of a certificate authority.
type pair struct {
	dir, name string
	crt, key  []byte // nil where missing
}

func readPair(dir, name string) (pair, error) {
	p := pair{dir: dir, name: name}
	for _, f := range []struct {
		path string
		to   *[]byte
	}{{p.crtPath(), &p.crt}, {p.keyPath(), &p.key}} {
		b, err := os.ReadFile(f.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return p, err
		}
		*f.to = b
	}
	return p, nil
}

func (p pair) crtPath() string { return filepath.Join(p.dir, p.name+".crt") }
func (p pair) keyPath() string { return filepath.Join(p.dir, p.name+".key") }

// write puts the pair elsewhere, the key first, as it is: other tools compare
// bytes.
func (p pair) write(dir, name string, mode os.FileMode) error {
	to := pair{dir: dir, name: name}
	if err := hostfs.MakeDir(dir, mode); err != nil {
		return err
	}
	if err := hostfs.WriteFile(to.keyPath(), p.key, 0o600); err != nil {
		return err
	}
	return hostfs.WriteFile(to.crtPath(), p.crt, 0o644)
}

// absent says that the pair is to be made like another one. The key alone, if
// it is the right one, was left by a handover that was cut short.
func (p pair) absent(like pair) bool {
	return p.crt == nil && (p.key == nil || bytes.Equal(p.key, like.key))
}

// sameCA reports whether two authorities issue and trust the same.
func sameCA(a, b *certs.CA) bool {
	return a.Cert.Equal(b.Cert) && slices.EqualFunc(a.Bundle, b.Bundle, (*x509.Certificate).Equal)
}

// managerCAs are the authorities of the daemon.
var managerCAs = []string{certs.ManagerCA, certs.PeersCA, certs.ClientsCA}

// missingCAs returns which of the daemon's authorities are to be made of
// etcdadm's one. One that is there and differs is not replaced: other machines
// may go by it.
func missingCAs(certsDir, pkiDir string, now time.Time) ([]string, pair, error) {
	own, err := certs.LoadCA(certsDir, certs.MachineCA, now)
	if err != nil {
		return nil, pair{}, &Hold{
			CADiffers, fmt.Sprintf("put ca.crt and ca.key into %s: etcd-manager issues its certificates itself", certsDir),
			err.Error(),
		}
	}
	source, err := readPair(certsDir, certs.MachineCA)
	if err != nil {
		return nil, pair{}, err
	}
	var missing []string
	for _, name := range managerCAs {
		have, err := readPair(pkiDir, name)
		if err != nil {
			return nil, pair{}, err
		}
		if have.absent(source) {
			missing = append(missing, name)
			continue
		}
		ca, err := certs.LoadCA(pkiDir, name, now)
		if err != nil {
			return nil, pair{}, hold(CADiffers, "move it away, or choose another --pki-dir", "%v", err)
		}
		if !sameCA(own, ca) {
			return nil, pair{}, hold(CADiffers, "move it away, or choose another --pki-dir",
				"%s is another certificate authority than the %s that the members trust",
				have.crtPath(), source.crtPath())
		}
	}
	return missing, source, nil
}

// ownCA returns the authority that etcdadm is to have, of those of the daemon;
// the pair is empty where etcdadm has it already.
func ownCA(certsDir, pkiDir string, now time.Time) (pair, error) {
	peers, err := certs.LoadCA(pkiDir, certs.PeersCA, now)
	if err != nil {
		return pair{}, hold(CADiffers, "--pki-dir names the directory of etcd-manager's certificate authorities", "%v", err)
	}
	clients, err := certs.LoadCA(pkiDir, certs.ClientsCA, now)
	if err != nil {
		return pair{}, hold(CADiffers, "--pki-dir names the directory of etcd-manager's certificate authorities", "%v", err)
	}
	if !sameCA(peers, clients) {
		return pair{}, hold(CADiffers,
			"a cluster whose daemons have several authorities stays with them; etcdadm snapshot save and etcdadm init "+
				"--snapshot make a new cluster of its data",
			"etcd-manager's authorities for peers and for clients are different ones (%s and %s in %s), and etcdadm has one "+
				"for both, so that its members and the others would not trust each other",
			certs.PeersCA, certs.ClientsCA, pkiDir)
	}
	source, err := readPair(pkiDir, certs.ClientsCA)
	if err != nil {
		return pair{}, err
	}
	have, err := readPair(certsDir, certs.MachineCA)
	if err != nil {
		return pair{}, err
	}
	if have.absent(source) {
		return source, nil
	}
	if have.key == nil && bytes.Equal(have.crt, source.crt) {
		return pair{}, nil // the key is kept elsewhere
	}
	ca, err := certs.LoadCA(certsDir, certs.MachineCA, now)
	if err != nil {
		return pair{}, hold(CADiffers, "move it away, or choose another --certs-dir", "%v", err)
	}
	if !sameCA(ca, clients) {
		return pair{}, hold(CADiffers, "move it away, or choose another --certs-dir",
			"%s is another certificate authority than the %s that the members trust", have.crtPath(), source.crtPath())
	}
	return pair{}, nil
}
