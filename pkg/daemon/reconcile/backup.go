package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// A backup is one that is taken, or inspected, beside the loop: that may take as
// long as the database is large and the store is slow, and a member that fails in
// the meantime shall not have to wait for it.
type backup struct {
	line         string
	term         cluster.Term // in which it began
	began, ended time.Time
	err          error
	// node takes it, and cancel breaks it off.
	node   cluster.NodeName
	cancel context.CancelCauseFunc
	// done is closed when ended and err are set.
	done chan struct{}
}

// startBackup begins a backup. There is one at a time: while it runs, the plan
// knows of it and proposes no other.
func (l *Loop) startBackup(ctx context.Context, r Report, op plan.Operation) {
	b := &backup{line: plan.Line(op), began: l.o.Now(), done: make(chan struct{})}
	b.term = l.term(r.Observation)
	b.node, _ = plan.Target(op)
	ctx, b.cancel = context.WithCancelCause(ctx)
	l.backup = b
	go func() {
		defer close(b.done)
		defer b.cancel(nil)
		b.err = l.o.Do(ctx, r.Spec, r.Observation, op)
		b.ended = l.o.Now()
	}()
}

// backupEnded is closed when the backup under way has ended; nil for none.
func (l *Loop) backupEnded() <-chan struct{} {
	if l.backup == nil {
		return nil
	}
	return l.backup.done
}

// errDiskHangs is why a backup is broken off.
var errDiskHangs = errors.New("the disk of the node that takes the backup hangs")

// check breaks the backup off where its node's disk hangs: it would end when
// nothing has moved for minutes, and steps that a backup comes before would wait
// for it, the replacement of that very member among them.
func (b *backup) check(obs cluster.Observation) {
	for _, n := range obs.Nodes {
		if n.Name == b.node && n.Reachable && n.Storage.Bad() {
			b.cancel(errDiskHangs)
		}
	}
}

// show puts a backup that is under way into the observation, and reports whether it is.
func (b *backup) show(obs *cluster.Observation) bool {
	if b == nil {
		return false
	}
	select {
	case <-b.done:
		return false
	default:
	}
	obs.BackingUp = b.line
	b.check(*obs)
	return true
}

// collectBackup puts a backup that is under way into the observation, or
// reports one that has ended. It returns true for that: the observation, which
// may be older than the end, does not show the new backup.
func (l *Loop) collectBackup(ctx context.Context, obs *cluster.Observation) bool {
	b := l.backup
	if b == nil {
		return false
	}
	if b.show(obs) {
		return false
	}
	l.backup = nil
	l.tries.note(b.line, b.err, false, b.ended)
	l.report(ctx, Report{
		Spec: l.o.Spec(), Observation: *obs,
		Done: &Done{At: b.began, Term: b.term, Line: b.line, Took: b.ended.Sub(b.began), Err: b.err},
	})
	return true
}
