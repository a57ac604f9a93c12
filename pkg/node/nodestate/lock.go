package nodestate

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// A lock is held on a data directory by the one process that may write there: on
// a file, which names the process, and on the directory itself, in case somebody
// deletes the file.
type lock struct {
	file, dir *hostfs.LockedFile
}

// lockDir locks dir. The error is a *[hostfs.LockedError] where another process has it.
func lockDir(dir string) (*lock, error) {
	file, err := hostfs.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, err
	}
	whole, err := hostfs.LockDir(dir)
	if err != nil {
		return nil, errors.Join(err, file.Unlock())
	}
	return &lock{file: file, dir: whole}, nil
}

func (l *lock) unlock() error { return errors.Join(l.file.Unlock(), l.dir.Unlock()) }

// keep takes the lock file again where it has been deleted or replaced, and
// nobody else has the one that is there.
func (l *lock) keep(dir string) (again bool, err error) {
	there, err := l.file.Present()
	if err != nil || there {
		return false, err
	}
	file, err := hostfs.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return false, err
	}
	old := l.file
	l.file = file
	return true, old.Unlock()
}

// KeepLock sees to it that the lock file is the one that this process has locked:
// again says that somebody had deleted it, and that it has been made and locked
// again. It is a *[hostfs.LockedError] where another process has locked the file that
// is there now, and a [*SlowError] where the disk hangs.
func (f *File) KeepLock() (again bool, err error) {
	limit := time.NewTimer(f.limit)
	defer limit.Stop()
	if err := f.take(limit.C); err != nil {
		return false, fmt.Errorf("keep the lock: %w", err)
	}
	f.mu.Lock()
	closed := f.closed
	f.mu.Unlock()
	if closed {
		f.leave()
		return false, nil
	}
	type kept struct {
		again bool
		err   error
	}
	done := make(chan kept, 1)
	go func() {
		again, err := f.lock.keep(f.dir)
		f.leave()
		done <- kept{again, err}
	}()
	select {
	case k := <-done:
		again, err = k.again, k.err
	case <-limit.C:
		err = &SlowError{f.limit}
	}
	if err != nil {
		return again, fmt.Errorf("keep the lock: %w", err)
	}
	return again, nil
}
