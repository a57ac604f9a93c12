package apply

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// A Restorer makes data directories of backups.
type Restorer interface {
	// Restore fetches a backup, checks all of it, and makes a data directory of
	// it, which is complete and on the disk when it returns nil. It may be called
	// again after any end. An error that is a [*RefusedError] says that this
	// will never succeed.
	Restore(ctx context.Context, o RestoreOptions) error
}

// RestoreOptions say what a [Restorer] makes.
type RestoreOptions struct {
	// Name is the member's, PeerURLs are its own.
	Name     cluster.NodeName
	PeerURLs []string
	Staged   cluster.Staged
	Bin      etcdbin.Binaries
	// Raiser are the binaries whose tool raises the revision where that of Bin cannot, the
	// zero value where the node has none.
	Raiser etcdbin.Binaries
	// Dir is for what is fetched, DataDir the directory to make; it lies in Dir.
	Dir, DataDir string
	// Progress receives how much of the snapshot has been fetched.
	Progress func(done, total int64)
}

// A RefusedError says that a backup cannot be restored, whatever one waits for.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Err }

// stage records what is to be staged, and has it done beside everything else.
// Killed anywhere, the node goes on from the record when it starts again. What
// was staged for another restore goes if the order names it: the coordinator has
// decided again. An order that does not is older than what is staged, of which
// there may be a record already.
func (l *Local) stage(ctx context.Context, op *plan.RestoreStage) error {
	if l.o.Restorer == nil {
		return refuse("this node has no backup store")
	}
	if _, err := l.o.Bin.Find(op.Version); err != nil {
		return err
	}
	if !slices.ContainsFunc(op.Voters, func(s cluster.InitialMember) bool { return s.Name == l.o.Name }) {
		return refuse("%s is not one of the voters", l.o.Name)
	}
	s := l.o.State.State()
	if s.Staged != nil && s.Staged.Token == op.Token {
		return nil
	}
	if s.Prepared != nil && s.Prepared.Token == op.Token || s.Assigned != nil && s.Assigned.Token == op.Token {
		return refuse("the node has already switched to incarnation %s", op.Token)
	}
	if s.Staged != nil && s.Staged.Token != op.Replaces {
		return &plan.StaleError{
			Want: "staged data of incarnation " + strconv.Quote(string(op.Replaces)), Got: strconv.Quote(string(s.Staged.Token)),
		}
	}
	l.stager.end(ctx)
	crashpoint.Hit("restore-stage.before")
	err := l.o.State.Update(nodestate.Stage(cluster.Staged{
		Request: op.Request, Backup: op.Backup, Token: op.Token, Version: op.Version, Voters: op.Voters,
		Revision: op.Revision,
	}))
	if err != nil {
		return err
	}
	crashpoint.Hit("restore-stage.after")
	l.resumeStaging(ctx, l.o.State.State())
	return nil
}

// changeOver leaves the incarnation that the node runs: it stops etcd, moves the
// data aside, and makes the promise to take part in the restored incarnation.
// Each step finds on the disk whether it has been done. Killed before the
// last, the node has an assignment that is stopped, and what is staged; the same
// operation goes on.
func (l *Local) changeOver(ctx context.Context, op *plan.RestoreSwitch) error {
	s := l.o.State.State()
	staged := s.Staged
	switch {
	case s.Assigned != nil && s.Assigned.Token == op.Token, s.Prepared != nil && s.Prepared.Token == op.Token:
		return nil
	case s.Assigned == nil && nodestate.Disk(l.o.DataDir, s).Token == op.Token:
		return nil // it has been there, and lost its memory of it
	case s.Assigned != nil && s.Assigned.Token != op.ExpectToken:
		return &plan.StaleError{Want: "incarnation " + string(op.ExpectToken), Got: string(s.Assigned.Token)}
	case staged != nil && staged.Token != op.Token:
		staged = nil
	case staged != nil && !staged.Ready:
		return refuse("the data of incarnation %s is not ready", op.Token)
	}
	if err := l.leaveIncarnation(ctx, s, op.Token); err != nil {
		return err
	}
	if staged != nil {
		crashpoint.Hit("restore-switch.before-lease voters")
		if err := l.o.LeaseVoter.Prepare(ctx, op.Token, cluster.InitialMemberNames(staged.Voters)); err != nil {
			return err
		}
	}
	crashpoint.Hit("restore-switch.before-promise")
	err := l.o.State.Update(nodestate.Switch(staged))
	crashpoint.Hit("restore-switch.after")
	return err
}

// switchGrace is how long etcd may take to end by itself when its data is about
// to be set aside: clients wait for what comes after.
const switchGrace = 500 * time.Millisecond

// leaveIncarnation stops etcd, and moves all data but that of token aside.
func (l *Local) leaveIncarnation(ctx context.Context, s nodestate.State, token cluster.Token) error {
	if s.Assigned != nil {
		crashpoint.Hit("restore-switch.before")
		if err := l.o.State.Update(nodestate.Stop); err != nil {
			return err
		}
		crashpoint.Hit("restore-switch.before-signal")
	}
	l.comparer.end(ctx)
	if err := l.o.Proc.StopWithin(ctx, switchGrace); err != nil {
		return err
	}
	crashpoint.Hit("restore-switch.before-aside")
	for {
		disk := nodestate.Disk(l.o.DataDir, l.o.State.State())
		switch {
		case disk.State == cluster.DiskUnreadable:
			return refuse("the disk is unreadable: %s", disk.Problem)
		case disk.State == cluster.DiskEmpty || disk.Token == token:
			return nil
		}
		if _, err := nodestate.SetAside(l.o.DataDir, disk.Token, l.o.Now()); err != nil {
			return err
		}
		crashpoint.Hit("restore-switch.after-aside")
	}
}

