package snapshot

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/internal/pages"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/internal/mvcc"
)

// A Status is what a snapshot file holds.
type Status struct {
	// Size is the file's, in bytes, with the digest.
	Size int64 `json:"size"`
	// Digest says whether the file has etcd's digest, which is then right. A
	// database that was copied from a data directory has none.
	Digest bool `json:"digest"`
	// Revision is the newest one in it, and Keys how many keys there are at that
	// revision.
	Revision cluster.Revision `json:"revision"`
	Keys     int              `json:"keys"`
	// StorageVersion is the form of the data, zero before 3.6. An etcd of an
	// earlier minor does not start on it.
	StorageVersion etcdversion.Version `json:"storageVersion,omitzero"`
	// ClusterVersion is the minor that all members had, zero if it is not there.
	ClusterVersion etcdversion.Version `json:"clusterVersion,omitzero"`
}

// Served returns the status with the revision that an etcd has that starts on the file: the first
// one is 1, and stands in no database. Revision itself is what a restore raises.
func (s Status) Served() Status {
	s.Revision = max(s.Revision, 1)
	return s
}

// Read returns the status of a snapshot file. It reads all of it. The error is
// [ErrDamaged] for a file that is cut off, altered, or no snapshot at all; a
// file that was made to do harm can do no more than that.
func Read(ctx context.Context, path string) (Status, error) {
	s, err := read(ctx, path)
	if err != nil {
		return Status{}, fmt.Errorf("read snapshot %s: %w", path, err)
	}
	return s, nil
}

// Peek returns the status of a snapshot file whose content has just been
// checked: it reads only a few pages, and leaves Digest and Keys out. The errors
// are those of [Read], as far as it sees them.
func Peek(path string) (Status, error) {
	s, err := peek(path)
	if err != nil {
		return Status{}, fmt.Errorf("read snapshot %s: %w", path, err)
	}
	return s, nil
}

func peek(path string) (Status, error) {
	f, err := pages.OpenSource(path)
	if err != nil {
		return Status{}, err
	}
	defer f.Close()
	s := Status{Size: f.Size}
	db, err := f.Database()
	if err != nil {
		return Status{}, err
	}
	keys, ok := db.Bucket(mvcc.KeyBucket)
	if !ok {
		return Status{}, errForeign
	}
	walk := db.Walk()
	err = walk.End(keys, func(i pages.Item) error {
		e, err := mvcc.Parse(i.Key, i.Value)
		s.Revision = cluster.Revision(e.Main)
		return err
	})
	if err != nil {
		return Status{}, err
	}
	return s, s.versions(walk, db)
}

var errForeign = fmt.Errorf("%w: it is a database, but not one of etcd", ErrDamaged)

func read(ctx context.Context, path string) (Status, error) {
	f, err := pages.OpenSource(path)
	if err != nil {
		return Status{}, err
	}
	defer f.Close()
	s := Status{Size: f.Size}
	if s.Digest, err = CheckDigest(ctx, f, nil); err != nil {
		return Status{}, err
	}
	db, err := f.Database()
	if err != nil {
		return Status{}, err
	}
	return s, s.database(ctx, db)
}

// CheckDigest reads r to its end and checks the digest there. It reports false
// where there is none: the size is then that of a database. The error is
// [ErrDamaged] if the digest is wrong. Progress, if not nil, receives what has
// been read, in bytes.
func CheckDigest(ctx context.Context, r io.Reader, progress func(done int64)) (bool, error) {
	d := NewDigest()
	var head [2]byte
	buffer := make([]byte, 1<<20)
	for ctx.Err() == nil {
		n, err := r.Read(buffer)
		if d.Size() == 0 {
			copy(head[:], buffer[:n])
		}
		// Never fails.
		_, _ = d.Write(buffer[:n])
		if progress != nil {
			progress(d.Size())
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return false, err
		}
	}
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case head == [2]byte{0x1f, 0x8b}:
		return false, fmt.Errorf("%w: it is compressed with gzip; uncompress it first", ErrDamaged)
	case d.Size() > 0 && d.Size()%bboltUnit == 0:
		return false, nil
	}
	return true, d.Check()
}

// database reads what the database holds.
func (s *Status) database(ctx context.Context, db *pages.File) error {
	keys, ok := db.Bucket(mvcc.KeyBucket)
	if !ok {
		return errForeign
	}
	walk := db.Walk()
	seed := maphash.MakeSeed()
	live := map[uint64]struct{}{}
	err := walk.Bucket(keys, func(i pages.Item) error {
		e, err := mvcc.Parse(i.Key, i.Value)
		if err != nil {
			return err
		}
		s.Revision = cluster.Revision(e.Main)
		switch id := maphash.Bytes(seed, e.Key); {
		case e.Deleted:
			delete(live, id)
		case len(e.Key) > 0:
			live[id] = struct{}{}
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	s.Keys = len(live)
	return s.versions(walk, db)
}

func (s *Status) versions(walk *pages.Walk, db *pages.File) error {
	for _, name := range []string{mvcc.MetaBucket, mvcc.ClusterBucket} {
		b, ok := db.Bucket(name)
		if !ok {
			continue
		}
		err := walk.Bucket(b, func(i pages.Item) error {
			// What is none is left unknown: it decides nothing here.
			switch v, _ := etcdversion.Parse(string(i.Value)); string(i.Key) {
			case mvcc.StorageVersion:
				s.StorageVersion = v
			case mvcc.ClusterVersion:
				s.ClusterVersion = v
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
