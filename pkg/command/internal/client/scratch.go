package client

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// scratchPattern is the name of a file into which a snapshot is fetched. The
// command that works on it holds a lock on it, so one without a lock is of a
// command that was killed.
const scratchPattern = ".etcdadm-snapshot-*"

// A scratch is a file that is there while a command works on it.
type scratch struct{ *os.File }

// newScratch makes an empty file in dir, after it has removed those of commands
// that were killed.
func newScratch(dir string) (*scratch, error) {
	removeLeftovers(dir)
	// Another one's sweep may come between making a file and locking it.
	for range 10 {
		f, err := os.CreateTemp(dir, scratchPattern)
		if err != nil {
			return nil, err
		}
		s := &scratch{f}
		if s.lock(unix.LOCK_SH) {
			return s, nil
		}
		s.remove()
	}
	return nil, fmt.Errorf("%s: other programs delete files there", filepath.Join(dir, scratchPattern))
}

// lock reports whether the file is ours and still where it was made. Its owner
// takes a reader's lock, as who reads the database in it does, too.
func (s *scratch) lock(kind int) bool {
	if err := unix.Flock(int(s.Fd()), kind|unix.LOCK_NB); err != nil {
		return false
	}
	mine, err1 := s.Stat()
	there, err2 := os.Lstat(s.Name())
	return errors.Join(err1, err2) == nil && os.SameFile(mine, there)
}

// remove deletes the file, then lets go of its lock.
func (s *scratch) remove() {
	_ = os.Remove(s.Name()) // it is there, or was never
	_ = s.Close()           // nobody reads it any more
}

// removeLeftovers removes the files of commands that were killed. What it cannot remove
// stays.
func removeLeftovers(dir string) {
	old, _ := filepath.Glob(filepath.Join(dir, scratchPattern))
	for _, path := range old {
		f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if s := (&scratch{f}); s.lock(unix.LOCK_EX) {
			_ = os.Remove(path)
		}
		_ = f.Close()
	}
}
