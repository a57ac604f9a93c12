package keyspace

import (
	"context"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/internal/pages"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/internal/mvcc"
)

// reportEvery is after how many entries progress is reported and the context is
// checked.
const reportEvery = 1 << 12

// An index remembers the latest entry of each key, up to a revision.
type index struct {
	ctx context.Context
	// at is the last revision to remember, all for zero.
	at       cluster.Revision
	names    map[string]int32
	keys     []Key
	reported func()

	newest             cluster.Revision
	changes, deletions int
}

// gone is in the place of a deleted key's value.
const gone = -1

// add is called for each entry, in the order of their revisions.
func (x *index) add(i pages.Item) error {
	e, err := mvcc.Parse(i.Key, i.Value)
	if err != nil {
		return err
	}
	if x.changes%reportEvery == 0 {
		if x.ctx.Err() != nil {
			return x.ctx.Err()
		}
		x.reported()
	}
	x.changes++
	if e.Deleted {
		x.deletions++
	}
	x.newest = cluster.Revision(e.Main)
	if x.at > 0 && x.newest > x.at {
		return nil
	}
	place, known := x.names[string(e.Key)]
	switch {
	case e.Deleted && known:
		x.keys[place].at = gone
		return nil
	case e.Deleted:
		return nil
	case !known:
		place = int32(len(x.keys))
		x.keys = append(x.keys, Key{Key: string(e.Key)})
		x.names[x.keys[place].Key] = place
	}
	k := &x.keys[place]
	k.CreateRevision, k.ModRevision, k.sub = cluster.Revision(e.Create), cluster.Revision(e.Main), e.Sub
	k.Version, k.Lease = e.Version, e.Lease
	k.Size, k.at = len(e.Value), i.At+int64(e.ValueAt)
	return nil
}

// live returns the keys that are there, in order.
func (x *index) live() []Key {
	x.names = nil
	keys := slices.DeleteFunc(x.keys, func(k Key) bool { return k.at == gone })
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(a.Key, b.Key) })
	return keys
}
