package apply

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/hazards"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

const (
	// lookAgain is how long a look that proved nothing counts, and lookPresent one
	// that has found something: etcd repairs its list when it starts, and no file says
	// so.
	lookAgain   = 10 * time.Second
	lookPresent = 30 * time.Second
	// fresh is how long a look counts right before a change.
	fresh = 10 * time.Second
)

// A looker looks into the member's data for what the next minor version does not
// stand: once for each set of files, beside what else the node does. Each raft
// snapshot and each 64 MB of the log is a new file.
type looker struct {
	mu    sync.Mutex
	looks sync.WaitGroup
	// files and found are of the last look; whose is the member, and what it runs.
	whose, files string
	found        []cluster.Hazard
	// looking says that a look is under way, at is when the last one began.
	looking bool
	at      time.Time
}

// of returns what is known of the node's data, and has examine look if there is
// something new.
func (l *looker) of(dir string, s nodestate.State, disk cluster.Disk, now time.Time,
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
	whose, files := fmt.Sprintf("%s %s %s", data, disk.MemberID, v), filesIn(data)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.whose != whose {
		l.whose, l.files, l.found = whose, "", pending()
	}
	if !l.looking && (l.files != files || now.Sub(l.at) >= counts(l.found) || now.Before(l.at)) {
		l.looking, l.at = true, now
		l.looks.Go(func() { l.look(whose, data, files, examine) })
	}
	return l.found
}

func (l *looker) look(whose, data, files string, examine examiner) {
	found := examine(hazards.Dir{Data: data})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looking = false
	if l.whose == whose {
		l.files, l.found = files, found
	}
}

// forget has the data looked into again: what was found has turned out to be old.
func (l *looker) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.whose = ""
}

// wait returns when no look is under way, or ctx ends: one takes as long as the
// log's files take to be read.
func (l *looker) wait(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.looks.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// counts is how long a look counts while the files stay the same. Old entries in the
// log go with a file only.
func counts(found []cluster.Hazard) time.Duration {
	long := time.Duration(math.MaxInt64)
	for _, h := range found {
		switch {
		case h.State == cluster.HazardPresent && h.Kind != cluster.HazardOldLog:
			long = min(long, lookPresent)
		case h.State == cluster.HazardUnknown:
			long = min(long, lookAgain)
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

func filesIn(data string) string {
	var all []string
	for _, pattern := range []string{"wal/*.wal", "snap/*.snap"} {
		names, _ := filepath.Glob(filepath.Join(data, "member", pattern))
		all = append(all, names...)
	}
	return strings.Join(all, " ")
}

// An examiner is [hazards.Examine], where no test has another one.
type examiner func(hazards.Dir) []cluster.Hazard

// A lastLook is the look into the data right before a change.
type lastLook struct {
	mu   sync.Mutex
	last *look
}

// A look is one into the data for a change. What it has found, and when it ended, is
// there once done is closed.
type look struct {
	line  string // of the order
	done  chan struct{}
	found []cluster.Hazard
	ended time.Time
}

// of returns what a look of a moment ago has found, or one that it begins. Who does
// not wait to its end finds it under way the next time.
func (l *lastLook) of(ctx context.Context, op *plan.MemberChangeVersion, data string, examine examiner) (
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

func (l *lastLook) begin(line, data string, examine examiner) *look {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil && l.last.line == line && !l.last.old() {
		return l.last
	}
	k := &look{line: line, done: make(chan struct{})}
	l.last = k
	go func() {
		defer close(k.done)
		k.found = examine(hazards.Dir{Data: data})
		k.ended = time.Now()
	}()
	return k
}

// forget has the next one look anew.
func (l *lastLook) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = nil
}

func (k *look) old() bool {
	select {
	case <-k.done:
		return time.Since(k.ended) > fresh
	default:
		return false
	}
}

// lookFirst looks into the data before an order for a later minor version has its
// turn: that takes as long as the log takes to be read, and by then the order may not
// count any more, or another voter may be down. Who gave it hangs up meanwhile, and
// gives it again.
func (l *Local) lookFirst(ctx context.Context, op *plan.MemberChangeVersion) error {
	if op.Node != l.o.Name || op.To.Minor <= op.ExpectVersion.Minor || len(cluster.HazardsBefore(op.To)) == 0 {
		return nil
	}
	_, err := l.lastLook.of(ctx, op, nodestate.DataDir(l.o.DataDir, op.ExpectToken), l.o.examine)
	return err
}

// stands holds a change to what is in the data now: see [cluster.Barred].
func (l *Local) stands(ctx context.Context, from etcdversion.Version, op *plan.MemberChangeVersion) error {
	found, err := l.lastLook.of(ctx, op, nodestate.DataDir(l.o.DataDir, op.ExpectToken), l.o.examine)
	if err != nil {
		return err
	}
	held := cluster.Barred(found, from, op.To, op.AcceptHazards)
	if len(held) == 0 {
		return nil
	}
	l.hazards.forget()
	l.logs.forget()
	l.lastLook.forget()
	return refuse("etcd %s cannot follow %s on this data: %s; %s", op.To, from, held[0], held[0].Cure(op.To))
}
