// Package snapshottest makes snapshot files for tests, of whatever history a
// test needs, without an etcd.
package snapshottest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"
)

// TB is the part of a test that is needed.
type TB interface {
	Helper()
	Fatal(args ...any)
	TempDir() string
}

// A DB is etcd's database as it is written down.
type DB struct {
	// Revision is the newest; a new DB is at 1, as a new etcd is.
	Revision int64
	// Values are further values by bucket and key. A nil map of a bucket leaves
	// the bucket out.
	Values map[string]map[string]string

	entries []entry
	live    map[string]state
}

type entry struct {
	main, sub int64
	deleted   bool
	value     []byte
}

type state struct{ create, version int64 }

// New returns an empty database of an etcd of a minor version, such as 3.6.
func New(minor string) *DB {
	d := &DB{Revision: 1, live: map[string]state{}, Values: map[string]map[string]string{
		"meta": {"confState": `{"voters":[1],"auto_leave":false}`, "term": number(2), "consistent_index": number(9)},
		"key":  {}, "lease": {}, "alarm": {}, "members": {}, "members_removed": {}, "auth": {}, "authUsers": {},
		"authRoles": {},
		"cluster":   {"clusterVersion": minor + ".0"},
	}}
	if minor != "3.4" && minor != "3.5" {
		d.Values["meta"]["storageVersion"] = minor + ".0"
	}
	return d
}

func number(n int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }

func revision(main, sub int64) []byte {
	return binary.BigEndian.AppendUint64(append(binary.BigEndian.AppendUint64(nil, uint64(main)), '_'), uint64(sub))
}

func field(b []byte, n protowire.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v))
}

func bytesField(b []byte, n protowire.Number, v string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), v)
}

// Put writes a value in a revision of its own, on a lease unless that is zero.
func (d *DB) Put(key, value string, lease int64) {
	d.Revision++
	d.PutAt(0, key, value, lease)
}

// PutAt writes a value as a further change of the present revision.
func (d *DB) PutAt(sub int64, key, value string, lease int64) {
	s, there := d.live[key]
	if !there {
		s.create = d.Revision
	}
	s.version++
	d.live[key] = s
	b := bytesField(nil, 1, key)
	b = field(field(field(b, 2, s.create), 3, d.Revision), 4, s.version)
	if value != "" {
		b = bytesField(b, 5, value)
	}
	d.entries = append(d.entries, entry{main: d.Revision, sub: sub, value: field(b, 6, lease)})
}

// Delete deletes keys in one revision.
func (d *DB) Delete(keys ...string) {
	d.Revision++
	for i, key := range keys {
		delete(d.live, key)
		d.entries = append(d.entries, entry{main: d.Revision, sub: int64(i), deleted: true, value: bytesField(nil, 1, key)})
	}
}

// Bump raises the revision as a restore does: with an entry of no key, and a
// compaction that is yet to be done.
func (d *DB) Bump(by int64) {
	d.Revision += by
	d.entries = append(d.entries, entry{main: d.Revision})
	d.Values["meta"]["scheduledCompactRev"] = string(revision(d.Revision, 0))
}

// Compacted notes a compaction, whose entries may still be there.
func (d *DB) Compacted(rev int64) {
	d.Values["meta"]["scheduledCompactRev"] = string(revision(rev, 0))
	d.Values["meta"]["finishedCompactRev"] = string(revision(rev, 0))
}

// Drop removes the entries of a revision, as a compaction does.
func (d *DB) Drop(revs ...int64) {
	d.entries = slices.DeleteFunc(d.entries, func(e entry) bool { return slices.Contains(revs, e.main) })
}

// Raw adds an entry as it is.
func (d *DB) Raw(main int64, value []byte) {
	d.Revision = main
	d.entries = append(d.entries, entry{main: main, value: value})
}

// Lease grants a lease of so many seconds.
func (d *DB) Lease(id, ttl int64) {
	d.Values["lease"][number(id)] = string(field(field(nil, 1, id), 2, ttl))
}

// Keys is how many keys there are.
func (d *DB) Keys() int { return len(d.live) }

// Database returns the bytes of the database, without a digest.
func (d *DB) Database(t TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: 4096, NoFreelistSync: true, NoSync: true})
	if err == nil {
		err = db.Update(d.fill)
	}
	size := int64(0)
	if err == nil {
		err = db.View(func(tx *bbolt.Tx) error {
			size = tx.Size()
			return nil
		})
	}
	if err == nil {
		err = db.Close()
	}
	b, rerr := os.ReadFile(path)
	if err != nil || rerr != nil {
		t.Fatal(err, rerr)
	}
	return b[:size]
}

func (d *DB) fill(tx *bbolt.Tx) error {
	for name, values := range d.Values {
		if values == nil {
			continue
		}
		b, err := tx.CreateBucket([]byte(name))
		if err != nil {
			return err
		}
		for k, v := range values {
			if err := b.Put([]byte(k), []byte(v)); err != nil {
				return err
			}
		}
	}
	b := tx.Bucket([]byte("key"))
	for _, e := range d.entries {
		k := revision(e.main, e.sub)
		if e.deleted {
			k = append(k, 't')
		}
		if b == nil {
			return fmt.Errorf("there is no bucket for %x", k)
		}
		if err := b.Put(k, e.value); err != nil {
			return err
		}
	}
	return nil
}

// Sealed returns a database with its digest.
func Sealed(db []byte) []byte {
	sum := sha256.Sum256(db)
	return append(slices.Clone(db), sum[:]...)
}

// Snapshot returns the bytes of a snapshot.
func (d *DB) Snapshot(t TB) []byte {
	t.Helper()
	return Sealed(d.Database(t))
}

// File writes a snapshot file and returns its path.
func (d *DB) File(t TB) string {
	t.Helper()
	return Write(t, d.Snapshot(t))
}

// Write writes a file and returns its path.
func Write(t TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "snapshot.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
