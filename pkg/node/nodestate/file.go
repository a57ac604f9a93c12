package nodestate

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/internal/shell"
)

// The names of the files in the data directory.
const (
	ownName    = "etcdadm.json"
	lockName   = "etcdadm.lock"
	compatName = "state"
)

// A CorruptError is returned by [Open] and [Read] when a file in the data
// directory cannot be understood. Nothing has been changed then.
type CorruptError struct {
	Path string
	Err  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s cannot be read: %v; it was left as it is; restore a good copy, or set it aside: mv %s %s",
		e.Path, e.Err, shell.Quote(e.Path), shell.Quote(e.Path+".damaged"))
}

func (e *CorruptError) Unwrap() error { return e.Err }

// A File is the memory of a node, on its disk. It is safe for concurrent use.
type File struct {
	dir  string
	self Self
	lock *lock
	// semaphore is taken by whoever writes. The disk may hang, so nobody waits for it
	// without a bound, and who only reads does not wait at all.
	semaphore chan struct{}
	// write is hostfs.WriteFile; tests have disks that hang.
	write func(path string, data []byte, perm os.FileMode) error
	limit time.Duration

	mu     sync.Mutex
	closed bool
	state  State
	// since is when the write under way began, zero for none.
	since time.Time

	// What follows is for the holder of the semaphore.

	nodes []etcdNode
	// own is the content of etcdadm.json, nil where a write failed and the
	// content is not known.
	own []byte
	// maybe holds the digests that the file state may have on the disk: one in
	// good times, more after a failed write, none if the file is missing.
	maybe []string
}

// Open reads what the node remembers from the data directory dir, which is
// created if missing, and brings the file state in line with it. An open
// directory is locked: a second Open of it, by any process, returns a
// *[hostfs.LockedError]. A file that is not understood gives a *[CorruptError].
func Open(dir string, self Self) (*File, error) {
	if err := self.Name.Validate(); err != nil {
		return nil, fmt.Errorf("open node state: %w", err)
	}
	if err := hostfs.MakeDir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open node state: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open node state: %w", err)
	}
	f := &File{dir: dir, self: self, lock: lock, semaphore: make(chan struct{}, 1), write: hostfs.WriteFile,
		limit: writeLimit}
	if err := f.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open node state: %w", err), lock.unlock())
	}
	return f, nil
}

func (f *File) open() error {
	l, err := load(f.dir)
	if err != nil {
		return err
	}
	for _, name := range []string{ownName, compatName} {
		if err := hostfs.RemoveTemp(filepath.Join(f.dir, name)); err != nil {
			return err
		}
	}
	f.state, f.nodes, f.own, f.maybe = l.state, l.nodes, l.own, l.maybe
	return f.save(f.state)
}

// Read returns what Open would find in dir, without a lock and without a
// write. While another process has dir open, it may see the moment between
// two of its writes.
func Read(dir string) (State, error) {
	l, err := load(dir)
	if err != nil {
		return State{}, fmt.Errorf("read node state: %w", err)
	}
	return l.state, nil
}

// Close frees the lock on the data directory. After it, Update returns
// os.ErrClosed. A second Close does nothing. While a write hangs, the lock stays.
func (f *File) Close() error {
	limit := time.NewTimer(f.limit)
	defer limit.Stop()
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	if err := f.take(limit.C); err != nil {
		return fmt.Errorf("close node state: %w", err)
	}
	defer f.leave()
	return f.lock.unlock()
}

// State returns a deep copy of what the node remembers. It does not wait for the
// disk.
func (f *File) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.copied()
}

// Settled is State where no write is under way. While one is, nobody knows what
// the disk will have, and it is a [*SlowError].
func (f *File) Settled() (State, error) {
	f.mu.Lock()
	since := f.since
	f.mu.Unlock()
	if !since.IsZero() {
		return State{}, fmt.Errorf("read node state: %w", &SlowError{time.Since(since).Round(time.Millisecond)})
	}
	return f.State(), nil
}

