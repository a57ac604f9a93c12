package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FreeBytes returns how many bytes an unprivileged process can still write to
// the file system that path is on.
func FreeBytes(path string) (int64, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(path, &st)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("free space of %s: %w", path, err)
		}
		// Bsize has another type on other architectures.
		return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert
	}
}

// DirSize returns the sum of the sizes of the regular files in path and below,
// in bytes. Symbolic links are not followed. Files that vanish while it looks
// do not count; if path itself is missing, the error is fs.ErrNotExist.
func DirSize(path string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return goneIsFine(p != path, err)
		}
		if !e.Type().IsRegular() {
			return nil
		}
		st, err := e.Info()
		if err != nil {
			return goneIsFine(p != path, err)
		}
		sum += st.Size()
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", path, err)
	}
	return sum, nil
}

func goneIsFine(below bool, err error) error {
	if below && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
