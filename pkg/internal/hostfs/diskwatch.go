package hostfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// The watch writes every watchInterval, so that a disk that hangs is reported within
// seconds, at a cost of some ten microseconds a second.
const (
	watchInterval = 3 * time.Second
	// slowWriteLatency is half of etcd's default election timeout: a leader whose log
	// takes that long loses its followers soon. quickWriteLatency is well below it, so that
	// a disk at the bound does not change its state with every write.
	slowWriteLatency  = 500 * time.Millisecond
	quickWriteLatency = 250 * time.Millisecond
	// hungWriteLimit is ten elections. Disks of clouds that are throttled, and those on a
	// network path that changes over, stay below it.
	hungWriteLimit = 10 * time.Second
	// inARow is how many writes have to agree before a state changes, so that one
	// that waits behind a large backup or a defragmentation decides nothing.
	inARow = 3
)

// A DiskWatch measures how a file system takes writes: it writes a few bytes to
// a file without a name, again and again, and waits until they are on the disk.
// One write is under way at most. Nobody ever waits for it: what is known is
// reported at once, also while the disk hangs.
type DiskWatch struct {
	dir func() string
	now func() time.Time

	mu sync.Mutex
	// begun is when the present write began, zero for none.
	begun, good time.Time
	state       cluster.Storage
	// slow and quick count such writes in a row; ended those since the disk hung or
	// failed, at whatever speed.
	slow, quick, ended int

	// path and file are for the writing goroutine alone.
	path string
	file *os.File
}

// NewDiskWatch returns a watch of the file system of the directory that dir
// names at each write; dir may block as the disk does.
func NewDiskWatch(dir func() string, now func() time.Time) *DiskWatch {
	return &DiskWatch{dir: dir, now: now}
}

// Run measures until ctx ends. It does not wait for a write that hangs then.
func (w *DiskWatch) Run(ctx context.Context) {
	for {
		done := make(chan struct{})
		w.begin()
		go func() {
			defer close(done)
			w.end(w.write())
		}()
		select {
		case <-ctx.Done():
			return
		case <-done:
		}
		if wait.For(ctx, watchInterval) != nil {
			w.close()
			return
		}
	}
}

func (w *DiskWatch) close() {
	if w.file != nil {
		_ = w.file.Close() // nothing in it is of use
		w.file = nil
	}
}

// Storage returns what is known. It takes no time.
func (w *DiskWatch) Storage() cluster.Storage {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, now := w.state, w.now()
	if !w.begun.IsZero() {
		s.Pending = max(now.Sub(w.begun), 1)
	}
	if !w.good.IsZero() {
		s.Age = max(now.Sub(w.good), 1)
	}
	if s.Pending >= hungWriteLimit {
		s.State = cluster.StorageHung
	}
	return s
}

func (w *DiskWatch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = w.now()
}

// end takes in how a write ended.
func (w *DiskWatch) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	took := now.Sub(w.begun)
	w.begun = time.Time{}
	w.state.Problem = ""
	if err != nil {
		w.state.Problem = err.Error()
		w.state.State = w.after(err, took)
		return
	}
	w.good, w.state.Latency = now, took
	w.state.State = w.next(took)
}

// after returns the state after a write that has failed. A full disk, or one
// without the right, says nothing of its speed; but it answers, and what keeps
// answering does not hang.
func (w *DiskWatch) after(err error, took time.Duration) cluster.StorageState {
	switch before := w.state.State; {
	case broken(err):
		w.quick, w.ended = 0, 0
		return cluster.StorageFailing
	case took >= hungWriteLimit:
		w.quick, w.ended = 0, 0
		return cluster.StorageHung
	case w.state.Bad():
		if w.ended++; w.ended < inARow {
			return before
		}
		return ""
	default:
		return before
	}
}

// next returns the state after a write that has ended.
func (w *DiskWatch) next(took time.Duration) cluster.StorageState {
	w.slow, w.quick, w.ended = w.slow+1, w.quick+1, w.ended+1
	if took < slowWriteLatency {
		w.slow = 0
	}
	if took >= quickWriteLatency {
		w.quick = 0
	}
	switch before := w.state.State; {
	case took >= hungWriteLimit:
		w.ended = 0
		return cluster.StorageHung
	case w.quick >= inARow, before == "":
		return cluster.StorageGood
	case w.state.Bad() && w.ended < inARow:
		return before
	case w.state.Bad() || w.slow >= inARow:
		return cluster.StorageSlow
	default:
		return before
	}
}

// broken reports whether an error is the disk's, after which etcd cannot write
// either. A full disk is not broken: etcd writes into files that it has made
// beforehand.
func broken(err error) bool {
	return errors.Is(err, unix.EIO) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENODEV) ||
		errors.Is(err, unix.ENXIO)
}

// write writes a few bytes and waits until they are on the disk. The bytes are
// always the same ones of the file, so that the file system has nothing else to
// write.
func (w *DiskWatch) write() error {
	dir := w.dir()
	w.mu.Lock()
	w.state.Path = dir
	w.mu.Unlock()
	if w.file == nil || w.path != dir {
		if err := w.open(dir); err != nil {
			return err
		}
	}
	if _, err := w.file.WriteAt([]byte("etcdadm"), 0); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := unix.Fdatasync(int(w.file.Fd())); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// open makes a file that has no name, or has lost it: nothing is left behind,
// and nobody takes it for data.
func (w *DiskWatch) open(dir string) error {
	w.close()
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		w.file, w.path = os.NewFile(uintptr(fd), filepath.Join(dir, "(unnamed)")), dir
		return nil
	}
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EISDIR) {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	f, err := os.CreateTemp(dir, ".disk-*")
	if err != nil {
		return err
	}
	w.file, w.path = f, dir
	return os.Remove(f.Name())
}