// LeaseVoters returns the newest lease voter record that the node remembers. It is
// cheap.
func (f *File) LeaseVoters() cluster.LeaseVoters {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.state.LeaseVoters
	e.Names = slices.Clone(e.Names)
	return e
}

// Update lets change work on a copy of the state, and keeps the copy if it is
// on the disk. If change returns an error, Update returns it and nothing has
// happened. If the change breaks a promise (a lower term, a second holder of
// the lease of one term) or cannot be written, Update returns an error and
// [File.State] is what it was. It waits for a disk that hangs for some seconds,
// and then returns a [*SlowError].
//
// After a failed write the disk may hold the old state or the new one, and a
// restart may find either; after a [*SlowError], [File.State] may be the new one
// later. So a caller must neither act on a state that was not kept nor rely on
// its absence: [File.Settled] reports which it is.
//
// One change is made at a time: change must not call Update.
func (f *File) Update(change Transition) error {
	limit := time.NewTimer(f.limit)
	defer limit.Stop()
	if err := f.take(limit.C); err != nil {
		return fmt.Errorf("update node state: %w", err)
	}
	next, err := f.next(change)
	if err != nil {
		f.leave()
		return err
	}
	done := make(chan error, 1)
	f.writing(time.Now())
	go func() {
		err := f.save(next)
		f.writing(time.Time{})
		f.leave()
		done <- err
	}()
	select {
	case err = <-done:
	case <-limit.C:
		err = &SlowError{f.limit}
	}
	if err != nil {
		return fmt.Errorf("update node state: %w", err)
	}
	return nil
}

// next returns the state after change, which is allowed to follow.
func (f *File) next(change Transition) (State, error) {
	f.mu.Lock()
	closed, now := f.closed, f.state
	f.mu.Unlock()
	if closed {
		return State{}, fmt.Errorf("update node state: %w", os.ErrClosed)
	}
	next, err := now.clone()
	if err != nil {
		return State{}, fmt.Errorf("update node state: %w", err)
	}
	if err := change(&next); err != nil {
		return State{}, err
	}
	if err := now.checkStep(next); err != nil {
		return State{}, fmt.Errorf("update node state: %w", err)
	}
	return next, nil
}

// save writes next to the disk, first etcdadm.json and then, where it differs,
// state; after that it is the state of f.
func (f *File) save(next State) error {
	next, err := next.clone()
	if err != nil {
		return err
	}
	compat := toCompat(next, f.self, f.nodes)
	now := digest(compat)
	// A node that never had an assignment has no state file: to the existing
	// etcd-manager, an empty one would say that the disk was used.
	same := slices.Equal(f.maybe, []string{now}) || len(f.maybe) == 0 && len(compat) == 0
	if err := f.writeOwn(next, now); err != nil {
		return err
	}
	if !same {
		if err := f.write(filepath.Join(f.dir, compatName), compat, 0o600); err != nil {
			f.remember(now)
			// Both files back to the old state, as far as the disk allows.
			old := digest(toCompat(f.state, f.self, f.nodes))
			return errors.Join(err, f.writeOwn(f.state, old))
		}
		f.maybe = []string{now}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = next
	return nil
}

// writeOwn writes etcdadm.json, unless it has that content already. state has
// the digest now, or will have it, or still one of those in maybe.
func (f *File) writeOwn(s State, now string) error {
	r := record{Format: formatOf(s), State: s, Nodes: f.nodes, Written: []string{now}}
	for _, d := range f.maybe {
		if d != now {
			r.Written = append(r.Written, d)
		}
	}
	own, err := r.encode()
	if err != nil {
		return err
	}
	if bytes.Equal(own, f.own) {
		return nil
	}
	f.own = nil
	if err := f.write(filepath.Join(f.dir, ownName), own, 0o600); err != nil {
		return err
	}
	f.own = own
	return nil
}

// remember adds a digest to those that state may have.
func (f *File) remember(d string) {
	if !slices.Contains(f.maybe, d) {
		f.maybe = append(f.maybe, d)
	}
}
