package apply

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/hazards"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

const (
	// unknownFor is how long a check that proved nothing counts, and presentFor one that has
	// found something: etcd repairs its list when it starts, and no file says so.
	unknownFor = 10 * time.Second
	presentFor = 30 * time.Second
	// Data that cannot be read is pending for unreadGrace, and is read again each retryPeriod:
	// that of a member that has just been bootstrapped is not complete yet.
	unreadGrace = 10 * time.Second
	retryPeriod = time.Second
	// fresh is how long a check counts right before a change.
	fresh = 10 * time.Second
)

// A dataWatch checks the member's data for what the next minor version does not
// stand: once for each set of files, beside what else the node does. Each raft
// snapshot and each 64 MB of the log is a new file.
type dataWatch struct {
	mu     sync.Mutex
	checks sync.WaitGroup
	// files and found are of the last check; whose is the member, and what it runs.
	whose, files string
	found        []cluster.Hazard
	// checking says that a check is under way, at is when the last one began.
	checking bool
	at       time.Time
	// unread is when the data could not be read for the first time, zero if it could be last.
	unread time.Time
}

// of returns what is known of the node's data, and has examine check it if there is
// something new.
func (l *dataWatch) of(dir string, s nodestate.State, disk cluster.Disk, now time.Time,
	examine examiner,
) []cluster.Hazard {
	if s.Assigned == nil || disk.State != cluster.DiskData || disk.Token != s.Assigned.Token {
		return nil
	}
	v := s.Assigned.Version
	if len(cluster.HazardsBefore(etcdversion.Version{Major: v.Major, Minor: v.Minor + 1})) == 0 {
		return nil
	}
	data := nodestate.DataDir(dir, disk.Token)
	whose, files := fmt.Sprintf("%s %s %s", data, disk.MemberID, v), hazards.Files(datadir.At(data))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.whose != whose {
		l.whose, l.files, l.found, l.unread = whose, "", pending(), time.Time{}
	}
	if !l.checking && (l.files != files || now.Sub(l.at) >= counts(l.found) || now.Before(l.at)) {
		l.checking, l.at = true, now
		l.checks.Go(func() { l.check(whose, data, files, examine) })
	}
	return l.found
}

func (l *dataWatch) check(whose, data, files string, examine examiner) {
	found := examine(datadir.At(data))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checking = false
	if l.whose == whose {
		l.files, l.found = files, l.judge(found)
	}
}

// judge returns what a check has found, where what it could not read is pending at first.
func (l *dataWatch) judge(found []cluster.Hazard) []cluster.Hazard {
	unknown := func(h cluster.Hazard) bool { return h.State == cluster.HazardUnknown }
	if !slices.ContainsFunc(found, unknown) {
		l.unread = time.Time{}
		return found
	}
	if l.unread.IsZero() {
		l.unread = l.at
	}
	if l.at.Sub(l.unread) >= unreadGrace {
		return found
	}
	found = slices.Clone(found)
	for i, h := range found {
		if unknown(h) {
			found[i].State, found[i].What = cluster.HazardPending, "the node checks again: "+h.What
		}
	}
	return found
}

// forget has the data checked again: what was found has turned out to be old.
func (l *dataWatch) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.whose = ""
}

// take takes over what has been found meanwhile.
func (l *dataWatch) take(found []cluster.Hazard) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.found != nil {
		l.found = l.judge(found)
	}
}

// wait returns when no check is under way, or ctx ends: one takes as long as the
// log's files take to be read.
func (l *dataWatch) wait(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.checks.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// counts is how long a check counts while the files stay the same. Old entries in the
// log go with a file only.
func counts(found []cluster.Hazard) time.Duration {
	long := time.Duration(math.MaxInt64)
	for _, h := range found {
		switch {
		case h.State == cluster.HazardPresent && h.Kind != cluster.HazardOldLog:
			long = min(long, presentFor)
		case h.State == cluster.HazardUnknown:
			long = min(long, unknownFor)
		case h.State == cluster.HazardPending:
			long = min(long, retryPeriod)
		}
	}
	return long
}

func pending() []cluster.Hazard {
	list := cluster.NoHazards()
	for i := range list {
		list[i].State, list[i].What = cluster.HazardPending, "the node is still checking"
	}
	return list
}

// An examiner is [hazards.Examine], where no test has another one.
type examiner func(datadir.Dir) []cluster.Hazard

// A lastCheck is the check of the data right before a change.
type lastCheck struct {
	mu   sync.Mutex
	last *dataCheck
}

// A dataCheck is one of the data for a change. What it has found, and when it ended, is
// there once done is closed.
type dataCheck struct {
	line  string // of the order
	done  chan struct{}
	found []cluster.Hazard
	ended time.Time
}

// of returns what a check of a moment ago has found, or one that it begins. Who does
// not wait to its end finds it under way the next time.
func (l *lastCheck) of(ctx context.Context, op *plan.MemberChangeVersion, data string, examine examiner) (
	[]cluster.Hazard, error,
) {
	k := l.begin(plan.Line(op), data, examine)
	select {
	case <-k.done:
		return k.found, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("check the member's data: %w", context.Cause(ctx))
	}
}

func (l *lastCheck) begin(line, data string, examine examiner) *dataCheck {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil && l.last.line == line && !l.last.old() {
		return l.last
	}
	k := &dataCheck{line: line, done: make(chan struct{})}
	l.last = k
	go func() {
		defer close(k.done)
		k.found = examine(datadir.At(data))
		k.ended = time.Now()
	}()
	return k
}

// forget has the next one check again.
func (l *lastCheck) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = nil
}

func (k *dataCheck) old() bool {
	select {
	case <-k.done:
		return time.Since(k.ended) > fresh
	default:
		return false
	}
}

// checkFirst checks the data before an order for a later minor version takes the
// semaphore: that takes as long as the log takes to be read, and by then the order may not
// count any more, or another voter may be down. Who gave it hangs up meanwhile, and
// gives it again.
func (l *Local) checkFirst(ctx context.Context, op *plan.MemberChangeVersion) error {
	if op.Node != l.o.Name || op.To.Minor <= op.ExpectVersion.Minor || len(cluster.HazardsBefore(op.To)) == 0 {
		return nil
	}
	_, err := l.lastCheck.of(ctx, op, nodestate.DataDir(l.o.DataDir, op.ExpectToken), l.o.examine)
	return err
}

// checkHazards holds a change to what is in the data now: see [cluster.Barred].
func (l *Local) checkHazards(ctx context.Context, from etcdversion.Version, op *plan.MemberChangeVersion) error {
	found, err := l.lastCheck.of(ctx, op, nodestate.DataDir(l.o.DataDir, op.ExpectToken), l.o.examine)
	if err != nil {
		return err
	}
	held := cluster.Barred(found, from, op.To, op.AcceptHazards)
	if len(held) == 0 {
		return nil
	}
	l.hazards.forget()
	l.logs.forget()
	l.lastCheck.forget()
	return refuse("etcd %s cannot follow %s on this data: %s; %s", op.To, from, held[0], held[0].Fix(op.To))
}
