// Package logfile writes lines to a file that is bounded.
package logfile

import (
	"fmt"
	"os"
	"sync"
)

// A Log is a file that takes lines, and never more than twice its size of the
// disk: when it is full it becomes the file that ends in .1, in place of the
// one before. Where somebody else moves, removes or cuts the file, as logrotate does, it goes on in
// the one that has its name.
type Log struct {
	path string
	max  int64

	mu   sync.Mutex
	f    *os.File
	is   os.FileInfo
	size int64
}

// Open opens the file, or makes it, with the size at which it is full.
func Open(path string, maxSize int64) (*Log, error) {
	l := &Log{path: path, max: maxSize}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	return l, nil
}

func (l *Log) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	l.f, l.is, l.size = f, st, st.Size()
	return nil
}

// Line adds a line. One that cannot be written is lost: etcd waits while a line
// of it is taken, and must not wait for a disk to have room.
func (l *Log) Line(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follow()
	if l.size >= l.max {
		l.rotate()
	}
	if l.f == nil && l.open() != nil {
		return
	}
	n, _ := l.f.WriteString(text + "\n")
	l.size += int64(n)
}

// follow looks whether the file is still the one that has its name, and how large it is.
func (l *Log) follow() {
	if l.f == nil {
		return
	}
	if st, err := os.Stat(l.path); err == nil && os.SameFile(st, l.is) {
		l.size = st.Size()
		return
	}
	l.f.Close()
	l.f, l.size = nil, 0
}

// rotate begins a new file. Where the old one cannot be renamed it is cut, so
// that it does not grow.
func (l *Log) rotate() {
	if l.f != nil {
		l.f.Close()
		l.f = nil
	}
	if os.Rename(l.path, l.path+".1") != nil {
		_ = os.Truncate(l.path, 0)
	}
}

// Close ends it.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil {
		l.f.Close()
		l.f = nil
	}
}
