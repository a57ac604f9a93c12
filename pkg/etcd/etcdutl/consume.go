package etcdutl

import (
	"os"

	"golang.org/x/sys/unix"
)

// deleteWhenRead deletes a file as soon as somebody who has opened it to read closes it. The
// tools of all versions open a snapshot once, copy all of it, and go on with the copy. The
// function ends that, and deletes the file if nobody has read it, or the kernel does not say.
// Where somebody else has read it before the tool opens it, the tool fails, and the snapshot is
// fetched once more.
func deleteWhenRead(path string) (end func()) {
	watch, err := watchClose(path)
	if err != nil {
		return func() { _ = os.Remove(path) }
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var events [unix.SizeofInotifyEvent + unix.NAME_MAX + 1]byte
		if _, err := watch.Read(events[:]); err == nil { // it fails when it is closed
			_ = os.Remove(path)
		}
	}()
	return func() {
		_ = watch.Close()
		<-done
		_ = os.Remove(path)
	}
}

// watchClose returns a file that can be read when a reader of path has closed it.
func watchClose(path string) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	watch := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_CLOSE_NOWRITE); err != nil {
		_ = watch.Close()
		return nil, os.NewSyscallError("inotify_add_watch", err)
	}
	return watch, nil
}
