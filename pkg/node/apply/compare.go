package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/nodeobserve"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// A member's data is compared with that of the others. docs/decisions says
// when, by whom and why.
const (
	// Between two tries to compare a member that has just started.
	firstCompareInterval = 20 * time.Millisecond
	lastCompareInterval  = 5 * time.Second
	// dutyCycle keeps a member that cannot be compared from reading its database all
	// the time.
	dutyCycle = 20
	// defaultCompareInterval is how often it is seen whether the cluster has been compacted,
	// and with it a digest made for nothing.
	defaultCompareInterval = time.Minute
	compareCheckInterval   = time.Second
	// defaultClosedCompareGrace is how long the comparison of a member that is closed to clients is
	// left to the coordinator, which compares all of a restore before it opens the first.
	defaultClosedCompareGrace = 15 * time.Second
	// compareTries bounds how often a compaction is compared whose digests were
	// not kept: each reads the whole database.
	compareTries = 3
	// defaultRecheckGrace is how long a difference must last before the member is
	// stopped for good: two readings in the same moment may both meet a state that
	// passes.
	defaultRecheckGrace = 10 * time.Second
)

// A DiffersError says that a majority of the voters holds other data than this
// node's member. The member is not started again.
type DiffersError struct{ Text string }

func (e *DiffersError) Error() string { return e.Text }

// A comparer compares the node's member in the background.
type comparer struct {
	mu   sync.Mutex
	stop context.CancelFunc
	done chan struct{}
	// disputed says with whom the member disagrees as long as it is not condemned.
	disputed string
	// settled is the process of etcd whose data has been compared, zero for none.
	settled int
	// refused says that etcd has ended the last process by its own comparison.
	refused bool
}

// end stops the comparison, and waits for it until ctx ends.
func (c *comparer) end(ctx context.Context) {
	c.mu.Lock()
	stop, done := c.stop, c.done
	c.stop, c.done, c.disputed, c.refused, c.settled = nil, nil, "", false, 0
	c.mu.Unlock()
	if stop != nil {
		stop()
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

// refusedAgain notes whether etcd has ended the last process by its own
// comparison, and reports whether that was so the time before, too.
func (c *comparer) refusedAgain(refused bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	again := refused && c.refused
	c.refused = refused
	return again
}

func (c *comparer) dispute(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disputed = text
}

func (c *comparer) disputes() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.disputed
}

// settle notes that the data of an etcd process has been compared.
func (c *comparer) settle(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settled = pid
}

// compares reports whether the data of an etcd process is still to be compared.
func (c *comparer) compares(pid int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return pid != 0 && c.settled != pid
}

// before returns what is done before each start of etcd. It chooses who
// compares the member. Where the cluster serves without it, etcd does, before it
// serves anybody, however long that takes. Where the cluster needs it, etcd would
// wait seven seconds for each other one that waits in the same way, and then
// serve uncompared: the node compares it while etcd looks for a leader.
func (l *Local) before(path string, compared []string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		if err := l.clearCutOff(); err != nil {
			return nil, err
		}
		s := l.o.State.State()
		if text := nodeobserve.Differs(s); text != "" {
			return nil, &DiffersError{text}
		}
		if err := l.rightBinary(ctx, path, s); err != nil {
			return nil, err
		}
		byEtcd := !l.agreed() && l.observer.ServedWithout(ctx, s)
		refused := byEtcd && l.refusedByEtcd()
		switch again := l.comparer.refusedAgain(refused); {
		case again:
			byEtcd = false
			if err := l.refusal(ctx, s); err != nil {
				return nil, err
			}
		case refused:
			// As for the node's own comparison, one reading is not enough.
			_ = wait.For(ctx, l.o.recheck)
			byEtcd = l.observer.ServedWithout(ctx, s)
		}
		if byEtcd {
			return compared, nil
		}
		return nil, nil
	}
}

// inconsistent is in the last lines of an etcd that has compared itself with its
// peers and found a difference.
const inconsistent = "found data inconsistency with peers"

// refusedByEtcd reports whether that ended the last process.
func (l *Local) refusedByEtcd() bool {
	return slices.ContainsFunc(l.o.Proc.Status().LastLines, func(line string) bool {
		return strings.Contains(line, inconsistent)
	})
}

// refusal is asked where etcd has found twice that the member's data is not that
// of some other one. etcd does not ask which of the two is wrong: it would keep a
// good member down beside a bad one. Where the others agree, this member is wrong,
// which is an error. Otherwise it is to start, and be compared by the node: etcd would
// find the same again and again.
func (l *Local) refusal(ctx context.Context, s nodestate.State) error {
	text := l.observer.OthersAgree(ctx, s)
	if text == "" {
		return nil
	}
	if err := l.recordDifference(s, text); err != nil {
		return err
	}
	return &DiffersError{text}
}

// compareAlways compares the member for as long as its configuration is kept
// running: after each start by the node, and then with each compaction.
func (l *Local) compareAlways(ctx context.Context) {
	// It outlives the order; the next start or Close ends it.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	l.comparer.mu.Lock()
	l.comparer.stop, l.comparer.done = stop, done
	l.comparer.mu.Unlock()
	go func() {
		defer close(done)
		l.compareLoop(ctx)
	}()
}

