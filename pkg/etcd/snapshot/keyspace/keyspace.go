// Package keyspace looks into snapshot files: which keys there are at a
// revision, their values and leases, and the hash that an etcd with this data
// would answer. It needs no etcd, and changes nothing.
//
// The keys are held in memory, about 250 bytes for each beside the name; values
// are read when they are asked for. A file that was made to do harm gives
// snapshot.ErrDamaged, within the time that reading it takes.
package keyspace

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/internal/pages"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/internal/mvcc"
)

// Options say how [Open] checks a file.
type Options struct {
	// Revision is the one to check, the newest for zero. One that is not in the
	// history is a [*RevisionError].
	Revision cluster.Revision
	// SkipDigest leaves out the check of etcd's digest at the end of the file, for
	// a file whose digest has been checked.
	SkipDigest bool
	// Progress, if not nil, receives how much of the work is done: bytes that were
	// read, of those that will be.
	Progress func(done, total int64)
}

// A RevisionError says that a revision is not in the history of a file.
type RevisionError struct{ Revision, Compacted, Newest cluster.Revision }

func (e *RevisionError) Error() string {
	return fmt.Sprintf("revision %d is not in it: its history goes from %d to %d", e.Revision, max(e.Compacted, 1),
		e.Newest)
}

// A Summary is what a file holds on the whole.
type Summary struct {
	// Size is the file's in bytes, Used is how much of it the database is. Digest
	// says whether etcd's digest is at its end.
	Size   int64 `json:"size"`
	Used   int64 `json:"used"`
	Digest bool  `json:"digest"`

	// Revision is the one that was checked, Newest the last one. Before
	// Compacted there is no history; it is zero where nothing was compacted yet.
	Revision  cluster.Revision `json:"revision"`
	Newest    cluster.Revision `json:"newest"`
	Compacted cluster.Revision `json:"compacted"`

	// Keys and Bytes are how many keys there are at the revision, and the bytes of
	// them with their values. Changes and Deletions are the entries of the whole
	// history.
	Keys      int   `json:"keys"`
	Bytes     int64 `json:"bytes"`
	Changes   int   `json:"changes"`
	Deletions int   `json:"deletions"`
	Leases    int   `json:"leases"`

	// StorageVersion is the form of the data, zero before 3.6; ClusterVersion is
	// the minor that all members had, zero if it is not there.
	StorageVersion etcdversion.Version `json:"storageVersion,omitzero"`
	ClusterVersion etcdversion.Version `json:"clusterVersion,omitzero"`
	// RaftIndex and RaftTerm are of the last entry of raft's log in it, zero if it
	// does not say.
	RaftIndex uint64 `json:"raftIndex,omitempty"`
	RaftTerm  uint64 `json:"raftTerm,omitempty"`
}

// A Key is one at the revision that was checked.
type Key struct {
	Key            string           `json:"key"`
	CreateRevision cluster.Revision `json:"createRevision"`
	ModRevision    cluster.Revision `json:"modRevision"`
	Version        int64            `json:"version"`
	// Lease is zero for none.
	Lease int64 `json:"lease,omitempty"`
	// Size is the value's, in bytes.
	Size int `json:"size"`

	sub int64
	// at is where the value is in the file.
	at int64
}

// A Lease is one that keys may hang on.
type Lease struct {
	ID int64 `json:"id"`
	// TTL and Remaining are in seconds. Remaining is zero where the lease begins
	// again after a restore.
	TTL       int64 `json:"ttl"`
	Remaining int64 `json:"remaining,omitempty"`
	// Keys are how many hang on it at the revision that was checked.
	Keys int `json:"keys"`
}

// A Space is the content of an open file. Its methods may be called from any
// goroutine.
type Space struct {
	source pages.Source
	db     *pages.File
	sum    Summary
	// keys are in order. The first may be the empty one, with which a restore
	// raises the revision, and which is none for anybody but the hash.
	keys   []Key
	leases []Lease
}

// Open reads a snapshot file, or a database that was copied from a data
// directory. The caller must close what it returns. The error is
// snapshot.ErrDamaged if the file is not what etcd wrote.
func Open(ctx context.Context, path string, o Options) (*Space, error) {
	source, err := pages.OpenSource(path)
	if err != nil {
		return nil, fmt.Errorf("open snapshot %s: %w", path, err)
	}
	s := &Space{source: source}
	if err := s.load(ctx, o); err != nil {
		return nil, fmt.Errorf("open snapshot %s: %w", path, errors.Join(err, source.Close()))
	}
	return s, nil
}

// Close closes the file.
func (s *Space) Close() error { return s.source.Close() }

// Summary returns what the file holds on the whole.
func (s *Space) Summary() Summary { return s.sum }

// Leases returns all leases by their id.
func (s *Space) Leases() []Lease { return slices.Clone(s.leases) }

// visible are the keys without the one that is none.
func (s *Space) visible() []Key {
	if len(s.keys) > 0 && s.keys[0].Key == "" {
		return s.keys[1:]
	}
	return s.keys
}

// Keys returns the keys with a prefix, in order. The slice must not be changed.
func (s *Space) Keys(prefix string) []Key {
	all := s.visible()
	from, _ := slices.BinarySearchFunc(all, prefix, func(k Key, p string) int { return strings.Compare(k.Key, p) })
	all = all[from:]
	// Those with the prefix come first.
	to, _ := slices.BinarySearchFunc(all, prefix, func(k Key, p string) int {
		if strings.HasPrefix(k.Key, p) {
			return -1
		}
		return 1
	})
	return all[:to:to]
}

