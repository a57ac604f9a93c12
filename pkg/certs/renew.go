package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// RetryDelay is how soon a [Renewer] wants to be asked again after a failure.
const RetryDelay = time.Minute

// A Source says where a certificate of a [Renewer] comes from.
type Source struct {
	// Name names it in results and errors.
	Name string
	// Dir and CA are the PKI directory and the name of the CA pair in it.
	Dir, CA string
	// Pair says what to issue and in which files to keep it. With an empty
	// CertFile it is kept in memory alone. RenewBefore counts when the source is
	// added; later the last third of the lifetime does.
	Pair Pair
}

// A Renewer holds certificates, and issues them again in time while they are
// in use. It is safe for concurrent use.
type Renewer struct {
	// renewing is held while files are read and written, on a disk that may hang; mu never is.
	renewing sync.Mutex
	mu       sync.Mutex
	held     []*Identity // by name
}

// An Identity is a certificate of a [Renewer] with the certificates that it
// trusts; both change as time goes by, for all TLS configurations made of it.
type Identity struct {
	source  Source
	current atomic.Pointer[snapshot]
}

// A snapshot is what an Identity is at one time.
type snapshot struct {
	ca   *CA
	pool *x509.CertPool
	leaf Leaf
	tls  tls.Certificate
}

// Add loads the CA of a source, issues its certificate or takes it from its
// files, and holds it from now on. A source whose name is held already
// replaces the other one.
func (r *Renewer) Add(s Source, now time.Time) (*Identity, error) {
	ca, err := LoadCA(s.Dir, s.CA, now)
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", s.Name, err)
	}
	id := &Identity{source: s}
	leaf, err := id.issue(ca, now, s.Pair, true)
	if err != nil {
		return nil, err
	}
	id.set(ca, leaf)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(s.Name)
	r.held = append(r.held, id)
	slices.SortFunc(r.held, func(a, b *Identity) int { return strings.Compare(a.source.Name, b.source.Name) })
	return id, nil
}

// Remove stops renewing a certificate. Its files and TLS configurations stay
// as they are.
func (r *Renewer) Remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(name)
}

func (r *Renewer) drop(name string) {
	r.held = slices.DeleteFunc(r.held, func(id *Identity) bool { return id.source.Name == name })
}

// Renew issues again each certificate that is in the last third of its
// lifetime, whose CA files have changed, or whose own files are not good any
// more. It returns the names of those that are new, and when it is to be called
// next, zero if it holds nothing. It may be called at any time, and as nothing
// else notices a change of the CA files, it should be now and then.
//
// A certificate that cannot be renewed stays in use; the others are renewed
// nevertheless, and the error says which failed.
func (r *Renewer) Renew(now time.Time) (renewed []string, next time.Time, err error) {
	r.renewing.Lock()
	defer r.renewing.Unlock()
	var errs []error
	for _, id := range r.identities() {
		changed, err := id.renew(now)
		at := id.renewAt(now)
		if err != nil {
			errs = append(errs, err)
			at = now.Add(RetryDelay)
		}
		if changed {
			renewed = append(renewed, id.source.Name)
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return renewed, next, errors.Join(errs...)
}

// identities returns what is held now.
func (r *Renewer) identities() []*Identity {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.held)
}

// NotAfter returns when the first of the held certificates ends, zero if none
// is held. It waits for no disk.
func (r *Renewer) NotAfter() time.Time {
	var first time.Time
	for _, id := range r.identities() {
		if end := id.Leaf().Cert.NotAfter; first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}

// Leaf returns the present certificate.
func (id *Identity) Leaf() Leaf { return id.current.Load().leaf }

// Pool returns the certificates that are trusted at present.
func (id *Identity) Pool() *x509.CertPool { return id.current.Load().pool }

func (id *Identity) set(ca *CA, leaf Leaf) {
	id.current.Store(&snapshot{ca: ca, pool: ca.Pool(), leaf: leaf, tls: leaf.TLS()})
}

// issue makes the certificate in memory, or in its files if it has some. In
// files, one that is good enough is kept, unless fresh is asked for.
func (id *Identity) issue(ca *CA, now time.Time, p Pair, keep bool) (Leaf, error) {
	var leaf Leaf
	var err error
	if p.CertFile == "" {
		leaf, err = ca.Issue(p.Request, now)
	} else {
		leaf, _, err = p.ensure(ca, now, !keep)
	}
	if err != nil {
		err = fmt.Errorf("certificate %s: %w", id.source.Name, err)
	}
	return leaf, err
}

// renew reports whether the certificate or what it trusts is new.
func (id *Identity) renew(now time.Time) (bool, error) {
	old := id.current.Load()
	ca, loadErr := LoadCA(id.source.Dir, id.source.CA, now)
	if loadErr != nil {
		// The two files are perhaps being replaced just now, or the key was taken
		// off the machine. What was read before goes on.
		loadErr = fmt.Errorf("certificate %s: %w", id.source.Name, loadErr)
		ca = old.ca
	}
	p := id.source.Pair
	p.RenewBefore = 0 // the last third of the lifetime
	changed := ca.sum != old.ca.sum
	isDue := due(old.leaf.Cert, ca, p.Request, now.Add(p.Request.lifetime()/3), now)
	if p.CertFile == "" && !changed && !isDue {
		return false, loadErr
	}
	leaf, err := id.issue(ca, now, p, !changed)
	if err != nil {
		return false, errors.Join(loadErr, err)
	}
	if !changed && leaf.Cert.Equal(old.leaf.Cert) {
		return false, loadErr
	}
	id.set(ca, leaf)
	return true, loadErr
}

// renewAt returns when the certificate is due, always after now.
func (id *Identity) renewAt(now time.Time) time.Time {
	end := id.Leaf().Cert.NotAfter
	if at := end.Add(-id.source.Pair.Request.lifetime() / 3); at.After(now) {
		return at
	}
	// The CA ends before a new certificate could: nothing to do until it is
	// replaced.
	if end.After(now) {
		return end
	}
	return now.Add(RetryDelay)
}