// discardStaged forgets what is staged, and then deletes it. Killed in between,
// the next start of the daemon deletes it.
func (l *Local) discardStaged(ctx context.Context, op *plan.RestoreDiscard) error {
	s := l.o.State.State()
	if s.Staged == nil || s.Staged.Token != op.Token {
		return nil
	}
	l.stager.end(ctx)
	crashpoint.Hit("restore-discard.before")
	if err := l.o.State.Update(nodestate.Unstage(op.Token)); err != nil {
		return err
	}
	crashpoint.Hit("restore-discard.after-record")
	return nodestate.KeepStaged(l.o.DataDir, wantedTokens(l.o.State.State())...)
}

// wantedTokens are the incarnations whose staged data the node needs.
func wantedTokens(s nodestate.State) []cluster.Token {
	var list []cluster.Token
	if s.Staged != nil {
		list = append(list, s.Staged.Token)
	}
	if s.Prepared != nil {
		list = append(list, s.Prepared.Token)
	}
	return list
}

// A stager is the one restore that a node prepares in the background.
type stager struct {
	mu   sync.Mutex
	stop context.CancelFunc
	done chan struct{}
	// token is of the restore that the rest is about.
	token       cluster.Token
	bytes, size int64
	problem     string
	refused     bool
}

// end stops what is under way, and waits for it until ctx ends: a disk may hang.
func (s *stager) end(ctx context.Context) {
	s.mu.Lock()
	stop, done := s.stop, s.done
	s.stop, s.done = nil, nil
	s.mu.Unlock()
	if stop != nil {
		stop()
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

func (s *stager) progress(done, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes, s.size = done, size
}

func (s *stager) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problem, s.refused = err.Error(), errors.As(err, new(*RefusedError))
}

// describe adds to what is on the disk what only memory knows.
func (s *stager) describe(staged *cluster.Staged) *cluster.Staged {
	if staged == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := *staged
	if s.token == staged.Token {
		c.Done, c.Total = s.bytes, s.size
		if !c.Ready {
			c.Problem, c.Refused = s.problem, s.refused
		}
	}
	return &c
}

// The pauses between two tries to stage.
const (
	firstRetryPause = time.Second
	lastRetryPause  = time.Minute
)

// resumeStaging goes on with what is to be staged, if it is not ready, and
// deletes what is left of other restores.
func (l *Local) resumeStaging(ctx context.Context, s nodestate.State) {
	if s.Staged == nil || s.Staged.Ready || l.o.Restorer == nil {
		// Old files take space, and do no other harm.
		_ = nodestate.KeepStaged(l.o.DataDir, wantedTokens(s)...)
		return
	}
	staged, done := *s.Staged, make(chan struct{})
	// It outlives the order; Close ends it.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stager.mu.Lock()
	l.stager.stop, l.stager.done, l.stager.token = stop, done, staged.Token
	l.stager.bytes, l.stager.size, l.stager.problem, l.stager.refused = 0, 0, "", false
	l.stager.mu.Unlock()
	go func() {
		defer close(done)
		l.keepStaging(ctx, staged)
	}()
}

// keepStaging tries until it succeeds, is refused, or ctx ends.
func (l *Local) keepStaging(ctx context.Context, staged cluster.Staged) {
	for pause := firstRetryPause; ; pause = min(2*pause, lastRetryPause) {
		err := l.restore(ctx, staged)
		if err == nil || ctx.Err() != nil {
			return
		}
		l.stager.failed(err)
		if errors.As(err, new(*RefusedError)) {
			return
		}
		if wait.For(ctx, pause) != nil {
			return
		}
	}
}

// restore makes the data directory, and then records that it is ready.
func (l *Local) restore(ctx context.Context, staged cluster.Staged) error {
	if err := nodestate.KeepStaged(l.o.DataDir, wantedTokens(l.o.State.State())...); err != nil {
		return err
	}
	bin, err := l.o.Bin.Find(staged.Version)
	if err != nil {
		return err
	}
	raiser, _ := l.o.Bin.Find(cluster.Raiser(l.o.Bin.Versions())) // none is no error: see [RestoreOptions]
	has, err := nodestate.Staged(l.o.DataDir, staged.Token)
	if err != nil {
		return err
	}
	if !has {
		crashpoint.Hit("restore-stage.before-restore")
		err := l.o.Restorer.Restore(ctx, RestoreOptions{
			Name: l.o.Name, PeerURLs: l.o.URLs.Peer, Staged: staged, Bin: bin, Raiser: raiser, Progress: l.stager.progress,
			Dir: nodestate.RestoreDir(l.o.DataDir, staged.Token), DataDir: nodestate.RestoredDir(l.o.DataDir, staged.Token),
		})
		if err != nil {
			return err
		}
	}
	crashpoint.Hit("restore-stage.before-ready")
	return l.o.State.Update(nodestate.StageReady(staged))
}
