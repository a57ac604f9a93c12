package pages

import (
	"crypto/sha256"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInUse is returned for the database of a running etcd, whose pages change
// while they are read.
var ErrInUse = errors.New("a running etcd uses it; take a snapshot of that etcd instead")

// bboltUnit divides the size of every bbolt file: its pages are at least that
// large. etcd's own tools determine by it whether a snapshot has a digest
// (etcdutl/snapshot, "size%512 == sha256.Size").
const bboltUnit = minPageSize

// lockTimeout is how long to wait for an etcd that uses the file to end.
const lockTimeout = time.Second

// A Source is a file with a database in it, and what stands behind that.
type Source struct {
	*os.File
	// Size is the file's. Digest says whether etcd's digest is at its end.
	Size   int64
	Digest bool
}

// OpenSource opens a snapshot file, and locks it against an etcd that would
// use it. The size is checked, not the content.
func OpenSource(path string) (Source, error) {
	// Not blocking, should it be a pipe.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return Source{}, withoutPath(err)
	}
	s := Source{File: f}
	if err := s.claim(); err != nil {
		return Source{}, errors.Join(withoutPath(err), f.Close())
	}
	return s, nil
}

func (s *Source) claim() error {
	st, err := s.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return errors.New("it is not a regular file")
	}
	s.Size = st.Size()
	s.Digest = s.Size%bboltUnit == sha256.Size
	return s.lock()
}

// lock takes the lock of readers, which bbolt takes too.
func (s *Source) lock() error {
	poll := time.NewTicker(lockTimeout / 20)
	defer poll.Stop()
	for until := time.Now().Add(lockTimeout); ; <-poll.C {
		err := unix.Flock(int(s.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if time.Now().After(until) {
			return ErrInUse
		}
	}
}

// Close lets go of the lock and closes the file. A process that is being started
// by another goroutine holds a copy of the file for a moment, and with it a lock
// that was not let go of.
func (s Source) Close() error {
	return errors.Join(unix.Flock(int(s.Fd()), unix.LOCK_UN), s.File.Close())
}

// Database reads the beginning of the database in the file.
func (s Source) Database() (*File, error) {
	size := s.Size
	if s.Digest {
		size -= sha256.Size
	}
	return Open(s.File, size)
}

// withoutPath returns a path error without its path, which is in the message already.
func withoutPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
