package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/keyspace"
)

// An oldSpace is the v3 store that the data had, nothing for etcd 2.
type oldSpace struct {
	space  *keyspace.Space
	keys   []keyspace.Key
	leases []keyspace.Lease
	// newest is the last revision, 1 for a store without changes.
	newest cluster.Revision
	empty  bool
}

// readOld reads the database in a file, "" for none.
func readOld(ctx context.Context, path string) (oldSpace, error) {
	if path == "" {
		return oldSpace{newest: 1, empty: true}, nil
	}
	s, err := keyspace.Open(ctx, path, keyspace.Options{SkipDigest: true})
	if err != nil {
		return oldSpace{}, err
	}
	sum := s.Summary()
	return oldSpace{s, s.Keys(""), s.Leases(), sum.Newest, sum.Changes == 0 && sum.Newest <= 1}, nil
}

func (o oldSpace) close() {
	if o.space != nil {
		_ = o.space.Close() // nothing was written
	}
}

// A put is an entry of the v3 store that is made of a v2 key.
type put struct {
	key, value        string
	create, main, sub int64
	version, lease    int64
	replaces          bool
}

// A conversion is what is written into the v3 store.
type conversion struct {
	puts []put
	// leases are made of times to live: their ids, and seconds.
	leases map[int64]int64
	// revision is that of the store afterwards; compacted says that it has no history
	// before.
	revision  int64
	compacted bool

	expired, replaced, dropped int
}

// maxNamed is how many keys an error names.
const maxNamed = 20

// plan says what becomes of the keys of the v2 store.
//
// Without v3 keys each has the revision that was its index, as the migration of Kubernetes
// had it, and the store has the last index as its revision. Beside v3 keys, whose revisions
// stay, they come behind the last one, in the order in which they were written.
func plan(store v2Store, old oldSpace, keep string, now time.Time) (*conversion, error) {
	c := &conversion{leases: map[int64]int64{}, revision: int64(old.newest), compacted: old.empty}
	have := map[string]keyspace.Key{}
	for _, k := range old.keys {
		have[k.Key] = k
	}
	keys := slices.Clone(store.keys)
	slices.SortFunc(keys, func(a, b v2Key) int {
		return cmp.Or(cmp.Compare(a.modified, b.modified), strings.Compare(a.name, b.name))
	})
	ids := leaseIDs(old.leases)
	var both []string
	for _, k := range keys {
		if !k.expires.IsZero() && !k.expires.After(now) {
			c.expired++
			continue
		}
		p := put{key: k.name, value: k.value, version: 1}
		if before, ok := have[k.name]; ok {
			both = append(both, k.name)
			if keep != KeepV2 {
				c.dropped++
				continue
			}
			c.replaced++
			p.create, p.version, p.replaces = int64(before.CreateRevision), before.Version+1, true
		}
		c.place(&p, k, old.empty)
		if !k.expires.IsZero() {
			p.lease = ids(k.expires.Unix())
			c.leases[p.lease] = max(c.leases[p.lease], int64(math.Ceil(k.expires.Sub(now).Seconds())))
		}
		c.puts = append(c.puts, p)
	}
	if old.empty {
		c.revision = max(c.revision, store.index)
	}
	if len(both) > 0 && keep == KeepNone {
		more := ""
		if len(both) > maxNamed {
			more = ", ..."
		}
		return nil, refuse("compare both, and choose which to keep: --keep=v3 or --keep=v2",
			"%d keys are in the v2 store and in the v3 store: %s%s", len(both),
			strings.Join(both[:min(len(both), maxNamed)], ", "), more)
	}
	return c, nil
}

// place gives a put its revision.
func (c *conversion) place(p *put, k v2Key, indexes bool) {
	if indexes {
		p.create, p.main = k.created, k.modified
		if n := len(c.puts); n > 0 && c.puts[n-1].main == p.main {
			p.sub = c.puts[n-1].sub + 1
		}
		c.revision = max(c.revision, p.main)
		return
	}
	c.revision++
	p.main = c.revision
	if p.create == 0 {
		p.create = p.main
	}
}

// leaseIDs returns the function that gives keys that expire in one second one lease, which
// no v3 key has.
func leaseIDs(taken []keyspace.Lease) func(second int64) int64 {
	used := map[int64]bool{}
	for _, l := range taken {
		used[l.ID] = true
	}
	ids := map[int64]int64{}
	return func(second int64) int64 {
		if id, ok := ids[second]; ok {
			return id
		}
		id := second
		for used[id] {
			id += 1 << 40
		}
		used[id], ids[second] = true, id
		return id
	}
}

// verify reads the snapshot again, and finds all keys in it, of both kinds.
func verify(ctx context.Context, path string, old oldSpace, c *conversion) (cluster.Revision, error) {
	s, err := keyspace.Open(ctx, path, keyspace.Options{})
	if err != nil {
		return 0, fmt.Errorf("read what was written: %w", err)
	}
	defer s.Close() // nothing was written
	replaced := map[string]bool{}
	for _, p := range c.puts {
		replaced[p.key] = p.replaces
		k, ok := s.Get(p.key)
		v, err := s.Value(k, nil)
		if !ok || err != nil || string(v) != p.value || k.Lease != p.lease || int64(k.ModRevision) != p.main ||
			int64(k.CreateRevision) != p.create || k.Version != p.version {
			return 0, errors.Join(fmt.Errorf("key %q of the v2 store was not written as it was", p.key), err)
		}
	}
	for _, k := range old.keys {
		if replaced[k.Key] {
			continue
		}
		if err := sameKey(s, old.space, k); err != nil {
			return 0, err
		}
	}
	want := len(c.puts) + len(old.keys) - c.replaced
	if n := s.Summary().Keys; n != want {
		return 0, fmt.Errorf("%d keys were written, but %d are expected", n, want)
	}
	if n := s.Summary().Leases; n != len(c.leases)+len(old.leases) {
		return 0, fmt.Errorf("%d leases were written, but %d are expected", n, len(c.leases)+len(old.leases))
	}
	if n := s.Summary().Newest; int64(n) != c.revision {
		return 0, fmt.Errorf("the written snapshot has revision %d, not %d", n, c.revision)
	}
	return s.Summary().Newest, nil
}

// sameKey compares a v3 key with the one it was.
func sameKey(s, old *keyspace.Space, k keyspace.Key) error {
	now, ok := s.Get(k.Key)
	if !ok || now.ModRevision != k.ModRevision || now.CreateRevision != k.CreateRevision || now.Version != k.Version ||
		now.Lease != k.Lease {
		return fmt.Errorf("v3 key %q was not written as it was", k.Key)
	}
	a, err1 := old.Value(k, nil)
	b, err2 := s.Value(now, nil)
	if err := errors.Join(err1, err2); err != nil || string(a) != string(b) {
		return errors.Join(fmt.Errorf("v3 key %q was written with another value", k.Key), err)
	}
	return nil
}