// Get returns a key by its name; ok is false if there is none.
func (s *Space) Get(key string) (k Key, ok bool) {
	all := s.visible()
	i, ok := slices.BinarySearchFunc(all, key, func(k Key, name string) int { return strings.Compare(k.Key, name) })
	if !ok {
		return Key{}, false
	}
	return all[i], true
}

// Value reads the value of a key of this space. It uses buffer where that is
// large enough.
func (s *Space) Value(k Key, buffer []byte) ([]byte, error) {
	if cap(buffer) < k.Size {
		buffer = make([]byte, k.Size)
	}
	buffer = buffer[:k.Size]
	if err := s.db.ReadAt(buffer, k.at); err != nil {
		return nil, fmt.Errorf("read the value of %q: %w", k.Key, err)
	}
	return buffer, nil
}

// load reads the file.
func (s *Space) load(ctx context.Context, o Options) (err error) {
	p := &progress{report: o.Progress, total: s.source.Size}
	s.sum = Summary{Size: s.source.Size, Digest: s.source.Digest}
	if !o.SkipDigest {
		p.total *= 2
		whole := io.NewSectionReader(s.source, 0, s.source.Size)
		if _, err := snapshot.CheckDigest(ctx, whole, p.set); err != nil {
			return err
		}
		p.base = s.source.Size
	}
	if s.db, err = s.source.Database(); err != nil {
		return err
	}
	s.sum.Used = s.db.Used()
	walk := s.db.Walk()
	if err := s.loadMeta(walk); err != nil {
		return err
	}
	b, ok := s.db.Bucket(mvcc.KeyBucket)
	if !ok {
		return fmt.Errorf("%w: it is a database, but not one of etcd", snapshot.ErrDamaged)
	}
	x := index{ctx: ctx, at: o.Revision, names: map[string]int32{}, reported: func() { p.set(walk.Read()) }}
	if err := walk.Bucket(b, x.add); err != nil {
		return err
	}
	s.sum.Changes, s.sum.Deletions = x.changes, x.deletions
	s.sum.Newest = max(x.newest, s.sum.Compacted, 1)
	s.sum.Revision = o.Revision
	if o.Revision == 0 {
		s.sum.Revision = s.sum.Newest
	}
	if s.sum.Revision < s.sum.Compacted || s.sum.Revision > s.sum.Newest {
		return &RevisionError{s.sum.Revision, s.sum.Compacted, s.sum.Newest}
	}
	s.keys = x.live()
	for _, k := range s.visible() {
		s.sum.Bytes += int64(len(k.Key) + k.Size)
	}
	s.sum.Keys = len(s.visible())
	if err := s.loadLeases(walk); err != nil {
		return err
	}
	return s.loadRest(walk)
}

// loadRest walks through what was not checked, so that damage shows there
// too.
func (s *Space) loadRest(walk *pages.Walk) error {
	for _, b := range s.db.Buckets() {
		switch b.Name {
		case mvcc.KeyBucket, mvcc.LeaseBucket, mvcc.MetaBucket, mvcc.ClusterBucket:
			continue
		}
		if err := walk.Bucket(b, func(pages.Item) error { return nil }); err != nil {
			return fmt.Errorf("bucket %s: %w", b.Name, err)
		}
	}
	return nil
}

// loadMeta reads what the database says of itself.
func (s *Space) loadMeta(walk *pages.Walk) error {
	for _, name := range []string{mvcc.MetaBucket, mvcc.ClusterBucket} {
		b, ok := s.db.Bucket(name)
		if !ok {
			continue
		}
		if err := walk.Bucket(b, s.meta); err != nil {
			return fmt.Errorf("bucket %s: %w", name, err)
		}
	}
	return nil
}

func (s *Space) meta(i pages.Item) error {
	switch string(i.Key) {
	case mvcc.ScheduledCompact, mvcc.FinishedCompact:
		// An etcd that starts goes on with a compaction that was scheduled, and
		// from then on counts it as done.
		r, _, err := mvcc.ParseRevision(i.Value)
		if err != nil {
			return err
		}
		s.sum.Compacted = max(s.sum.Compacted, cluster.Revision(r.Main))
	case mvcc.StorageVersion:
		// A version that does not parse is left unknown: it decides nothing here.
		s.sum.StorageVersion, _ = etcdversion.Parse(string(i.Value))
	case mvcc.ClusterVersion:
		s.sum.ClusterVersion, _ = etcdversion.Parse(string(i.Value))
	case mvcc.ConsistentIndex:
		s.sum.RaftIndex = number(i.Value)
	case mvcc.Term:
		s.sum.RaftTerm = number(i.Value)
	}
	return nil
}

// number reads a number of eight bytes, zero for anything else.
func number(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// loadLeases reads the leases and counts their keys.
func (s *Space) loadLeases(walk *pages.Walk) error {
	keys := map[int64]int{}
	for _, k := range s.visible() {
		keys[k.Lease]++
	}
	b, ok := s.db.Bucket(mvcc.LeaseBucket)
	if !ok {
		return nil
	}
	err := walk.Bucket(b, func(i pages.Item) error {
		l, err := mvcc.ParseLease(i.Key, i.Value)
		if err != nil {
			return err
		}
		s.leases = append(s.leases, Lease{ID: l.ID, TTL: l.TTL, Remaining: l.Remaining, Keys: keys[l.ID]})
		return nil
	})
	s.sum.Leases = len(s.leases)
	return err
}

// A progress reports work in several parts.
type progress struct {
	report      func(done, total int64)
	base, total int64
}

func (p *progress) set(done int64) {
	if p.report != nil {
		p.report(min(p.base+done, p.total), p.total)
	}
}
