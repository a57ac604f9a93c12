package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"gocloud.dev/blob"
)

// Bounds of one call. A call's deadline is the caller's, or this one if sooner.
const (
	callTimeout = 30 * time.Second
	// A list of ten thousand backups, four objects each, takes a bucket forty
	// requests.
	listTimeout = 2 * time.Minute

	maxCalls   = 16
	maxStreams = 4

	// maxObject is the size of the largest object that is read as a whole.
	// Control files are a few hundred bytes, the history about 200 KB.
	maxObject = 4 << 20
	// maxListed is how many objects a listing that is held in memory may have.
	maxListed = 200_000
)

// An object is an entry of a listing.
type object struct {
	key     string
	size    int64
	modTime time.Time
	// md5 is the digest of the content, nil where the backend does not know it.
	md5 []byte
	// same reports whether another listing's entry is of the very same file. It
	// is nil where the backend cannot know.
	same func(other object) bool
	// info is for same.
	info any
}

// A condition says of a write what is asked of the key, and known of the content.
type condition struct {
	// absent asks for errExists if the key is taken.
	absent bool
	// size is the number of bytes that follow, -1 if it is not known.
	size int64
}

// objects is a place that holds objects: a directory or a bucket. Its methods
// return ErrAbsent, ErrDenied, ErrGarbage, errExists, or any other error for
// "unreachable".
// They need not return when ctx ends.
type objects interface {
	// page returns some of the objects whose keys start with prefix, by key, and from
	// where the next page goes on: nil after the last. From is nil for the first page,
	// and what an earlier call, maybe of long ago, has returned for the others. The
	// pages together have all objects that are there the whole time.
	page(ctx context.Context, prefix string, from []byte) (found []object, next []byte, err error)
	// open returns the content of an object and its size.
	open(ctx context.Context, key string) (io.ReadCloser, int64, error)
	// write stores what r holds, durably, or nothing at all.
	write(ctx context.Context, key string, r io.Reader, c condition) error
	// remove deletes an object.
	remove(ctx context.Context, key string) error
	// prune removes what deleting all objects below a directory leaves behind.
	prune(ctx context.Context, dir string) error
	// versions returns, by key, what distinguishes the versions of what changes when a request,
	// a command or a spec is written: cheaply, and empty for what is not there.
	versions(ctx context.Context, now time.Time) (map[string]string, error)
	// announce makes versions return something new, where it would not by itself.
	announce(ctx context.Context) error
	close() error
}

// A Store is a control and backup store. Its methods may be called from many
// goroutines. They return in time: at their context's deadline, even when the
// file system hangs.
type Store struct {
	objects  objects
	requests *atomic.Int64
	// calls and streams hold a token for each one under way.
	calls, streams chan struct{}
	// polling holds a token while a Poll is under way, which owns seen.
	polling chan struct{}
	seen    map[string]seen
	// auditSeen are the records of the audit log that were read last.
	auditMu   sync.Mutex
	auditSeen map[string]seen
	// apart is how many polls are yet to look for each kind of control object
	// apart, because there was too much else in control/.
	apart int
	// location is what it was opened with, empty for a bucket of a program's own.
	location string
	// slow is called when a call takes long, nil for nobody.
	slow *slowness
}

// New returns the store in a bucket, which it closes in Close.
func New(b *blob.Bucket) *Store {
	requests := new(atomic.Int64)
	return newStore(newBucket(Bucket{Blobs: b}, requests), requests)
}

func newStore(o objects, requests *atomic.Int64) *Store {
	return &Store{
		objects:  o,
		requests: requests,
		calls:    make(chan struct{}, maxCalls),
		streams:  make(chan struct{}, maxStreams),
		polling:  make(chan struct{}, 1),
		seen:     map[string]seen{},
	}
}

// Location is what the store was opened with, without secrets.
func (s *Store) Location() string { return Shown(s.location) }

// Requests returns how many requests have been made to the store: reads,
// writes, deletions and pages of lists, whether they succeeded or not.
func (s *Store) Requests() int64 { return s.requests.Load() }

// Close waits for the calls under way, until ctx ends, and closes the store,
// which must not be used again. An error says how many calls still hang.
func (s *Store) Close(ctx context.Context) error {
	for n, places := range map[int]chan struct{}{maxCalls: s.calls, maxStreams: s.streams} {
		for i := range n {
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return fmt.Errorf("close store: %d calls are still under way: %w", len(places)-i, ctx.Err())
			}
		}
	}
	if err := s.objects.close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// call runs op in a goroutine that holds one of the places, and returns what op
