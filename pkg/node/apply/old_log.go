package apply

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/hazards"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

const (
	// snapshotDeadline is how long a raft snapshot may take to force: etcd takes one
	// every 10 000 entries, or as many as the operator's own setting says.
	snapshotDeadline = 2 * time.Minute
	// proposals is how many entries are proposed between two checks.
	proposals = 1000
	// logPeriod is how often a log is read that still has old entries.
	logPeriod = 5 * time.Second
)

// A logWatch looks for old entries in the member's log, in the background: the log
// may have some hundred MB.
type logWatch struct {
	mu    sync.Mutex
	token cluster.Token
	found cluster.Hazard
	at    time.Time
	busy  bool
}

// oldLog returns what is known of the member's log, and has it read where that is
// due. Nobody checks before all members run the minor version: until then others still
// write such entries. What is absent then stays so.
func (l *Local) oldLog(s nodestate.State) cluster.Hazard {
	w := &l.logs
	w.mu.Lock()
	defer w.mu.Unlock()
	if !settledBefore(s) {
		w.token, w.found, w.at = "", cluster.Hazard{}, time.Time{}
		return w.found
	}
	if w.token != s.Assigned.Token {
		w.token, w.found, w.at = s.Assigned.Token, cluster.Hazard{}, time.Time{}
	}
	if w.found.State == cluster.HazardAbsent || w.busy || time.Since(w.at) < logPeriod {
		return w.found
	}
	w.busy = true
	go func() {
		found := l.examineLog(s)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.busy, w.at = false, time.Now()
		if w.token == s.Assigned.Token {
			w.found = found
		}
	}()
	return w.found
}

// forget has the log read again: what was found has turned out to be old.
func (w *logWatch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.token = ""
}

// settledBefore reports whether all members run this one's minor version, and the next
// one cannot read what the one before has written.
func settledBefore(s nodestate.State) bool {
	if s.Assigned == nil {
		return false
	}
	v, seen := s.Assigned.Version, s.DataVersion()
	next := etcdversion.Version{Major: v.Major, Minor: v.Minor + 1}
	return seen.Major == v.Major && seen.Minor == v.Minor &&
		slices.Contains(cluster.HazardsBefore(next), cluster.HazardOldLog)
}

func (l *Local) examineLog(s nodestate.State) cluster.Hazard {
	found := l.o.examine(hazards.Dir{Data: nodestate.DataDir(l.o.DataDir, s.Assigned.Token)})
	return cluster.HazardOf(found, cluster.HazardOldLog)
}

// forceSnapshot has the member take a raft snapshot: etcd does by itself, after so many
// entries. The entries that are proposed for it change nothing, neither a key nor the
// revision. Killed at any time, the member has some of them more in its log.
func (l *Local) forceSnapshot(ctx context.Context, op *plan.MemberForceSnapshot) error {
	s := l.o.State.State()
	disk := nodestate.Disk(l.o.DataDir, s)
	switch {
	case s.Assigned == nil || disk.State != cluster.DiskData:
		return refuse("the node runs no member")
	case s.Assigned.Token != op.ExpectToken || disk.Token != op.ExpectToken:
		return &plan.StaleError{Want: "incarnation " + string(op.ExpectToken), Got: string(disk.Token)}
	case disk.MemberID != op.ExpectMemberID:
		return &plan.StaleError{Want: "member " + op.ExpectMemberID.String(), Got: disk.MemberID.String()}
	case !settledBefore(s):
		return refuse("the members do not all run the minor version of etcd %s, or nothing needs it", s.Assigned.Version)
	}
	c, err := l.etcd(s)
	if err != nil {
		return err
	}
	found, err := ForceSnapshot(ctx, func() cluster.Hazard { return l.examineLog(s) }, c.Propose)
	if err != nil {
		return err
	}
	l.logs.mu.Lock()
	defer l.logs.mu.Unlock()
	l.logs.token, l.logs.found = s.Assigned.Token, found
	return nil
}

// ForceSnapshot proposes entries without effect to a member until its log, which examine
// reads, has no old entries any more. It returns what was found last.
func ForceSnapshot(ctx context.Context, examine func() cluster.Hazard,
	propose func(ctx context.Context, n int) error) (cluster.Hazard, error) {
	for {
		found := examine()
		var err error
		switch found.State {
		case cluster.HazardAbsent:
			return found, nil
		case cluster.HazardPresent:
			err = propose(ctx, proposals)
		default: // it may be writing the snapshot
			err = wait.For(ctx, settleTick)
		}
		if err != nil {
			return found, fmt.Errorf("have the member take a raft snapshot: %s: %w", found, err)
		}
	}
}
