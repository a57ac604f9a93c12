package nodestate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// Staged reports whether the restored data of an incarnation is on the disk,
// staged and not yet in use.
func Staged(dir string, token cluster.Token) (bool, error) {
	return hasData(RestoredDir(dir, token))
}

// Adopt moves the restored data of an incarnation to where etcd runs on it. Done
// again, it does nothing. Where there is no restored data, and none in its
// place, the error is fs.ErrNotExist.
func Adopt(dir string, token cluster.Token) error {
	to := DataDir(dir, token)
	if has, err := hasData(to); err != nil || has {
		return err
	}
	from := RestoredDir(dir, token)
	has, err := hasData(from)
	if err == nil && !has {
		err = &fs.PathError{Op: "adopt", Path: from, Err: fs.ErrNotExist}
	}
	if err != nil {
		return fmt.Errorf("adopt the restored data of %s: %w", token, err)
	}
	if err := hostfs.MakeDir(filepath.Dir(to), 0o700); err != nil {
		return fmt.Errorf("adopt the restored data of %s: %w", token, err)
	}
	// An empty directory in the way, of a start that was cut off, is replaced.
	if err := hostfs.Rename(from, to); err != nil {
		return fmt.Errorf("adopt the restored data of %s: %w", token, err)
	}
	return nil
}

// KeepStaged deletes what is staged on the disk for any incarnation but those
// named.
func KeepStaged(dir string, keep ...cluster.Token) error {
	root := filepath.Join(dir, restoreName)
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete staged data: %w", err)
	}
	left := len(entries)
	for _, e := range entries {
		if kept(e.Name(), keep) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(root, e.Name())); err != nil {
			return fmt.Errorf("delete staged data: %w", err)
		}
		left--
	}
	if left > 0 {
		return nil
	}
	if err := os.Remove(root); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete staged data: %w", err)
	}
	return nil
}

func kept(name string, keep []cluster.Token) bool {
	for _, k := range keep {
		if name == string(k) {
			return true
		}
	}
	return false
}