// returns, or the context's error if that comes first. It runs nothing for a
// context that has ended.
func call[T any](ctx context.Context, slow *slowness, places chan struct{}, op func() (T, error)) (T, error) {
	defer slow.watch()()
	type result struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-places }()
		v, err := op()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	// As a rule op ends with its context, and knows best what the time was spent on.
	late := time.NewTimer(closingTime)
	defer late.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-late.C:
		return none, ctx.Err()
	}
}

// closingTime is how long a call may go on when its context has ended.
const closingTime = 100 * time.Millisecond

// page reads one page of a listing.
func (s *Store) page(ctx context.Context, prefix string, from []byte) ([]object, []byte, error) {
	type page struct {
		found []object
		next  []byte
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	p, err := call(ctx, s.slow, s.calls, func() (p page, err error) {
		p.found, p.next, err = s.objects.page(ctx, prefix, from)
		return p, err
	})
	return p.found, p.next, classify("list", prefix, err)
}

// list returns all objects whose keys start with prefix, by key. It fails where
// there are more than maxListed.
func (s *Store) list(ctx context.Context, prefix string) ([]object, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var all []object
	for from := []byte(nil); ; {
		found, next, err := s.page(ctx, prefix, from)
		if err != nil {
			return nil, err
		}
		if all = append(all, found...); len(all) > maxListed {
			return nil, fmt.Errorf("list %s: %w: it holds more than %d objects", prefix, ErrGarbage, maxListed)
		}
		if next == nil {
			return all, nil
		}
		from = next
	}
}

// Get returns an object's content. It is for small objects; larger ones than 4
// MiB are garbage. The error is ErrAbsent when there is none.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	return s.getAtMost(ctx, key, maxObject)
}

// getAtMost is Get for objects that have no more than so many bytes.
func (s *Store) getAtMost(ctx context.Context, key string, most int64) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	b, err := call(ctx, s.slow, s.calls, func() ([]byte, error) {
		r, size, err := s.objects.open(ctx, key)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		if size > most {
			return nil, fmt.Errorf("%w: it has %d bytes, at most %d are read", ErrGarbage, size, most)
		}
		b, err := io.ReadAll(io.LimitReader(r, most+1))
		if err == nil && int64(len(b)) > most {
			err = fmt.Errorf("%w: it has more than %d bytes", ErrGarbage, most)
		}
		return b, err
	})
	return b, classify("read", key, err)
}

// Exists reports whether an object is there.
func (s *Store) Exists(ctx context.Context, key string) (bool, error) {
	if err := checkKey(key); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := call(ctx, s.slow, s.calls, func() (struct{}, error) {
		r, _, err := s.objects.open(ctx, key)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, r.Close()
	})
	if errors.Is(err, ErrAbsent) {
		return false, nil
	}
	return err == nil, classify("look for", key, err)
}

// Put stores a small object, durably, over any present one. Readers see the
// whole old content or the whole new one.
func (s *Store) Put(ctx context.Context, key string, b []byte) error {
	_, err := s.writeSmall(ctx, key, b, false)
	return err
}

// Create stores a small object only if there is none, and reports whether it
// did. Of any number of simultaneous callers on one store, in any number of
// processes and machines, one gets true. After an error the object may
// be there or not.
func (s *Store) Create(ctx context.Context, key string, b []byte) (bool, error) {
	return s.writeSmall(ctx, key, b, true)
}

func (s *Store) writeSmall(ctx context.Context, key string, b []byte, absent bool) (bool, error) {
	if err := checkKey(key); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := call(ctx, s.slow, s.calls, func() (struct{}, error) {
		return struct{}{}, s.objects.write(ctx, key, bytesReader(b), condition{absent: absent, size: int64(len(b))})
	})
	return written(key, err)
}

// written says whether a write took place.
func written(key string, err error) (bool, error) {
	if errors.Is(err, errExists) {
		return false, nil
	}
	return err == nil, classify("write", key, err)
}

// Delete removes an object. That there is none is success.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := call(ctx, s.slow, s.calls, func() (struct{}, error) { return struct{}{}, s.objects.remove(ctx, key) })
	if errors.Is(err, ErrAbsent) {
		return nil
	}
	return classify("delete", key, err)
}

func (s *Store) prune(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := call(ctx, s.slow, s.calls, func() (struct{}, error) { return struct{}{}, s.objects.prune(ctx, dir) })
	return classify("clean up", dir, err)
}
