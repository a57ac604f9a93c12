package apply

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// defaultDiskTimeout is how long an answer waits for the node's disks. A reading takes
// a millisecond; on a machine that is busy, some hundred.
const defaultDiskTimeout = 500 * time.Millisecond

// hungRead is the time after which a reading that does not end says that the
// disk hangs. Writes are watched more closely, see [hostfs.DiskWatch].
const hungRead = 10 * time.Second

// facts are what a node has on its disks.
type facts struct {
	node  cluster.Node
	state nodestate.State
	// begun says that the member of a node that bootstraps has committed something.
	begun bool
	// at is when the reading began: what was changed later may be missing.
	at time.Time
}

// A diskReader reads the facts, once at a time, in the background: whoever asks
// waits for a bounded time, and takes the last ones where the disk hangs.
type diskReader struct {
	// timeout is how long whoever asks waits.
	timeout time.Duration

	mu   sync.Mutex
	last facts
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
	facts facts
}

// read returns the facts of a reading that began after the call, or, where that
// takes longer than the reader's timeout, the last ones and for how long the present
// reading has been under way.
func (r *diskReader) read(ctx context.Context, now func() time.Time, do func() facts) (
	f facts, known bool, pending time.Duration) {
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
func (r *diskReader) run(mine *reading, now func() time.Time, do func() facts) {
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
func (l *Local) disk(ctx context.Context) facts {
	f, known, pending := l.reader.read(ctx, l.o.Now, func() facts { return l.read(context.WithoutCancel(ctx)) })
	if !known {
		f.node = cluster.Node{Name: l.o.Name, URLs: l.o.URLs, Disk: cluster.Disk{
			State:   cluster.DiskUnreadable,
			Problem: "it has not been read yet: reading takes longer than " + l.o.diskTimeout.String(),
		}}
	}
	if known && pending > 0 {
		f.node.FactsAge = max(l.o.Now().Sub(f.at), 1)
	}
	if pending >= hungRead {
		f.node.Storage = cluster.Storage{State: cluster.StorageHung, Path: l.o.DataDir, Pending: pending}
	}
	return f
}

// storage returns what the watch of writes says, or, where only reading hangs,
// that.
func (l *Local) storage(reading cluster.Storage) cluster.Storage {
	s := l.watch.Storage()
	if !s.Bad() && reading.Bad() {
		return reading
	}
	return s
}

// Storage reports how the member's disk takes writes. It takes no time.
func (l *Local) Storage() cluster.Storage { return l.watch.Storage() }

// logDir returns a directory on the file system of the member's log: the log's
// own where that is another disk than the data directory's.
func (l *Local) logDir() string {
	s := l.o.State.State()
	if s.Assigned == nil {
		return l.o.DataDir
	}
	wal := datadir.At(nodestate.DataDir(l.o.DataDir, s.Assigned.Token)).Log()
	var root, log unix.Stat_t
	if unix.Stat(wal, &log) != nil || unix.Stat(l.o.DataDir, &root) != nil || log.Dev == root.Dev {
		return l.o.DataDir
	}
	return wal
}
