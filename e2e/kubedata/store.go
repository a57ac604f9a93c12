package kubedata

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// maxBatch is how much is written in one transaction of bbolt, which holds it
// in memory. A small file needs small ones: how large it is shows at their ends.
const maxBatch = 8 << 20

// pageSize is that of most machines, whatever this one has.
const pageSize = 4096

// A store is an etcd database that is being written, oldest revision first.
type store struct {
	db *bbolt.DB
	tx *bbolt.Tx
	// key is the bucket of that name in tx.
	key *bbolt.Bucket
	// arena holds what tx refers to, until it is committed.
	arena []byte
	batch int
	size  int64
}

// buckets are all that etcd makes (storage/schema/bucket.go).
var buckets = []string{
	"key", "meta", "lease", "alarm", "cluster", "members", "members_removed", "auth", "authUsers", "authRoles",
}

// The one member that the snapshot is of. A restore replaces it.
const (
	memberName = "8e9e05c52164694d"
	memberJSON = `{"id":10276657743932975437,"peerURLs":["http://localhost:2380"],"name":"default","clientURLs":["http://localhost:2379"]}`
	confState  = `{"voters":[10276657743932975437],"auto_leave":false}`
	raftTerm   = 3
)

// create makes a database without keys.
func create(path string, o Options) (*store, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	// As etcd opens it, but without waiting for the disk, and with the list of
	// free pages that does not depend on the order of Go's maps.
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		PageSize: pageSize, NoFreelistSync: true, FreelistType: bbolt.FreelistArrayType, NoSync: true, NoGrowSync: true,
	})
	if err != nil {
		return nil, err
	}
	s := &store{db: db, batch: int(min(maxBatch, o.Bytes/16))}
	err = s.begin()
	if err == nil {
		err = s.form(o.StorageVersion)
	}
	if err != nil {
		return nil, errors.Join(err, s.abandon())
	}
	return s, nil
}

// form writes what is not keys or leases.
func (s *store) form(storage etcdversion.Version) error {
	for _, name := range buckets {
		if _, err := s.tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return err
		}
	}
	minor := fmt.Sprintf("%d.%d.0", storage.Major, storage.Minor)
	meta := map[string]string{"confState": confState, "term": string(binary.BigEndian.AppendUint64(nil, raftTerm))}
	if storage.AtLeast(3, 6) {
		meta["storageVersion"] = minor
	}
	for bucket, pairs := range map[string]map[string]string{
		"meta": meta, "cluster": {"clusterVersion": minor}, "members": {memberName: memberJSON},
		"auth": {"authRevision": string(binary.BigEndian.AppendUint64(nil, 1))},
	} {
		for k, v := range pairs {
			if err := s.tx.Bucket([]byte(bucket)).Put([]byte(k), []byte(v)); err != nil {
				return err
			}
		}
	}
	return s.commit()
}

func (s *store) begin() (err error) {
	if s.tx, err = s.db.Begin(true); err != nil {
		return err
	}
	if s.key, err = s.tx.CreateBucketIfNotExists([]byte("key")); err != nil {
		return err
	}
	// As etcd does: revisions are only ever added at the end.
	s.key.FillPercent = 0.9
	return nil
}

// commit ends a batch and begins another.
func (s *store) commit() error {
	if err := s.tx.Commit(); err != nil {
		return err
	}
	s.arena = s.arena[:0]
	if err := s.begin(); err != nil {
		return err
	}
	s.size = s.tx.Size()
	return nil
}

// A change is one entry of the history: a value of a key, or its deletion.
type change struct {
	main, sub int64
	key       string
	deleted   bool
	// For values only. create is a revision, lease is zero for none.
	create, version, lease int64
	value                  []byte
}

// The fields of mvccpb.KeyValue.
const (
	fieldKey = iota + 1
	fieldCreate
	fieldMod
	fieldVersion
	fieldValue
	fieldLease
)

// put adds a change. Each must have a higher revision than the one before.
func (s *store) put(c change) error {
	start := len(s.arena)
	b := binary.BigEndian.AppendUint64(s.arena, uint64(c.main))
	b = binary.BigEndian.AppendUint64(append(b, '_'), uint64(c.sub))
	if c.deleted {
		b = append(b, 't')
	}
	middle := len(b)
	b = protowire.AppendString(protowire.AppendTag(b, fieldKey, protowire.BytesType), c.key)
	if !c.deleted {
		b = number(b, fieldCreate, c.create)
		b = number(b, fieldMod, c.main)
		b = number(b, fieldVersion, c.version)
		b = protowire.AppendBytes(protowire.AppendTag(b, fieldValue, protowire.BytesType), c.value)
		b = number(b, fieldLease, c.lease)
	}
	s.arena = b
	if err := s.key.Put(b[start:middle:middle], b[middle:len(b):len(b)]); err != nil {
		return err
	}
	if len(s.arena) >= s.batch {
		return s.commit()
	}
	return nil
}

// number appends a field unless it is zero, as protobuf has it.
func number(b []byte, field protowire.Number, n int64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(n))
}

// lease adds a lease (server/lease/leasepb).
func (s *store) lease(id, ttl int64) error {
	return s.tx.Bucket([]byte("lease")).Put(binary.BigEndian.AppendUint64(nil, uint64(id)),
		number(number(nil, 1, id), 2, ttl))
}

// compacted says that there is no history before a revision. etcd writes it as
// a revision, with all that belongs to it.
func (s *store) compacted(rev int64) error {
	meta := s.tx.Bucket([]byte("meta"))
	b := append(binary.BigEndian.AppendUint64(nil, uint64(rev)), '_')
	b = append(b, make([]byte, 8)...)
	return errors.Join(meta.Put([]byte("scheduledCompactRev"), b), meta.Put([]byte("finishedCompactRev"), b))
}

// close ends the database and returns how much of the file it is.
func (s *store) close() (int64, error) {
	index := binary.BigEndian.AppendUint64(nil, uint64(s.tx.ID()))
	if err := s.tx.Bucket([]byte("meta")).Put([]byte("consistent_index"), index); err != nil {
		return 0, errors.Join(err, s.abandon())
	}
	if err := s.commit(); err != nil {
		return 0, errors.Join(err, s.abandon())
	}
	return s.size, s.abandon()
}

func (s *store) abandon() error {
	var err error
	if s.tx != nil {
		// It is over already where a commit has failed.
		if err = s.tx.Rollback(); errors.Is(err, bolterrors.ErrTxClosed) {
			err = nil
		}
	}
	return errors.Join(err, s.db.Close())
}
