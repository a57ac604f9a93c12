package etcdutl

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// deleteWhenRead deletes a file as soon as a process has had it open and has closed it. The
// tools of all versions open a snapshot once, copy all of it, and go on with the copy. Others
// may read the file meanwhile, as a virus scanner does. The function ends that, and deletes the
// file if the process has not read it, or the kernel does not say so.
func deleteWhenRead(path string, pid int) (end func()) {
	remove := func() { _ = os.Remove(path) }
	file, err := os.Stat(path)
	if err != nil {
		return remove
	}
	watch, err := newWatch(path)
	if err != nil {
		return remove
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if watch.closed(func() bool { return holds(pid, file) }) {
			remove()
		}
	}()
	return func() {
		_ = watch.events.Close()
		<-done
		remove()
	}
}

// holds reports whether a process has a file open.
func holds(pid int, file os.FileInfo) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if open, err := os.Stat(dir + "/" + e.Name()); err == nil && os.SameFile(open, file) {
			return true
		}
	}
	return false
}

// A watch is notified of each use of a file.
type watch struct {
	events *os.File
	path   string
}

func newWatch(path string) (watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return watch{}, os.NewSyscallError("inotify_init1", err)
	}
	w := watch{os.NewFile(uintptr(fd), "inotify"), path}
	if err := w.set(unix.IN_OPEN | unix.IN_ACCESS | unix.IN_CLOSE_NOWRITE); err != nil {
		_ = w.events.Close()
		return watch{}, err
	}
	return w, nil
}

// set makes the watch one for these uses, from now on.
func (w watch) set(mask uint32) error {
	raw, err := w.events.SyscallConn()
	if err != nil {
		return err
	}
	var added error
	err = raw.Control(func(fd uintptr) { _, added = unix.InotifyAddWatch(int(fd), w.path, mask) })
	if err != nil {
		return err
	}
	return os.NewSyscallError("inotify_add_watch", added)
}

// closed waits until held has been true and is so no more, and reports false where the watch
// has ended before.
func (w watch) closed(held func() bool) bool {
	var events [4096]byte
	for seen := false; ; {
		switch now := held(); {
		case seen && !now:
			return true
		case now && !seen:
			// Each read would be an event.
			if seen = true; w.set(unix.IN_CLOSE_NOWRITE) != nil {
				return false
			}
			continue // it may have been closed before
		}
		if _, err := w.events.Read(events[:]); err != nil { // it is closed
			return false
		}
	}
}
