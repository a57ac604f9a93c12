package handover

import (
	"bytes"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
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

// authorities observes the certificate authorities of both sides.
func (r *runner) authorities(h *machine.Handover, cfg machine.Config, now time.Time) (err error) {
	own := pair{dir: cfg.Paths.Certificates, name: certs.MachineCA}
	source, others := own, []pair{}
	if r.goal.Action == machine.FromManager {
		source = pair{dir: r.o.PKIDir, name: certs.ClientsCA}
		others = []pair{{dir: r.o.PKIDir, name: certs.PeersCA}, own}
	} else {
		for _, name := range managerCAs {
			others = append(others, pair{dir: r.o.PKIDir, name: name})
		}
	}
	if source, err = readPair(source.dir, source.name); err != nil {
		return err
	}
	h.Source = machine.Authority{Dir: source.dir, Name: source.name, State: machine.CAReady}
	ca, err := certs.LoadCA(source.dir, source.name, now)
	if err != nil {
		h.Source.State, h.Source.Problem = machine.CABad, err.Error()
	}
	h.Others = nil
	for _, o := range others {
		a, err := compared(o, source, ca, now)
		if err != nil {
			return err
		}
		h.Others = append(h.Others, a)
	}
	return nil
}

// compared observes the authority in the place of p, beside that of the source, which
// is ca, nil where it cannot be used.
func compared(p, source pair, ca *certs.CA, now time.Time) (machine.Authority, error) {
	a := machine.Authority{Dir: p.dir, Name: p.name}
	p, err := readPair(p.dir, p.name)
	if err != nil {
		return a, err
	}
	have, err := certs.LoadCA(p.dir, p.name, now)
	if err != nil {
		a.Problem = err.Error()
	}
	switch {
	case p.absent(source):
		a.State = machine.CAAbsent
	case p.key == nil && bytes.Equal(p.crt, source.crt):
		a.State = machine.CAExternal
	case err != nil:
		a.State = machine.CABad
	case ca == nil || !sameCA(ca, have):
		a.State = machine.CAOther
	default:
		a.State = machine.CAReady
	}
	return a, nil
}
