// Package mvcc reads the entries of etcd's history.
package mvcc

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/etcdadm/etcdadm/pkg/etcd/internal/pages"
)

// The buckets of etcd's database (server/storage/schema/bucket.go), and the
// keys in them.
const (
	KeyBucket     = "key"
	MetaBucket    = "meta"
	LeaseBucket   = "lease"
	ClusterBucket = "cluster"

	ScheduledCompact = "scheduledCompactRev"
	FinishedCompact  = "finishedCompactRev"
	StorageVersion   = "storageVersion"
	ClusterVersion   = "clusterVersion"
	ConsistentIndex  = "consistent_index"
	Term             = "term"
)

// A Revision orders the entries: main counts transactions, sub the changes
// in one.
type Revision struct{ Main, Sub int64 }

// After reports whether r comes after s.
func (r Revision) After(s Revision) bool {
	return r.Main > s.Main || r.Main == s.Main && r.Sub > s.Sub
}

// An Entry is one change of a key. Its slices are those of what was parsed.
type Entry struct {
	Revision
	// Deleted says that the key was deleted then. Only Key is set besides.
	Deleted bool
	// Key is empty in the entry with which a restore raises the revision.
	Key                  []byte
	Create, Mod, Version int64
	// Lease is zero for none.
	Lease int64
	Value []byte
	// ValueAt is where Value begins in what was parsed.
	ValueAt int
}

// revisionSize is that of a revision as a key of the bucket: eight bytes, '_',
// eight bytes, and 't' where a key was deleted (server/storage/mvcc/revision.go).
const (
	revisionSize = 17
	tombstone    = 't'
)

// ParseRevision reads a key of the bucket [KeyBucket].
func ParseRevision(k []byte) (r Revision, deleted bool, err error) {
	deleted = len(k) == revisionSize+1 && k[revisionSize] == tombstone
	if len(k) != revisionSize && !deleted || k[8] != '_' {
		return r, false, fmt.Errorf("%w: %x is not a revision", pages.ErrDamaged, k)
	}
	r = Revision{int64(binary.BigEndian.Uint64(k)), int64(binary.BigEndian.Uint64(k[9:]))}
	if r.Main < 0 || r.Sub < 0 {
		return r, false, fmt.Errorf("%w: %x is a negative revision", pages.ErrDamaged, k)
	}
	return r, deleted, nil
}

// The fields of mvccpb.KeyValue (api/mvccpb/kv.proto).
const (
	fieldKey = iota + 1
	fieldCreate
	fieldMod
	fieldVersion
	fieldValue
	fieldLease
)

// Parse reads an entry of the bucket [KeyBucket].
func Parse(k, v []byte) (e Entry, err error) {
	if e.Revision, e.Deleted, err = ParseRevision(k); err != nil {
		return e, err
	}
	if err := e.fields(v); err != nil {
		return e, fmt.Errorf("%w: revision %d.%d: %w", pages.ErrDamaged, e.Main, e.Sub, err)
	}
	switch {
	case e.Deleted && len(e.Key) == 0, e.Deleted && e.Mod != 0:
		err = fmt.Errorf("%w: revision %d.%d deletes no key", pages.ErrDamaged, e.Main, e.Sub)
	case !e.Deleted && len(e.Key) > 0 && (e.Mod != e.Main || e.Create > e.Mod || e.Create < 1 || e.Version < 1):
		err = fmt.Errorf("%w: revision %d.%d is labelled %d, of a key made at %d, version %d",
			pages.ErrDamaged, e.Main, e.Sub, e.Mod, e.Create, e.Version)
	}
	return e, err
}

// fields reads the message. As protobuf has it, unknown fields are nothing, and
// the last one of a number counts.
func (e *Entry) fields(v []byte) error {
	for at := 0; at < len(v); {
		number, kind, n := protowire.ConsumeTag(v[at:])
		if n < 0 {
			return protowire.ParseError(n)
		}
		at += n
		switch {
		case kind == protowire.BytesType && (number == fieldKey || number == fieldValue):
			b, n := protowire.ConsumeBytes(v[at:])
			if n < 0 {
				return protowire.ParseError(n)
			}
			at += n
			if number == fieldKey {
				e.Key = b
			} else {
				e.Value, e.ValueAt = b, at-len(b)
			}
		case kind == protowire.VarintType:
			u, n := protowire.ConsumeVarint(v[at:])
			if n < 0 {
				return protowire.ParseError(n)
			}
			at += n
			e.number(number, int64(u))
		default:
			n := protowire.ConsumeFieldValue(number, kind, v[at:])
			if n < 0 {
				return protowire.ParseError(n)
			}
			at += n
		}
	}
	return nil
}

func (e *Entry) number(field protowire.Number, n int64) {
	switch field {
	case fieldCreate:
		e.Create = n
	case fieldMod:
		e.Mod = n
	case fieldVersion:
		e.Version = n
	case fieldLease:
		e.Lease = n
	}
}

// A Lease is a key's end: after TTL without a sign of life of its owner.
type Lease struct {
	ID int64
	// TTL and Remaining are in seconds. Remaining is zero where etcd has not
	// noted it; the lease then begins again.
	TTL, Remaining int64
}

// ParseLease reads an entry of the bucket [LeaseBucket]
// (server/lease/leasepb/lease.proto).
func ParseLease(k, v []byte) (Lease, error) {
	l := Lease{}
	for at := 0; at < len(v); {
		number, kind, n := protowire.ConsumeTag(v[at:])
		if n < 0 {
			return l, fmt.Errorf("%w: lease %x: %w", pages.ErrDamaged, k, protowire.ParseError(n))
		}
		at += n
		u := uint64(0)
		if kind == protowire.VarintType {
			u, n = protowire.ConsumeVarint(v[at:])
		} else {
			n, number = protowire.ConsumeFieldValue(number, kind, v[at:]), 0
		}
		if n < 0 {
			return l, fmt.Errorf("%w: lease %x: %w", pages.ErrDamaged, k, protowire.ParseError(n))
		}
		at += n
		switch number {
		case 1:
			l.ID = int64(u)
		case 2:
			l.TTL = int64(u)
		case 3:
			l.Remaining = int64(u)
		}
	}
	if len(k) != 8 || int64(binary.BigEndian.Uint64(k)) != l.ID {
		return l, fmt.Errorf("%w: lease %x is labelled %x", pages.ErrDamaged, k, l.ID)
	}
	return l, nil
}
