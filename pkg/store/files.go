package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
)

const (
	dirMode = 0o755
	// Temporary files are made with 0600 by os.CreateTemp, and keep it.

	tempPrefix = ".tmp-"
)

// files are objects in a directory, each a file. See the package comment.
type files struct {
	root     string
	requests *atomic.Int64
	// there says that the directory was there before. If it is gone then, it is
	// not made again: a file system that is not mounted any more would be written
	// around, and an empty store found by those who look next.
	there atomic.Bool
}

// errGone is why a store that was there is not written to.
var errGone = errors.New("the directory existed before but is gone; is its file system mounted?")

// present notes whether the directory is there, and returns errGone if it was
// and is no more.
func (f *files) present() error {
	was := f.there.Load() // before it is looked for: another writer may make it meanwhile
	_, err := os.Stat(f.root)
	switch {
	case err == nil:
		f.there.Store(true)
	case errors.Is(err, fs.ErrNotExist) && was:
		return fmt.Errorf("%s: %w", f.root, errGone)
	}
	return nil
}

// absent says that an object is not there, or that the whole directory is gone.
func (f *files) absent() error {
	if err := f.present(); err != nil {
		return err
	}
	return ErrAbsent
}

func (f *files) path(key string) string { return filepath.Join(f.root, filepath.FromSlash(key)) }

func (f *files) close() error { return nil }

// denied marks the errors by which a file system says that it will not.
func denied(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return err
}

// missing returns nil if a directory is really not there, and an error if it
// only seems so, being behind a symbolic link whose target is not mounted.
func missing(dir string) error {
	for p := dir; ; p = filepath.Dir(p) {
		_, err := os.Lstat(p)
		if errors.Is(err, fs.ErrNotExist) && p != filepath.Dir(p) {
			continue
		}
		if err == nil {
			_, err = os.Stat(p)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is a symbolic link to nowhere", p)
		}
		return err
	}
}

func (f *files) open(_ context.Context, key string) (io.ReadCloser, int64, error) {
	f.requests.Add(1)
	p := f.path(key)
	// Stat first: opening a named pipe would wait for its writer.
	info, err := os.Stat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, f.absent()
	}
	if err != nil {
		return nil, 0, denied(err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%w: %s is not a file", ErrGarbage, p)
	}
	file, err := os.Open(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, f.absent()
	}
	return file, info.Size(), denied(err)
}

func (f *files) write(ctx context.Context, key string, r io.Reader, c condition) error {
	f.requests.Add(1)
	if err := f.present(); err != nil {
		return err
	}
	return denied(f.replace(ctx, key, r, c.absent))
}

func (f *files) replace(ctx context.Context, key string, r io.Reader, absent bool) error {
	target := f.path(key)
	temp, err := makeTemp(filepath.Dir(target))
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = io.Copy(struct{ io.Writer }{temp}, r)
	if err == nil {
		err = temp.Sync()
	}
	if cerr := temp.Close(); err == nil {
		err = cerr
	}
	// A write that is given up must not take place later, when a hanging file
	// system comes back.
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	if absent {
		err = link(temp.Name(), target)
	} else {
		err = os.Rename(temp.Name(), target)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(target))
}

// link gives a file its final name if that is free. NFS may carry a link out
// and lose the answer, and then say that the name is taken; so look whose it is.
func link(temp, target string) error {
	err := os.Link(temp, target)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	mine, err1 := os.Lstat(temp)
	there, err2 := os.Lstat(target)
	if err1 == nil && err2 == nil && os.SameFile(mine, there) {
		return nil
	}
	return errExists
}

// makeTemp makes a temporary file in a directory, and the directory if needed:
// also where it is removed meanwhile, because it was empty.
func makeTemp(dir string) (*os.File, error) {
	for tries := 1; ; tries++ {
		var f *os.File
		err := makeDir(dir)
		if err == nil {
			f, err = os.CreateTemp(dir, tempPrefix+"*")
		}
		if !errors.Is(err, fs.ErrNotExist) || tries == maxTries {
			return f, err
		}
	}
}

// maxTries is how often a directory may vanish while something is put there.
const maxTries = 10

// makeDir makes a directory and its missing parents, and makes each last. The error is
// [fs.ErrNotExist] where it was made by another, and is gone again.
func makeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	err := os.Mkdir(dir, dirMode)
	if errors.Is(err, fs.ErrExist) {
		info, serr := os.Stat(dir)
		if serr == nil && info.IsDir() {
			return nil
		}
		// A symbolic link to nowhere is there, and no directory.
		if info, lerr := os.Lstat(dir); errors.Is(serr, fs.ErrNotExist) && (lerr != nil || info.IsDir()) {
			return serr
		}
		return err
	}
	if err != nil {
		return err
	}
	return syncDir(parent)
}

// syncDir makes a change of a directory's entries last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (f *files) remove(_ context.Context, key string) error {
	f.requests.Add(1)
	p := f.path(key)
	err := os.Remove(p)
	if errors.Is(err, fs.ErrNotExist) {
		return f.absent()
	}
	if err != nil {
		return denied(err)
	}
	dir := filepath.Dir(p)
	if !strings.HasPrefix(key, passing) {
		return syncDir(dir)
	}
	_ = os.Remove(dir) // if it is empty
	if err = syncDir(dir); errors.Is(err, fs.ErrNotExist) {
		err = syncDir(filepath.Dir(dir))
	}
	return err
}

// passing is where each backup has a directory of its own for a while, that of
// its claims (package backupagent). Nobody would ever check the empty ones.
const passing = "control/backup-claims/"

// prune removes a directory that holds nothing but temporary files, which a
// write left that was killed. A directory that is in use stays.
func (f *files) prune(_ context.Context, dir string) error {
	p := f.path(dir)
	entries, err := os.ReadDir(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			return nil
		}
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(p, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
