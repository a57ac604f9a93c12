package nodestate

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// myidName is the file that names the node where no volume and no flag does.
const myidName = "myid"

// MyID returns the name in the file myid in dir. If there is none, it makes up
// a name (16 random bytes, 22 characters of base64url, as the existing
// etcd-manager does), and of several processes that do so at the same time,
// all return the same one. dir is created if missing. A content that is no
// node name gives a *[CorruptError].
func MyID(dir string) (string, error) {
	path := filepath.Join(dir, myidName)
	id, err := readID(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = createID(dir, path); err == nil {
			id, err = readID(path)
		}
	}
	if err != nil {
		return "", fmt.Errorf("node id: %w", err)
	}
	return id, nil
}

func readID(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	// A person's editor adds a line end.
	id := strings.TrimRight(string(b), "\r\n")
	if err := cluster.NodeName(id).Validate(); err != nil {
		return "", &CorruptError{Path: path, Err: err}
	}
	return id, nil
}

// createID makes the file with its content at once: it writes another one and
// links it to the name, which fails if the name is taken.
func createID(dir, path string) error {
	if err := hostfs.MakeDir(dir, 0o700); err != nil {
		return err
	}
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return err
	}
	id := base64.RawURLEncoding.EncodeToString(random[:])
	// The id is in the temporary name, so no other process has the same one.
	temp := filepath.Join(dir, "."+myidName+"-"+id)
	if err := hostfs.WriteFile(temp, []byte(id), 0o644); err != nil {
		return err
	}
	err := os.Link(temp, path)
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, os.Remove(temp), hostfs.SyncDir(dir))
}
