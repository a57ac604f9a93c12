// Package kubedata makes databases as etcd has them under a Kubernetes
// cluster, of any size and without an etcd: pods, events with leases, secrets,
// leases, config maps and custom resources, with several revisions of a key and
// deletions, in the sizes and with the compressibility of real ones.
//
// It writes etcd's bbolt file, bucket by bucket and revision by revision as
// etcd would have (server/storage/schema, server/storage/mvcc). The same
// options give the same bytes.
package kubedata

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// Options say what [Write] makes.
type Options struct {
	// Bytes is about how large the file becomes, at least and by default 1 MiB.
	Bytes int64
	// Seed chooses among databases of the same size.
	Seed uint64
	// StorageVersion is the form of the data: 3.5 by default, which etcd 3.5 and
	// all later ones restore; 3.6 and 3.7 say their version in the file.
	StorageVersion etcdversion.Version
	// Raw leaves out the digest at the end: the file is then a database as in a
	// data directory.
	Raw bool
	// Progress, if not nil, receives how large the file is by now.
	Progress func(done int64)
}

// A Summary says what is in the file.
type Summary struct {
	// Size is the file's, with the digest.
	Size int64 `json:"size"`
	// Revision is the newest, Compacted the one before which there is no history.
	Revision  int64 `json:"revision"`
	Compacted int64 `json:"compacted"`
	// Revisions are the entries of the history, with deletions; Keys are those
	// that there are at the newest revision, and Leases all of them.
	Revisions int `json:"revisions"`
	Keys      int `json:"keys"`
	Leases    int `json:"leases"`
}

// minBytes is enough for each kind of object.
const minBytes = 1 << 20

// Write makes a snapshot file, which replaces one that is there. When it fails,
// it leaves nothing.
func Write(ctx context.Context, path string, o Options) (Summary, error) {
	o.Bytes = max(o.Bytes, minBytes)
	if o.StorageVersion.IsZero() {
		o.StorageVersion = etcdversion.Version{Major: 3, Minor: 5}
	}
	part := path + ".part"
	s, err := write(ctx, part, o)
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		err = fmt.Errorf("make %s: %w", path, err)
		if rerr := os.Remove(part); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
		return Summary{}, err
	}
	return s, nil
}

func write(ctx context.Context, path string, o Options) (Summary, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return Summary{}, err
	}
	db, err := create(path, o)
	if err != nil {
		return Summary{}, err
	}
	s, err := fill(ctx, db, o)
	if err != nil {
		return Summary{}, errors.Join(err, db.abandon())
	}
	if s.Size, err = db.close(); err != nil {
		return Summary{}, err
	}
	if o.Raw {
		return s, os.Truncate(path, s.Size)
	}
	s.Size += sha256.Size
	if o.Progress != nil {
		o.Progress(s.Size)
	}
	return s, seal(path, s.Size-sha256.Size)
}

// seal cuts the file to the database's size, without the room that bbolt keeps
// behind it, and writes the digest there, as etcd's snapshot has it.
func seal(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	sum := sha256.New()
	if err == nil {
		_, err = io.CopyBuffer(sum, struct{ io.Reader }{f}, make([]byte, 1<<20))
	}
	if err == nil {
		_, err = f.Write(sum.Sum(nil))
	}
	return errors.Join(err, f.Close())
}
