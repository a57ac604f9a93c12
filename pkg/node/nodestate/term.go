package nodestate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// ResetTerm lowers the highest term that the node remembers in dir, see
// [lease.Durable.Reset], and returns what it remembered before. Nothing else in
// the state changes. While a daemon has dir open, the error is a
// *[hostfs.LockedError]. A term that no node can be reset to is refused before dir is
// touched, and where dir holds nothing of a node (fs.ErrNotExist) no file is made.
func ResetTerm(dir string, term cluster.Term) (before lease.Durable, err error) {
	if err := lease.ResetTarget(term); err != nil {
		return lease.Durable{}, fmt.Errorf("reset the term: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, ownName)); err != nil {
		return lease.Durable{}, fmt.Errorf("reset the term: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return lease.Durable{}, fmt.Errorf("reset the term: %w", err)
	}
	defer func() { err = errors.Join(err, lock.unlock()) }()
	own, there, err := readFile(filepath.Join(dir, ownName))
	if err != nil {
		return lease.Durable{}, fmt.Errorf("reset the term: %w", err)
	}
	if !there {
		return lease.Durable{}, fmt.Errorf("reset the term: %s: %w", filepath.Join(dir, ownName), fs.ErrNotExist)
	}
	r, err := parseOwn(own)
	if err != nil {
		return lease.Durable{}, &CorruptError{Path: filepath.Join(dir, ownName), Err: err}
	}
	before = lease.Durable{Term: r.State.Term, Grant: r.State.Grant, LeaseVoters: r.State.LeaseVoters}
	after, err := before.Reset(term)
	if err != nil {
		return before, fmt.Errorf("reset the term: %w", err)
	}
	r.State.Term, r.State.Grant, r.State.LeaseVoters = after.Term, after.Grant, after.LeaseVoters
	if own, err = r.encode(); err == nil {
		err = hostfs.WriteFile(filepath.Join(dir, ownName), own, 0o600)
	}
	if err != nil {
		return before, fmt.Errorf("reset the term: %w", err)
	}
	return before, nil
}
