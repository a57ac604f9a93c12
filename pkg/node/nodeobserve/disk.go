package nodeobserve

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// DefaultDiskTimeout is how long an answer waits for the node's disks. A reading takes
// a millisecond; on a machine that is busy, some hundred.
const DefaultDiskTimeout = 500 * time.Millisecond

// hungReadTimeout is the time after which a reading that does not end says that the
// disk hangs. Writes are watched more closely, see [hostfs.DiskWatch].
const hungReadTimeout = 10 * time.Second

// Facts are what a node has on its disks, and what was seen beside that.
type Facts struct {
	Node cluster.Node
	// State is what the node remembers, empty where that was never read.
	State nodestate.State
	// Begun says that the member of a node that bootstraps has committed something.
	Begun bool
	// at is when the reading began: what was changed later may be missing.
	at time.Time
}

// A diskReader reads the facts, once at a time, in the background: whoever asks
// waits for a bounded time, and takes the last ones where the disk hangs.
type diskReader struct {
	// timeout is how long whoever asks waits.
	timeout time.Duration

	mu   sync.Mutex
	last Facts
	// known says that there is a last one.
	known bool
	// present is the reading under way, nil for none; next the one that those who
	// came meanwhile wait for: what was changed after the present one began may be
	// missing in it.
	present, next *reading
}

type reading struct {
	begun time.Time
	done  chan struct{}
	facts Facts
}

// read returns the facts of a reading that began after the call, or, where that
// takes longer than the reader's timeout, the last ones and for how long the present
// reading has been under way.
func (r *diskReader) read(ctx context.Context, now func() time.Time, do func() Facts) (
	f Facts, known bool, pending time.Duration) {
	r.mu.Lock()
	mine := r.next
	switch {
	case r.present == nil:
		mine = &reading{begun: now(), done: make(chan struct{})}
		r.present = mine
		go r.run(mine, now, do)
	case mine == nil:
		mine = &reading{done: make(chan struct{})}
		r.next = mine
	}
	r.mu.Unlock()
	timer := time.NewTimer(r.timeout)
	defer timer.Stop()
	select {
	case <-mine.done:
		return mine.facts, true, 0
	case <-timer.C:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.present != nil {
		pending = now().Sub(r.present.begun)
	}
	return r.last, r.known, pending
}

// run reads for those who wait, until nobody does.
func (r *diskReader) run(mine *reading, now func() time.Time, do func() Facts) {
	for mine != nil {
		mine.facts = do()
		mine.facts.at = mine.begun
		r.mu.Lock()
		r.last, r.known = mine.facts, true
		close(mine.done)
		mine, r.next = r.next, nil
		if mine != nil {
			mine.begun = now()
		}
		r.present = mine
		r.mu.Unlock()
	}
}

// disk returns what the node has on its disks. Where they hang it is what they
// had when they were last read, and how long ago that was; the state that is reported
// with it is empty where they never were.
func (o *Observer) disk(ctx context.Context) Facts {
	f, known, pending := o.reader.read(ctx, o.opts.Now, func() Facts { return o.read(context.WithoutCancel(ctx)) })
	if !known {
		f.Node = cluster.Node{Name: o.opts.Name, URLs: o.opts.URLs, Disk: cluster.Disk{
			State:   cluster.DiskUnreadable,
			Problem: "it has not been read yet: reading takes longer than " + o.opts.DiskTimeout.String(),
		}}
	}
	if known && pending > 0 {
		f.Node.FactsAge = max(o.opts.Now().Sub(f.at), 1)
	}
	if pending >= hungReadTimeout {
		f.Node.Storage = cluster.Storage{State: cluster.StorageHung, Path: o.opts.DataDir, Pending: pending}
	}
	return f
}

// storage returns what the watch of writes says, or, where only reading hangs,
// that.
func (o *Observer) storage(reading cluster.Storage) cluster.Storage {
	s := o.watch.Storage()
	if !s.Bad() && reading.Bad() {
		return reading
	}
	return s
}

// Storage reports how the member's disk takes writes. It takes no time.
func (o *Observer) Storage() cluster.Storage { return o.watch.Storage() }

// logDir returns a directory on the file system of the member's log: the log's
// own where that is another disk than the data directory's.
func (o *Observer) logDir() string {
	s := o.opts.State()
	if s.Assigned == nil {
		return o.opts.DataDir
	}
	wal := datadir.At(nodestate.DataDir(o.opts.DataDir, s.Assigned.Token)).Log()
	var root, log unix.Stat_t
	if unix.Stat(wal, &log) != nil || unix.Stat(o.opts.DataDir, &root) != nil || log.Dev == root.Dev {
		return o.opts.DataDir
	}
	return wal
}
