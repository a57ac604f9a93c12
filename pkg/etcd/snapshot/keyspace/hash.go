package keyspace

import (
	"context"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/internal/pages"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/internal/mvcc"
)

// A Hash is the digest of keys that etcd's call HashKV answers. Two members
// with the same three values hold the same data.
type Hash struct {
	Hash     uint32           `json:"hash"`
	Revision cluster.Revision `json:"revision"`
	// CompactRevision is -1 where nothing was compacted yet, as etcd has it.
	CompactRevision cluster.Revision `json:"compactRevision"`
}

// Hash computes what an etcd of 3.5 or later that starts on this data answers
// to HashKV of the revision that was checked. It reads the file once more.
//
// The rule is of server/storage/mvcc/hash.go: all entries up to the revision,
// without those up to the compaction that are not the present state of a key
// (a compaction may have removed them by now or not), and without a deletion in
// the very revision of the compaction (etcd before 3.5.16 removed it). With no
// key at all, only the deletion is left out. An etcd that has just compacted
// to this very revision answers another hash, of the time between its last two
// compactions; it says so by another CompactRevision.
func (s *Space) Hash(ctx context.Context) (Hash, error) {
	h := Hash{Revision: s.sum.Revision, CompactRevision: s.sum.Compacted}
	if h.CompactRevision == 0 {
		h.CompactRevision = -1
	}
	k := retained{compacted: int64(h.CompactRevision), any: len(s.keys) > 0}
	for _, key := range s.keys {
		if int64(key.ModRevision) <= k.compacted {
			k.keep = append(k.keep, mvcc.Revision{Main: int64(key.ModRevision), Sub: key.sub})
		}
	}
	slices.SortFunc(k.keep, func(a, b mvcc.Revision) int {
		if a.After(b) {
			return 1
		}
		return -1
	})
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	// Never fails, here and below.
	_, _ = sum.Write([]byte(mvcc.KeyBucket))
	b, _ := s.db.Bucket(mvcc.KeyBucket)
	n := 0
	err := s.db.Walk().Bucket(b, func(i pages.Item) error {
		if n++; n%reportEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		r, deleted, err := mvcc.ParseRevision(i.Key)
		if err != nil {
			return err
		}
		if r.Main <= int64(h.Revision) && k.counts(r, deleted) {
			_, _ = sum.Write(i.Key)
			_, _ = sum.Write(i.Value)
		}
		return nil
	})
	if err != nil {
		return Hash{}, fmt.Errorf("hash of the keys: %w", err)
	}
	h.Hash = sum.Sum32()
	return h, nil
}

// retained says which entries of before the compaction count.
type retained struct {
	compacted int64
	any       bool
	// keep are those, in order; the ones that were passed are cut off.
	keep []mvcc.Revision
}

// counts must be called with ascending revisions.
func (k *retained) counts(r mvcc.Revision, deleted bool) bool {
	if r.Main > k.compacted {
		return true
	}
	if deleted && r.Main == k.compacted {
		return false
	}
	for len(k.keep) > 0 && r.After(k.keep[0]) {
		k.keep = k.keep[1:]
	}
	return !k.any || len(k.keep) > 0 && k.keep[0] == r
}
