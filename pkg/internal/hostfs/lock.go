package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A LockedError is returned by [Lock] when another process has the lock.
type LockedError struct {
	// Path is the lock file.
	Path string
	// Holder is the process id in it, 0 if it cannot be read.
	Holder int
}

func (e *LockedError) Error() string {
	if e.Holder == 0 {
		return fmt.Sprintf("%s is locked by another process", e.Path)
	}
	return fmt.Sprintf("%s is locked by process %d", e.Path, e.Holder)
}

// Hint says how to see who has it.
func (e *LockedError) Hint() string {
	if e.Holder == 0 {
		return ""
	}
	return fmt.Sprintf("see what has it, and whether it is meant to: ps -fp %d", e.Holder)
}

// A LockedFile is a held lock.
type LockedFile struct {
	f *os.File
	// dir says that it is a directory, which takes no process id.
	dir bool
}

// Lock takes an exclusive lock on the file at path, which it creates if
// missing, and records the process id in it. It does not wait: if the lock is
// taken, also by this process, it returns a *[LockedError]. The kernel frees
// the lock when the process ends in whatever way. The lock is advisory (flock)
// and child processes do not inherit it, but for the moment between fork and exec:
// where the holder has ended, Lock waits for that.
func Lock(path string) (*LockedFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := flockLeft(f); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &LockedError{Path: path, Holder: holder(f)}
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := record(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &LockedFile{f: f}, nil
}

// Held reports whether a process has locked the file at path, as [Lock] would find it. It
// takes the lock for a moment itself, and writes nothing. A missing file is locked by nobody.
func Held(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("check a lock: %w", err)
	}
	defer f.Close()
	err = flockLeft(f)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err := errors.Join(err, Unflock(f)); err != nil {
		return false, fmt.Errorf("check the lock %s: %w", path, err)
	}
	return false, nil
}

// flockLeft is flock, again where the process that is recorded in f has ended.
func flockLeft(f *os.File) error {
	return flockFrom(f, func() bool { return ended(holder(f)) }, orphanTime)
}

// flockFrom tries to take the exclusive lock on f, again for some time where it is left by
// somebody who has ended.
func flockFrom(f *os.File, left func() bool, limit time.Duration) error {
	err := flock(f)
	again := time.NewTicker(orphanTime / 200)
	defer again.Stop()
	for end := time.Now().Add(limit); errors.Is(err, unix.EWOULDBLOCK) && left() && time.Now().Before(end); {
		<-again.C
		err = flock(f)
	}
	return err
}

// orphanTime bounds the wait for a lock whose holder has ended. A child of it that has not come
// to exec takes milliseconds for that, more on a busy machine. A holder in another PID namespace
// also seems to have ended.
const orphanTime = 2 * time.Second

// ended reports whether there is no process of that id.
func ended(pid int) bool { return pid > 0 && errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// LockDir is [Lock] of a directory, which has to exist. Nothing is written: the
// error knows no holder. Who deletes a lock file in it does not free it.
func LockDir(path string) (*LockedFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	// It is not known whether the holder has ended: that it may have is worth a moment.
	if err := flockFrom(f, func() bool { return true }, orphanTime/20); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &LockedError{Path: path}
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &LockedFile{f: f, dir: true}, nil
}

// Present reports whether the file that is locked is still the one at its path.
func (l *LockedFile) Present() (bool, error) {
	locked, err := l.f.Stat()
	if err != nil {
		return false, fmt.Errorf("check a lock: %w", err)
	}
	present, err := os.Stat(l.f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("check a lock: %w", err)
	}
	return os.SameFile(locked, present), nil
}

// Unlock frees the lock. The file stays: removing it would let two processes
// lock two different files of one name. A second Unlock does nothing.
func (l *LockedFile) Unlock() error {
	if l.f == nil {
		return nil
	}
	f := l.f
	l.f = nil
	var err error
	if !l.dir {
		err = f.Truncate(0)
	}
	if err := errors.Join(err, Unflock(f), f.Close()); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	return nil
}

// Unflock frees the lock on f. Closing f alone does not, for as long as a
// process that is just being started has a copy of it: between fork and exec,
// a child of any goroutine has every open file.
func Unflock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// flock tries to take the exclusive lock on f.
func flock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// record writes the process id into a lock file. A full disk does not stop
// it: the id is only there for the error message.
func record(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return nil
	}
	return err
}

func holder(f *os.File) int {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0) // io.EOF with the bytes that there are
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