func (l *Local) compareLoop(ctx context.Context) {
	pid, settled, pause := 0, false, firstCompareInterval
	var kept compaction
	var next, began time.Time
	for ctx.Err() == nil {
		if now := l.o.Proc.Status().PID; now != pid {
			// Also one that etcd has compared: up to 3.5 it compares with nobody before
			// the first raft snapshot, from which it learns who its peers are, and in no
			// version with those that have compacted what it has.
			pid, pause = now, firstCompareInterval
			settled, next, began = false, time.Time{}, time.Now()
		}
		var changed <-chan struct{}
		switch {
		case pid == 0:
			pause, changed = min(2*pause, compareCheckInterval), l.o.Proc.Changed()
		case !settled && l.leftToCoordinator(began):
			pause, changed = min(compareCheckInterval, l.o.closedCompare), l.o.Proc.Changed()
		case !settled:
			var c nodeobserve.Comparison
			if c, settled = l.compareAt(ctx, 0); settled && l.o.Proc.Status().PID == pid {
				l.comparer.settle(pid)
			}
			// Of that one and of those before it, no process that has started since has
			// kept a digest.
			kept = compaction{done: c.Compacted}
			pause = max(min(2*pause, lastCompareInterval), dutyCycle*c.Took)
		default:
			if now := time.Now(); !now.Before(next) {
				next = now.Add(l.o.comparePeriod)
				l.compareCompacted(ctx, &kept)
			}
			pause, changed = time.Until(next), l.o.Proc.Changed()
		}
		_ = wait.Until(ctx, pause, changed)
	}
}

// A compaction is how far the comparison of compactions is.
type compaction struct {
	// done is the last one that needs no comparison any more, tried the one that
	// has been compared tries times, and not been settled.
	done, tried cluster.Revision
	tries       int
}

// compareCompacted compares the digests that members have kept of the last
// compaction, if it is a new one.
func (l *Local) compareCompacted(ctx context.Context, k *compaction) {
	s := l.o.State.State()
	if s.Assigned == nil || !s.Assigned.Version.AtLeast(3, 5) {
		return
	}
	c, err := l.observer.Etcd(s)
	if err != nil {
		return
	}
	if at, err := c.Compacted(ctx); err == nil && at > k.done {
		l.compareCompaction(ctx, k, at)
	}
}

// compareCompaction compares the compaction at a revision. A member may have
// kept no digest of it: it has started since, was sent the data, or is not through
// with it.
func (l *Local) compareCompaction(ctx context.Context, k *compaction, at cluster.Revision) {
	c, settled := l.compareAt(ctx, at)
	if k.tried != at {
		k.tried, k.tries = at, 0
	}
	if c.Remade {
		k.tries++
	}
	if settled || k.tries >= compareTries {
		k.done = at
	}
}

// compareAt compares the member with the others at a revision, zero for its own
// present one. It reports whether a majority was found, on whatever side. A
// difference counts when it is seen twice, with some time in between: the second
// time at the same revision, which no write changes.
func (l *Local) compareAt(ctx context.Context, at cluster.Revision) (nodeobserve.Comparison, bool) {
	s := l.o.State.State()
	if s.Assigned == nil || nodeobserve.Differs(s) != "" {
		return nodeobserve.Comparison{}, false
	}
	c, err := l.observer.Compare(ctx, s, at)
	if err == nil && c.Agreement == cluster.Differs {
		l.comparer.dispute(fmt.Sprintf("its data differs from that of %s, a majority, at revision %d; it will be stopped if that is "+
			"still so in %s",
			c.UnlikeText(), c.Own.Revision, l.o.recheck))
		_ = wait.For(ctx, l.o.recheck)
		first := c
		c, err = l.observer.Compare(ctx, s, c.Own.Revision)
		c.Compacted = first.Compacted
	}
	if err != nil {
		return c, false
	}
	switch c.Agreement {
	case cluster.Agrees:
		l.comparer.dispute("")
		return c, true
	case cluster.Disputed:
		l.comparer.dispute(fmt.Sprintf("its data differs from that of %s at revision %d, and no majority of the %d voters with "+
			"the same etcd version shows which is right",
			c.UnlikeText(), c.Own.Revision, c.Voters))
	case cluster.Differs:
		return c, l.fence(ctx, s, c)
	}
	return c, false
}

// fence ends the member's process at once, and writes down that its data is
// wrong, so that it is never started again. s is what was compared: an order may
// have come between, and then it does nothing and returns false.
func (l *Local) fence(ctx context.Context, s nodestate.State, c nodeobserve.Comparison) bool {
	if err := l.take(ctx); err != nil {
		return false
	}
	defer l.leave()
	if now := l.o.State.State(); ctx.Err() != nil || !now.SameMember(s) || now.Assigned.Stopped {
		return false
	}
	// It gets no time to end, in which it would serve. That comes first: a disk
	// that is wrong may be slow too. Where the process cannot be stopped before ctx
	// ends, the supervisor goes on trying.
	_ = l.o.Proc.StopWithin(ctx, 0)
	// What cannot be written down is found again after the next start.
	_ = l.recordDifference(s, fmt.Sprintf("its data differs from that of %s, a majority, at revision %d", c.UnlikeText(), c.Own.Revision))
	// The supervisor reports why it does not run.
	_ = l.spawn(ctx, l.o.State.State(), etcdconf.StateExisting, spawnOptions{})
	return true
}

// recordDifference writes down what is known against the member that s names.
func (l *Local) recordDifference(s nodestate.State, text string) error {
	return l.o.State.Update(nodestate.RecordDifference(s, text, refuse("the node now runs another member")))
}
