package nodestate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// NewClusterFile is the name of the empty file in a data directory by which an operator
// asks for a new cluster. It is that of the existing etcd-manager.
const NewClusterFile = "please-create-new-cluster"

// AsksForCluster reports whether a data directory has the file.
func AsksForCluster(dir string) bool {
	st, err := os.Lstat(filepath.Join(dir, NewClusterFile))
	return err == nil && st.Mode().IsRegular()
}

// HasCluster removes the file: there is a cluster now, and the next one needs another
// word.
func HasCluster(dir string) error {
	err := os.Remove(filepath.Join(dir, NewClusterFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
