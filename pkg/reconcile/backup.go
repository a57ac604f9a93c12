package reconcile

import (
	"context"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/plan"
)

// A backup is one that is taken, or inspected, beside the loop: that may take as
// long as the database is large and the store is slow, and a member that fails in
// the meantime shall not have to wait for it.
type backup struct {
	line         string
	began, ended time.Time
	err          error
	// done is closed when ended and err are set.
	done chan struct{}
}

// startBackup begins a backup. There is one at a time: while it runs, the plan
// knows of it and proposes no other.
func (l *Loop) startBackup(ctx context.Context, r Report, op plan.Operation) {
	b := &backup{line: plan.Line(op), began: l.o.Now(), done: make(chan struct{})}
	l.backup = b
	go func() {
		defer close(b.done)
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

// collectBackup puts a backup that is under way into the observation, or
// reports one that has ended. It returns true for that: the observation, which
// may be older than the end, does not show the new backup.
func (l *Loop) collectBackup(ctx context.Context, obs *cluster.Observation) bool {
	b := l.backup
	if b == nil {
		return false
	}
	select {
	case <-b.done:
	default:
		obs.BackingUp = b.line
		return false
	}
	l.backup = nil
	l.tries.note(b.line, b.err, false, b.ended)
	l.report(ctx, Report{
		Spec: l.o.Spec(), Observation: *obs,
		Done: &Done{At: b.began, Line: b.line, Took: b.ended.Sub(b.began), Err: b.err},
	})
	return true
}
