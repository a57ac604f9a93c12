package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	bolt "go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"
)

// buckets are those of an etcd, which restores look for.
var buckets = []string{
	"alarm", "auth", "authRoles", "authUsers", "cluster", "key", "lease", "members", "members_removed", "meta",
}

// batch is how many bytes are written in one transaction.
const batch = 16 << 20

// write writes the conversion into a copy of base, or into a new database.
func write(ctx context.Context, base, path string, c *conversion) (err error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if base != "" {
		if err := copyTo(ctx, base, path); err != nil {
			return err
		}
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Sync(), db.Close()) }()
	if err := db.Update(c.frame); err != nil {
		return err
	}
	for rest := c.puts; len(rest) > 0; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, size := 0, 0
		for n < len(rest) && size < batch {
			size += len(rest[n].key) + len(rest[n].value)
			n++
		}
		if err := db.Update(func(tx *bolt.Tx) error { return putAll(tx, rest[:n]) }); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// frame makes the buckets, the leases, and the mark before which there is no history.
func (c *conversion) frame(tx *bolt.Tx) error {
	for _, name := range buckets {
		if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.leases)) {
		key := binary.BigEndian.AppendUint64(nil, uint64(id))
		if err := tx.Bucket([]byte("lease")).Put(key, leaseMessage(id, c.leases[id])); err != nil {
			return err
		}
	}
	if !c.compacted {
		return nil
	}
	for _, key := range []string{"scheduledCompactRev", "finishedCompactRev"} {
		if err := tx.Bucket([]byte("meta")).Put([]byte(key), revision(c.revision, 0)); err != nil {
			return err
		}
	}
	return nil
}

func putAll(tx *bolt.Tx, puts []put) error {
	b := tx.Bucket([]byte("key"))
	for _, p := range puts {
		key := revision(p.main, p.sub)
		if b.Get(key) != nil {
			return fmt.Errorf("revision %d already exists", p.main)
		}
		if err := b.Put(key, p.message()); err != nil {
			return err
		}
	}
	return nil
}

// revision is the name of an entry of the bucket of keys.
func revision(main, sub int64) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(main))
	return binary.BigEndian.AppendUint64(append(b, '_'), uint64(sub))
}

// message is the KeyValue of etcd's API: 1 key, 2 revision of its creation, 3 of its last
// change, 4 version, 5 value, 6 lease.
func (p put) message() []byte {
	b := protowire.AppendTag(nil, 1, protowire.BytesType)
	b = protowire.AppendString(b, p.key)
	for i, n := range []int64{p.create, p.main, p.version} {
		b = protowire.AppendTag(b, protowire.Number(i+2), protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(n))
	}
	if p.value != "" {
		b = protowire.AppendTag(b, 5, protowire.BytesType)
		b = protowire.AppendString(b, p.value)
	}
	if p.lease != 0 {
		b = protowire.AppendTag(b, 6, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(p.lease))
	}
	return b
}

// leaseMessage is how a lease is saved: 1 id, 2 seconds.
func leaseMessage(id, seconds int64) []byte {
	b := protowire.AppendTag(nil, 1, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(id))
	b = protowire.AppendTag(b, 2, protowire.VarintType)
	return protowire.AppendVarint(b, uint64(seconds))
}

func copyTo(ctx context.Context, from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, reader{ctx, f})
	return errors.Join(err, w.Close())
}

// seal makes a snapshot of a database: its digest comes behind it.
func seal(db, out string) error {
	f, err := os.OpenFile(db, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	digest := sha256.New()
	_, err = io.Copy(digest, f)
	if err == nil {
		_, err = f.Write(digest.Sum(nil))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(db, out)
}
