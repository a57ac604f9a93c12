package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdlog"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdproc"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// changeInterval is how often it is checked whether a new version serves.
const changeInterval = 100 * time.Millisecond

// A changeWatcher sees something to its end in the background, as a change of version.
type changeWatcher struct {
	mu   sync.Mutex
	stop context.CancelFunc
	done chan struct{}
}

// begin does f in the background, until it returns or is broken off. What was begun
// before is broken off.
func (s *changeWatcher) begin(ctx context.Context, f func(context.Context)) {
	s.end(ctx)
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	s.mu.Lock()
	s.stop, s.done = stop, done
	s.mu.Unlock()
	go func() {
		defer close(done)
		f(ctx)
	}()
}

// end breaks it off, and waits for it until ctx ends. The change stays recorded.
func (s *changeWatcher) end(ctx context.Context) {
	s.mu.Lock()
	stop, done := s.stop, s.done
	s.stop, s.done = nil, nil
	s.mu.Unlock()
	if stop == nil {
		return
	}
	stop()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// watchChange sees the change of version that s has to its end. There are three
// ends. The new version serves: the record goes. Its process dies again and again,
// or does not serve while the others do: the node goes back to the old version,
// and the record says why. Or that is not possible any more, because the cluster
// version has risen, or, in a downgrade, because the old version cannot run with what
// the new one has taken into the data: then the new version is tried forever, and the
// record says so.
func (l *Local) watchChange(ctx context.Context, s nodestate.State) {
	if c := s.Changing(); c == nil || c.Back {
		return
	}
	l.changes.begin(ctx, func(ctx context.Context) {
		since := time.Now()
		for ctx.Err() == nil && l.unsettled(ctx, &since) {
			_ = wait.For(ctx, changeInterval)
		}
	})
}

// unsettled observes once how the new version does, and does what follows from it. It
// reports whether there is more to do. Time in which too few others answer does not count:
// when they come back, the new version has all of it to come up.
func (l *Local) unsettled(ctx context.Context, since *time.Time) bool {
	s := l.o.State.State()
	c := s.Changing()
	if c == nil || s.Assigned.Stopped {
		return false
	}
	status := l.o.Proc.Status()
	now := cluster.Attempt{Process: status.State, Restarts: status.Restarts, Serves: l.observer.Serves(ctx, s)}
	now.Overdue = time.Since(*since) > l.o.startTimeout && !now.Serves
	if now.Overdue && l.observer.LacksMajority(ctx, s) {
		now.Overdue, *since = false, time.Now()
	}
	switch c.Judge(now) {
	case cluster.VerdictStart:
		return l.exclusively(ctx, func() bool { return l.startAgain(ctx) })
	case cluster.VerdictDone:
		return l.exclusively(ctx, l.forgetChange)
	case cluster.VerdictBack:
		return l.exclusively(ctx, func() bool { return l.revert(ctx, lastWords(status)) })
	}
	return true
}

// exclusively does f while no operation runs.
func (l *Local) exclusively(ctx context.Context, f func() bool) bool {
	if l.take(ctx) != nil {
		return true
	}
	defer l.leave()
	return f()
}

// forgetChange ends a change that has succeeded. It is called while no operation runs, and so is
// what follows.
func (l *Local) forgetChange() bool {
	crashpoint.Hit("member-change-version.before-end")
	err := l.o.State.Update(nodestate.EndChange)
	crashpoint.Hit("member-change-version.after-end")
	return err != nil
}

// startAgain starts what the record says where nothing runs.
func (l *Local) startAgain(ctx context.Context) bool {
	s := l.o.State.State()
	c := s.Changing()
	if c == nil || s.Assigned.Stopped {
		return false
	}
	if status := l.o.Proc.Status(); status.State != cluster.ProcessStopped && !c.Back {
		return true
	}
	err := l.rerun(ctx, s, etcdconf.StateExisting)
	if missing := new(etcdbin.NotFoundError); errors.As(err, &missing) && c.Pending() {
		return l.revert(ctx, err.Error())
	}
	return err != nil || !c.Back
}

// revert goes back to the old version, or says that this is not possible any
// more. The new version is stopped first: only then it is certain what the data
// has become. Killed before the record, the node tries the new version again.
func (l *Local) revert(ctx context.Context, words string) bool {
	s := l.o.State.State()
	c := s.Changing()
	if !c.Pending() || s.Assigned.Stopped {
		return c != nil && !s.Assigned.Stopped
	}
	l.comparer.end(ctx)
	if err := l.o.Proc.StopWithin(ctx, stopTimeout); err != nil {
		return true
	}
	why := l.noWayBack(ctx, s, *c)
	crashpoint.Hit("version-back.before-record")
	if l.o.State.Update(nodestate.RevertChange(words, why)) != nil {
		return true
	}
	crashpoint.Hit("version-back.before-spawn")
	return l.rerun(ctx, l.o.State.State(), etcdconf.StateExisting) != nil || why != ""
}

// noWayBack says why the old version must not be started on the data, empty where
// it may. A cluster version that has risen is on the disk, or the peers know it.
func (l *Local) noWayBack(ctx context.Context, s nodestate.State, c cluster.VersionChange) string {
	data := nodestate.DataDir(l.o.DataDir, s.Assigned.Token)
	switch {
	case c.BackIsUp():
		return c.NoWayBack(s.DataVersion(), l.o.examine(datadir.At(data)))
	case c.From.AtLeast(c.To.Major, c.To.Minor):
		return ""
	}
	seen, _ := l.observer.VersionsOfOthers(ctx, s)
	// etcd has written it with everything else when it ended.
	own, err := snapshot.Peek(datadir.At(data).Database())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("the version of its data is unknown: %v", err)
	}
	if own.ClusterVersion.Compare(seen) > 0 {
		seen = own.ClusterVersion
	}
	return c.NoWayBack(seen, nil)
}

// lastWords are what etcd said at its end, in one line.
func lastWords(status etcdproc.Status) string {
	words := status.LastExit
	if words == "" {
		words = "it does not serve"
	}
	if cause := etcdlog.Cause(status.LastLines); cause != "" {
		words += ": " + cause
	}
	return words
}
