package drill

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// scratchPrefix begins the names of scratch directories.
const scratchPrefix = ".etcdadm-scratch-"

// A Scratch is a directory for one piece of work, which vanishes with it.
type Scratch struct {
	// Path is the directory; only its owner may look into it.
	Path string
	lock *os.File
}

// A SpaceError says that a file system has too little room.
type SpaceError struct {
	Dir        string
	Need, Free int64
}

func (e *SpaceError) Error() string {
	return fmt.Sprintf("%s has room for %d MiB, %d MiB are needed", e.Dir, e.Free>>20, (e.Need+1<<20-1)>>20)
}

// Hint says what to do about it.
func (e *SpaceError) Hint() string { return "name a directory with more room: --temp-dir" }

// NewScratch makes a scratch directory in parent, by default the system's
// directory for temporary files, which must exist and have room for so many
// bytes (a [*SpaceError]). It removes what others have left there that were
// killed. The caller must remove it.
func NewScratch(parent string, need int64) (*Scratch, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	parent, err := filepath.Abs(parent)
	if err != nil {
		return nil, fmt.Errorf("make a scratch directory: %w", err)
	}
	if err := removeLeftovers(parent); err != nil {
		return nil, err
	}
	free, err := hostfs.FreeBytes(parent)
	if err == nil && free < need {
		err = &SpaceError{parent, need, free}
	}
	if err != nil {
		return nil, fmt.Errorf("make a scratch directory: %w", err)
	}
	// Another's sweep may take the directory before it is locked.
	for range 10 {
		path, err := os.MkdirTemp(parent, scratchPrefix)
		if err != nil {
			return nil, fmt.Errorf("make a scratch directory: %w", err)
		}
		if lock := lockDir(path); lock != nil {
			return &Scratch{Path: path, lock: lock}, nil
		}
	}
	return nil, fmt.Errorf("make a scratch directory in %s: another program keeps removing it", parent)
}

// Remove deletes the directory with all that is in it.
func (s *Scratch) Remove() error {
	err := os.RemoveAll(s.Path)
	return errors.Join(err, hostfs.Unflock(s.lock), s.lock.Close())
}

// Join returns the path of a name in the directory.
func (s *Scratch) Join(name string) string { return filepath.Join(s.Path, name) }

// lockDir opens and locks a directory of ours, nil if that is not possible or
// it is not there any more. The kernel lets go of the lock when the process
// ends, however it ends.
func lockDir(path string) *os.File {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	mine, err := f.Stat()
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	there, lerr := os.Lstat(path)
	if err == nil && lerr == nil && os.SameFile(mine, there) && owned(mine) {
		return f
	}
	// Nothing was written to it.
	_ = f.Close()
	return nil
}

// owned reports whether a directory belongs to this process's user, and nobody
// else may change what is in it.
func owned(st fs.FileInfo) bool {
	raw, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(raw.Uid) == os.Geteuid() && st.Mode().Perm()&0o077 == 0
}

// removeLeftovers removes the scratch directories in parent whose owners were killed.
// Those that are in use, and those of other users, stay.
func removeLeftovers(parent string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return fmt.Errorf("look for scratch directories: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), scratchPrefix) {
			continue
		}
		path := filepath.Join(parent, e.Name())
		lock := lockDir(path)
		if lock == nil {
			continue
		}
		s := &Scratch{Path: path, lock: lock}
		if err := s.Remove(); err != nil {
			return fmt.Errorf("remove the leftovers of a killed process: %w", err)
		}
	}
	return nil
}
