package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/nodestate"
)

// A member's data is compared with that of the others. docs/design.md says
// when, by whom and why.
const (
	// servesTimeout bounds the question whether peers serve, which a start waits
	// for.
	servesTimeout = 300 * time.Millisecond
	// digestTimeout bounds one digest. etcd reads about 0.7 GB in a second.
	digestTimeout = time.Minute
	// Between two tries to compare a member that has just started.
	firstCompare = 20 * time.Millisecond
	lastCompare  = 5 * time.Second
	// dutyCycle keeps a member that cannot be compared from reading its database all
	// the time.
	dutyCycle = 20
	// comparePeriod is how often it is seen whether the cluster has been compacted,
	// and with it a digest made for nothing.
	comparePeriod = time.Minute
	compareTick   = time.Second
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
	// disputed says with whom the member disagrees where no majority decides.
	disputed string
}

// end stops the comparison, and waits for it until ctx ends.
func (c *comparer) end(ctx context.Context) {
	c.mu.Lock()
	stop, done := c.stop, c.done
	c.stop, c.done, c.disputed = nil, nil, ""
	c.mu.Unlock()
	if stop != nil {
		stop()
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
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

// differs returns what is known against the data of the assigned member, "" for
// nothing.
func differs(s nodestate.State) string {
	if d := s.Differs; d != nil && s.Assigned != nil && d.Token == s.Assigned.Token && d.MemberID == s.MemberID {
		return d.Text
	}
	return ""
}

// before returns what is done before each start of etcd. It chooses who
// compares the member. Where the cluster serves without it, etcd does, before it
// serves anybody, however long that takes. Where the cluster needs it, etcd would
// wait seven seconds for each other one that waits in the same way, and then
// serve uncompared: the node compares it while etcd looks for a leader.
func (l *Local) before(ctx context.Context, compared []string) func() ([]string, error) {
	// The process is started again long after the order has ended. What asks
	// others has deadlines of its own.
	ctx = context.WithoutCancel(ctx)
	return func() ([]string, error) {
		if err := l.clearCutOff(); err != nil {
			return nil, err
		}
		s := l.o.State.State()
		if text := differs(s); text != "" {
			return nil, &DiffersError{text}
		}
		byEtcd := l.servedWithout(ctx, s)
		if byEtcd && l.refusedByEtcd() {
			var err error
			if byEtcd, err = l.refusal(ctx, s); err != nil {
				return nil, err
			}
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
	return slices.ContainsFunc(l.o.Proc.Status().LastLines, func(line string) bool { return strings.Contains(line, inconsistent) })
}

// refusal is asked where etcd has found that the member's data is not that of
// some other one. etcd does not ask which of the two is wrong: it would keep a
// good member down beside a bad one. If a majority of the voters serves, and all
// that serve agree, this member is wrong, which is an error. Otherwise it is to
// start, and be compared by the node.
func (l *Local) refusal(ctx context.Context, s nodestate.State) (byEtcd bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, digestTimeout)
	defer cancel()
	p, err := l.peer(s)
	if err != nil {
		return true, nil
	}
	defer p.Close()
	others := slices.DeleteFunc(slices.Clone(s.Voters), func(v cluster.Seat) bool { return v.Name == l.o.Name })
	voices := alignedDigests(ctx, p, others)
	if len(voices) == 0 {
		return true, nil
	}
	agreement, unlike := cluster.Compare(len(s.Voters), voices[0].Digest, true, voices[1:])
	if agreement != cluster.Agrees {
		return agreement == cluster.Unsettled, nil
	}
	if len(unlike) > 0 {
		return false, nil
	}
	var names []cluster.NodeName
	for _, v := range voices {
		names = append(names, v.Name)
	}
	text := fmt.Sprintf("etcd found that its data is not that of its peers, and %s agree at revision %d", list(names), voices[0].Revision)
	if err := l.condemn(s, text); err != nil {
		return true, err
	}
	return true, &DiffersError{text}
}

// servedWithout reports whether a majority of the voters serves its peers, this
// node's member not counted.
func (l *Local) servedWithout(ctx context.Context, s nodestate.State) bool {
	voters := s.Voters
	if len(voters) == 0 {
		voters = s.Peers
	}
	p, err := l.peer(s)
	if err != nil || len(voters) < 2 {
		return false
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(ctx, servesTimeout)
	defer cancel()
	others := slices.DeleteFunc(slices.Clone(voters), func(v cluster.Seat) bool { return v.Name == l.o.Name })
	served := ask(others, func(v cluster.Seat) (cluster.NodeName, error) {
		return v.Name, anyURL(v.PeerURLs, func(u string) error { return p.Serves(ctx, u) })
	})
	return len(served) >= cluster.Quorum(len(voters))
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
	pid, settled, wait := 0, false, firstCompare
	var compacted cluster.Revision
	var next time.Time
	for ctx.Err() == nil {
		if now := l.o.Proc.Status().PID; now != pid {
			// Also one that etcd has compared: up to 3.5 it compares with nobody before
			// the first raft snapshot, from which it learns who its peers are, and in no
			// version with those that have compacted what it has.
			pid, wait = now, firstCompare
			settled, next = false, time.Time{}
		}
		switch {
		case pid == 0:
			wait = min(2*wait, compareTick)
		case !settled:
			began := time.Now()
			settled = l.compareAt(ctx, 0)
			wait = max(min(2*wait, lastCompare), dutyCycle*time.Since(began))
		default:
			if now := time.Now(); now.After(next) {
				next = now.Add(comparePeriod)
				compacted = l.compareCompacted(ctx, compacted)
			}
			wait = compareTick
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
}

// compareCompacted compares the digests that members have kept of the last
// compaction, if it is later than last, and returns its revision.
func (l *Local) compareCompacted(ctx context.Context, last cluster.Revision) cluster.Revision {
	s := l.o.State.State()
	if s.Assigned == nil || !s.Assigned.Version.AtLeast(3, 5) {
		return last
	}
	c, err := l.etcd(s)
	if err != nil {
		return last
	}
	at, err := c.Compacted(ctx)
	if err != nil || at <= last || !l.compareAt(ctx, at) {
		return last
	}
	return at
}

// compareAt compares the member with the others at a revision, zero for its own
// present one. It reports whether a majority was found, on
// whatever side. A difference counts when it is seen twice: the second time at
// the same revision, which no write changes.
func (l *Local) compareAt(ctx context.Context, at cluster.Revision) bool {
	s := l.o.State.State()
	if s.Assigned == nil || differs(s) != "" {
		return false
	}
	c, err := l.collect(ctx, s, at)
	if err == nil && c.agreement == cluster.Differs {
		c, err = l.collect(ctx, s, c.own.Revision)
	}
	if err != nil {
		return false
	}
	switch c.agreement {
	case cluster.Agrees:
		l.comparer.dispute("")
		return true
	case cluster.Disputed:
		l.comparer.dispute(fmt.Sprintf("its data is not that of %s at revision %d, and no majority of the %d voters says which is right",
			list(c.unlike), c.own.Revision, c.voters))
	case cluster.Differs:
		l.fence(ctx, s, c)
		return true
	}
	return false
}

// fence ends the member's process at once, and writes down that its data is
// wrong, so that it is never started again.
func (l *Local) fence(ctx context.Context, s nodestate.State, c comparison) {
	if err := l.take(ctx); err != nil {
		return
	}
	defer l.leave()
	// It gets no time to end, in which it would serve. That comes first: a disk
	// that is wrong may be slow too. Where the process cannot be stopped before ctx
	// ends, the supervisor goes on trying.
	_ = l.o.Proc.StopWithin(ctx, 0)
	// What cannot be written down is found again after the next start.
	_ = l.condemn(s, fmt.Sprintf("its data is not that of %s, a majority, at revision %d", list(c.unlike), c.own.Revision))
	// The supervisor tells why it does not run.
	_ = l.spawn(ctx, l.o.State.State(), etcdconf.StateExisting)
}

// condemn writes down what is known against the member that s tells of.
func (l *Local) condemn(s nodestate.State, text string) error {
	return l.o.State.Update(func(now *nodestate.State) error {
		if now.Assigned == nil || now.Assigned.Token != s.Assigned.Token || now.MemberID != s.MemberID {
			return refuse("the node runs another member now")
		}
		now.Differs = &nodestate.Differs{Token: now.Assigned.Token, MemberID: now.MemberID, Text: text}
		return nil
	})
}
