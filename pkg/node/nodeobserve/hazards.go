package nodeobserve

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/hazards"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

const (
	// unknownAgeLimit is how long a check that proved nothing counts, and presentAgeLimit one that has
	// found something: etcd repairs its list when it starts, and no file says so.
	unknownAgeLimit = 10 * time.Second
	presentAgeLimit = 30 * time.Second
	// Data that cannot be read is pending for unreadGrace, and is read again each retryInterval:
	// that of a member that has just been bootstrapped is not complete yet.
	unreadGrace   = 10 * time.Second
	retryInterval = time.Second
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
	// overtaken counts what makes a check that is under way old.
	overtaken int
}

// of returns what is known of the node's data, and has examine check it if there is
// something new.
func (l *dataWatch) of(dir string, s nodestate.State, disk cluster.Disk, now time.Time,
	examine Examiner,
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
		began := l.overtaken
		l.checks.Go(func() { l.check(whose, data, files, began, examine) })
	}
	return l.found
}

func (l *dataWatch) check(whose, data, files string, began int, examine Examiner) {
	found := examine(datadir.At(data))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checking = false
	if l.whose == whose && l.overtaken == began {
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
	l.overtaken++
}

// take takes over what has been found meanwhile.
func (l *dataWatch) take(found []cluster.Hazard) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.found != nil {
		l.overtaken++
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
			long = min(long, presentAgeLimit)
		case h.State == cluster.HazardUnknown:
			long = min(long, unknownAgeLimit)
		case h.State == cluster.HazardPending:
			long = min(long, retryInterval)
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

// An Examiner checks a member's data for what a later version does not stand, as
// [hazards.Examine] does.
type Examiner func(datadir.Dir) []cluster.Hazard
