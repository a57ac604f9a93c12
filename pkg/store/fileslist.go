package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

const (
	// maxDepth bounds a walk: no key has more components, and a loop of symbolic
	// links would have.
	maxDepth = 5
	// maxEntries is how many entries of one directory are listed. They are in memory
	// together, as a directory has no order.
	maxEntries = 200_000
)

// page walks through some of the entries of the directory that prefix is in.
// From is the name of the last one of the page before.
func (f *files) page(ctx context.Context, prefix string, from []byte) ([]object, []byte, error) {
	f.requests.Add(1)
	if err := f.present(); err != nil {
		return nil, nil, err
	}
	dir, begin := path.Split(prefix)
	dir = strings.TrimSuffix(dir, "/")
	entries, err := f.entries(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, missing(f.path(dir))
	}
	if err != nil {
		return nil, nil, denied(err)
	}
	var all []object
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), begin) || from != nil && e.Name() <= string(from) {
			continue
		}
		if len(all) >= pageSize {
			slices.SortFunc(all, func(a, b object) int { return cmp.Compare(a.key, b.key) })
			return all, from, nil
		}
		if prefix == "" && e.Name()+"/" == controlPrefix {
			continue // who lists everything looks for backups
		}
		before := len(all)
		all, err = f.entry(ctx, dir, e, 0, all)
		switch {
		case prefix == "" && errors.Is(err, ErrGarbage):
			all = all[:before] // that is no backup, and must not hide the others
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, nil, denied(err)
		}
		from = []byte(e.Name())
	}
	slices.SortFunc(all, func(a, b object) int { return cmp.Compare(a.key, b.key) })
	return all, nil, nil
}

// entries returns what is in a directory, by name.
func (f *files) entries(dir string) ([]fs.DirEntry, error) {
	d, err := os.Open(f.path(dir))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var all []fs.DirEntry
	for {
		some, err := d.ReadDir(pageSize)
		all = append(all, some...)
		switch {
		case len(all) > maxEntries:
			return nil, fmt.Errorf("%w: %s has more than %d entries", ErrGarbage, f.path(dir), maxEntries)
		case len(some) == 0 && (err == nil || errors.Is(err, io.EOF)):
			slices.SortFunc(all, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
			return all, nil
		case err != nil:
			return nil, err
		}
	}
}

// walk appends the objects below dir. Its error is fs.ErrNotExist only if dir
// itself is not there.
func (f *files) walk(ctx context.Context, dir string, depth int, all []object) ([]object, error) {
	if err := ctx.Err(); err != nil || depth > maxDepth {
		return all, err
	}
	entries, err := f.entries(dir)
	if err != nil {
		return all, err
	}
	for _, e := range entries {
		// What has been deleted since is not there.
		if all, err = f.entry(ctx, dir, e, depth, all); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return all, err
		}
		if len(all) > maxListed {
			return all, fmt.Errorf("%w: %s has more than %d files", ErrGarbage, f.path(dir), maxListed)
		}
	}
	return all, nil
}

// entry appends the objects that an entry of a directory is.
func (f *files) entry(ctx context.Context, dir string, e fs.DirEntry, depth int, all []object) ([]object, error) {
	// lost+found belongs to the file system, and only root may read it.
	if strings.HasPrefix(e.Name(), ".") || e.Name() == "lost+found" {
		return all, ctx.Err()
	}
	key := path.Join(dir, e.Name())
	var info fs.FileInfo
	var err error
	if e.Type()&fs.ModeSymlink != 0 {
		info, err = os.Stat(f.path(key))
	} else if !e.IsDir() {
		info, err = e.Info()
	}
	switch {
	case err != nil:
		return all, err
	case e.IsDir() || info.IsDir():
		return f.walk(ctx, key, depth+1, all)
	}
	return append(all, fileObject(key, info)), ctx.Err()
}

func fileObject(key string, info fs.FileInfo) object {
	return object{
		key: key, size: info.Size(), modTime: info.ModTime(), info: info,
		same: func(other object) bool {
			o, ok := other.info.(fs.FileInfo)
			return ok && os.SameFile(info, o)
		},
	}
}
