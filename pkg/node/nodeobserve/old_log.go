package apply

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/hazards"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

const (
	// snapshotDeadline is how long a raft snapshot may take to force: etcd takes one
	// every 10 000 entries, and before 3.6 every 100 000, or as many as the operator's own
	// setting says. Who does not come to its end goes on with the next order.
	snapshotDeadline = 5 * time.Minute
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

// take takes over what has been found meanwhile.
func (w *logWatch) take(token cluster.Token, found []cluster.Hazard) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.token, w.found = token, cluster.HazardOf(found, cluster.HazardOldLog)
}

// settledBefore reports whether all members run this one's minor version, and the next
// one cannot read what the one before has written.
func settledBefore(s nodestate.State) bool {
	return settled(s) && slices.Contains(cluster.HazardsBefore(nextMinor(s)), cluster.HazardOldLog)
}

// settled reports whether all members run this one's minor version, or did.
func settled(s nodestate.State) bool {
	if s.Assigned == nil {
		return false
	}
	v, seen := s.Assigned.Version, s.DataVersion()
	return seen.Major == v.Major && seen.Minor == v.Minor
}

func nextMinor(s nodestate.State) etcdversion.Version {
	return etcdversion.Version{Major: s.Assigned.Version.Major, Minor: s.Assigned.Version.Minor + 1}
}

func (l *Local) examineData(s nodestate.State) []cluster.Hazard {
	return l.o.examine(datadir.At(nodestate.DataDir(l.o.DataDir, s.Assigned.Token)))
}

func (l *Local) examineLog(s nodestate.State) cluster.Hazard {
	return cluster.HazardOf(l.examineData(s), cluster.HazardOldLog)
}

// forceSnapshot has the member take a raft snapshot: etcd does by itself, after so many
// entries. The entries that are proposed for it change nothing, neither a key nor the
// revision. Killed at any time, the member has some of them more in its log, and so many
// less to come.
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
	case !settled(s) || len(cluster.HazardsBefore(nextMinor(s))) == 0:
		return refuse("the members do not all run the minor version of etcd %s, or nothing needs it", s.Assigned.Version)
	}
	c, err := l.etcd(s)
	if err != nil {
		return err
	}
	defer l.forced.Store(0)
	f := Forcing{
		To: nextMinor(s), Examine: func() []cluster.Hazard { return l.examineData(s) },
		Files: func() string { return hazards.Files(datadir.At(nodestate.DataDir(l.o.DataDir, s.Assigned.Token))) },
	}
	propose := func(ctx context.Context, n int) error {
		err := c.Propose(ctx, n)
		if err == nil {
			l.forced.Add(int64(n))
		}
		crashpoint.Hit("member-force-snapshot.after-propose")
		return err
	}
	if _, err = ForceSnapshot(ctx, f.Left, propose); err != nil {
		return fmt.Errorf("%w (%d entries have been proposed)", err, l.forced.Load())
	}
	if settledBefore(s) {
		l.logs.take(s.Assigned.Token, f.found)
	}
	l.hazards.take(f.found)
	return nil
}

// ForceSnapshot proposes entries without effect to a member until nothing is left of what
// a raft snapshot is to take away, which examine looks for. It returns what was found last.
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
			err = wait.For(ctx, changeInterval)
		}
		if err != nil {
			return found, fmt.Errorf("have the member take a raft snapshot: %s: %w", found, err)
		}
	}
}

// withProgress adds to what a raft snapshot is to take away how far that is.
func (l *Local) withProgress(list []cluster.Hazard) []cluster.Hazard {
	n := l.forced.Load()
	if n == 0 {
		return list
	}
	list = slices.Clone(list)
	for i, h := range list {
		if h.BySnapshot() {
			list[i].What += fmt.Sprintf("; for a raft snapshot %d entries have been proposed", n)
		}
	}
	return list
}

// A Forcing looks for what a raft snapshot is to take away before a change to version To. The
// log may have some hundred MB: it is read when there are other files, and once more.
type Forcing struct {
	To etcdversion.Version
	// Examine checks the member's data, Files names the files of its log and raft snapshots.
	Examine func() []cluster.Hazard
	Files   func() string

	files string
	again bool
	found []cluster.Hazard
}

// Left returns what is still there.
func (f *Forcing) Left() cluster.Hazard {
	files := f.Files()
	if changed := files != f.files; changed || f.again {
		f.found, f.files, f.again = f.Examine(), files, changed
	}
	left := cluster.Hazard{State: cluster.HazardAbsent}
	for _, h := range cluster.HazardsIn(f.found, f.To) {
		switch {
		case h.BySnapshot():
			return h
		case h.Kind == cluster.HazardOldLog || h.Kind == cluster.HazardV2Log:
			left, f.again = h, true // it is unknown
		}
	}
	return left
}
