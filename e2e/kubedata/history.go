package kubedata

import (
	"context"
	"math/rand/v2"
)

const (
	// historyShare is the part of the file, in percent, that came after the last
	// compaction.
	historyShare = 25
	// leaseKeys is how many keys hang on one lease; the API server uses one for
	// many events.
	leaseKeys = 500
	// firstLease is the id of the first one, as etcd makes them: large.
	firstLease = 0x70cc9e2b1a5c0100
)

// A record is what has to be remembered of an object.
type record struct {
	create  int64
	version int32
}

// A writer makes up the history.
type writer struct {
	ctx     context.Context
	store   *store
	o       Options
	rng     *rand.Rand
	sum     Summary
	rev     int64
	records [][]record
	// ttls are the leases in use by their TTL.
	ttls map[int64]*grant
	m    message
	sub  int64
}

type grant struct {
	id   int64
	keys int
}

// fill writes the objects, then the changes since the last compaction.
func fill(ctx context.Context, s *store, o Options) (Summary, error) {
	w := &writer{
		ctx: ctx, store: s, o: o, rng: rand.New(rand.NewPCG(o.Seed, 0x6b756265)), rev: 1,
		records: make([][]record, len(kinds)), ttls: map[int64]*grant{},
	}
	w.sum.Revision = w.rev
	// Where Kubernetes notes what it has compacted.
	if err := w.put(change{main: w.next(1), key: "compact_rev_key", create: 2, version: 1,
		value: []byte("1")}); err != nil {
		return Summary{}, err
	}
	w.sum.Keys++
	base := o.Bytes / 100 * (100 - historyShare)
	for w.size() < base {
		// What was compacted left gaps.
		if err := w.create(w.next(1+w.rng.Int64N(8)), w.pick(func(k *kind) int { return k.share }), true); err != nil {
			return Summary{}, err
		}
	}
	w.sum.Compacted = w.rev
	if err := s.compacted(w.rev); err != nil {
		return Summary{}, err
	}
	for w.size() < o.Bytes {
		if err := w.change(); err != nil {
			return Summary{}, err
		}
	}
	w.sum.Revision = w.rev
	return w.sum, nil
}

// size is what the file will be if it ends now.
func (w *writer) size() int64 { return w.store.size + int64(len(w.store.arena)) }

func (w *writer) next(by int64) int64 {
	w.rev += by
	w.sub = 0
	return w.rev
}

// put writes a change at the next place of the revision.
func (w *writer) put(c change) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	c.sub = w.sub
	w.sub++
	w.sum.Revisions++
	before := w.store.size
	err := w.store.put(c)
	if w.o.Progress != nil && w.store.size != before {
		w.o.Progress(w.store.size)
	}
	return err
}

// pick chooses a kind by weight.
func (w *writer) pick(weight func(*kind) int) int {
	total := 0
	for _, k := range kinds {
		total += weight(k)
	}
	n := w.rng.IntN(total)
	for i, k := range kinds {
		if n -= weight(k); n < 0 {
			return i
		}
	}
	return 0
}

// create writes a new object. One that is old has been changed before, which is
// compacted.
func (w *writer) create(rev int64, kind int, old bool) error {
	r := record{create: rev, version: 1}
	if old && w.rng.IntN(3) == 0 {
		r.version = 2 + int32(w.rng.ExpFloat64()*5)
		r.create = max(2, rev-w.rng.Int64N(rev)-1)
	}
	index := len(w.records[kind])
	w.records[kind] = append(w.records[kind], r)
	w.sum.Keys++
	return w.value(rev, kind, index)
}

// value writes an object as its record says.
func (w *writer) value(rev int64, kind, index int) error {
	k, r := kinds[kind], w.records[kind][index]
	o, rng := k.object(w.o.Seed, index, int64(r.version))
	w.m.b, w.m.rng = w.m.b[:0], rng
	k.value(&w.m, o)
	c := change{main: rev, key: o.key, create: r.create, version: int64(r.version), value: w.m.b}
	if k.ttl > 0 {
		var err error
		if c.lease, err = w.lease(k.ttl); err != nil {
			return err
		}
	}
	return w.put(c)
}

// lease returns a lease for one more key.
func (w *writer) lease(ttl int64) (int64, error) {
	g := w.ttls[ttl]
	if g == nil || g.keys == leaseKeys {
		g = &grant{id: firstLease + int64(w.sum.Leases)*3}
		w.ttls[ttl] = g
		w.sum.Leases++
		if err := w.store.lease(g.id, ttl); err != nil {
			return 0, err
		}
	}
	g.keys++
	return g.id, nil
}

// change writes what happens in one revision: an object is made, changed,
// deleted, or a lease ends and takes several keys with it.
func (w *writer) change() error {
	kind := w.pick(func(k *kind) int { return k.churn })
	rev := w.next(1)
	switch n := w.rng.IntN(1000); {
	case n < 3:
		return w.expire(rev)
	case n < 80:
		return w.delete(rev, kind, 1)
	case n < 300 || len(w.records[kind]) == 0:
		return w.create(rev, kind, false)
	}
	index := w.recent(kind)
	r := &w.records[kind][index]
	if r.version == 0 {
		w.sum.Keys++ // it was deleted, and is made again
		r.create = rev
	}
	r.version++
	return w.value(rev, kind, index)
}

// recent chooses an object, most often one of the newest.
func (w *writer) recent(kind int) int {
	n := len(w.records[kind])
	if n > 1000 && w.rng.IntN(4) > 0 {
		return n - 1 - w.rng.IntN(1000)
	}
	return w.rng.IntN(n)
}

// expire deletes some events at once.
func (w *writer) expire(rev int64) error {
	for i, k := range kinds {
		if k.name == "events" {
			return w.delete(rev, i, 2+w.rng.IntN(30))
		}
	}
	return nil
}

// delete deletes up to n neighbouring objects. Where there are none, something
// is made, so that each revision has a change.
func (w *writer) delete(rev int64, kind, n int) error {
	records := w.records[kind]
	deleted := 0
	if len(records) > 0 {
		for index := w.recent(kind); index < len(records) && deleted < n; index++ {
			if records[index].version == 0 {
				continue
			}
			records[index].version = 0
			o, _ := kinds[kind].object(w.o.Seed, index, 0)
			if err := w.put(change{main: rev, key: o.key, deleted: true}); err != nil {
				return err
			}
			w.sum.Keys--
			deleted++
		}
	}
	if deleted == 0 {
		return w.create(rev, kind, false)
	}
	return nil
}
