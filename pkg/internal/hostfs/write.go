package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// tempMark is between the name of a file and the random end of the name of its
// temporary file.
const tempMark = ".tmp-"

// WriteFile replaces the file at path with data, so that at every moment, also
// after a power cut, path holds either the old content or the new one. The
// new file has the permissions perm, whatever the umask is. A symbolic link at
// path is replaced, not followed.
//
// When WriteFile fails, path holds the old content, with one exception: if
// only the last step fails, the sync of the directory, path shows the new
// content, which may not survive a power cut.
func WriteFile(path string, data []byte, perm os.FileMode) error {
	dir, base := filepath.Split(path)
	f, err := os.CreateTemp(filepath.Clean(dir+"."), "."+base+tempMark+"*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = fill(f, data, perm)
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		// The file may be gone already; what matters is the first error.
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := SyncDir(filepath.Clean(dir + ".")); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// fill writes data to f, puts it on the disk and closes f in any case.
func fill(f *os.File, data []byte, perm os.FileMode) error {
	err := f.Chmod(perm)
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	// Some file systems (NFS) report a full disk only here.
	return errors.Join(err, f.Close())
}

// RemoveTemp removes the temporary files that a [WriteFile] of path left when
// its process was killed. It must not run at the same time as a WriteFile of
// the same path.
func RemoveTemp(path string) error {
	dir, base := filepath.Split(path)
	dir = filepath.Clean(dir + ".")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove temporary files of %s: %w", path, err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "."+base+tempMark) || !e.Type().IsRegular() {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove temporary files of %s: %w", path, err)
		}
	}
	return nil
}

// SyncDir puts the entries of a directory on the disk: files created, renamed
// or removed in it stay so after a power cut.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

// Rename renames a file or directory and syncs the directories that it left
// and entered. It does not sync what is inside a renamed directory. An empty directory
// in the place of one that is renamed is replaced, which [os.Rename] refuses.
func Rename(from, to string) error {
	err := unix.Rename(from, to)
	for errors.Is(err, unix.EINTR) {
		err = unix.Rename(from, to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	// The new place first: after a power cut in between, a name too many does
	// less harm than a name too few.
	if err := SyncDir(filepath.Dir(to)); err != nil {
		return fmt.Errorf("rename %s to %s: %w", from, to, err)
	}
	if filepath.Dir(from) == filepath.Dir(to) {
		return nil
	}
	if err := SyncDir(filepath.Dir(from)); err != nil {
		return fmt.Errorf("rename %s to %s: %w", from, to, err)
	}
	return nil
}

// MakeDir creates path and its missing parents with the permissions perm and
// syncs the parent of each directory that it created.
func MakeDir(path string, perm os.FileMode) error {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := MakeDir(parent, perm); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, perm); err != nil {
		if st, serr := os.Stat(path); serr == nil && st.IsDir() {
			return nil // somebody else was faster
		}
		return fmt.Errorf("create directory: %w", err)
	}
	return SyncDir(parent)
}
