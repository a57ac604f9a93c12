package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// discard deletes what was set aside at the expected time: a name that is used
// again is of other data.
func (l *Local) discard(op *plan.DataDiscard) error {
	at, err := time.Parse(time.RFC3339Nano, string(op.ExpectAt))
	if err != nil {
		return err
	}
	if err := l.mayDiscard(op.Name, at); err != nil {
		return err
	}
	err = nodestate.Discard(l.o.DataDir, op.Name, at)
	if other := new(nodestate.SetAsideError); errors.As(err, &other) {
		return &plan.StaleError{Want: op.Name + " set aside at " + string(op.ExpectAt), Got: string(plan.MomentOf(other.Got))}
	}
	return err
}

// setAside moves the data and then clears the assignment. Killed in between,
// the node has an assignment without data, which the same operation clears.
func (l *Local) setAside(ctx context.Context, op *plan.DataSetAside) error {
	if l.o.Proc.Status().State != cluster.ProcessStopped {
		return refuse("an etcd process runs")
	}
	s := l.o.State.State()
	disk := nodestate.Disk(l.o.DataDir, s)
	if disk.State == cluster.DiskUnreadable {
		return refuse("the disk is unreadable: %s", disk.Problem)
	}
	if disk.State == cluster.DiskData {
		if disk.Token != op.Token || disk.MemberID != op.ExpectMemberID {
			return &plan.StaleError{
				Want: fmt.Sprintf("data of member %s, incarnation %s", op.ExpectMemberID, op.Token),
				Got:  fmt.Sprintf("member %s, incarnation %s", disk.MemberID, disk.Token),
			}
		}
		crashpoint.Hit("data-set-aside.before")
		if _, err := nodestate.SetAside(l.o.DataDir, op.Token, l.o.Now()); err != nil {
			return err
		}
		crashpoint.Hit("data-set-aside.before-clear")
	}
	l.comparer.end(ctx)
	err := l.o.State.Update(nodestate.Evict)
	crashpoint.Hit("data-set-aside.after")
	return err
}

// quarantine starts the process with the wanted URLs, and then records that.
// Killed in between, or where it cannot be recorded, the record still says that it is to be
// done. A process that cannot be started so is started as before: it is kept running, or
// tried again, by what it was given last, and nobody may want the other any more.
//
// Agreed says that the coordinator has just compared the data of all members, before it lets
// clients in to the first of them. Clients wait for this start, so nobody reads all of it once
// more in that moment, and etcd gets little time to end: it has no clients.
func (l *Local) quarantine(ctx context.Context, on, agreed bool) error {
	s := l.o.State.State()
	if s.Assigned == nil {
		return refuse("the node has no assignment")
	}
	if s.Assigned.Quarantined == on {
		return nil
	}
	s.Assigned.Quarantined = on // of this copy
	state := etcdconf.StateExisting
	if s.Bootstrap {
		state = etcdconf.StateNew // there may be no data yet
	}
	crashpoint.Hit("quarantine.before-restart")
	if !s.Assigned.Stopped && l.o.Proc.Status().State != cluster.ProcessStopped {
		if err := l.reopen(ctx, s, state, agreed); err != nil {
			ctx, end := context.WithTimeout(context.WithoutCancel(ctx), quickDeadline)
			defer end()
			return errors.Join(err, l.run(ctx, l.o.State.State(), state))
		}
	}
	crashpoint.Hit("quarantine.before-record")
	return l.o.State.Update(nodestate.Quarantine(on))
}

// reopen starts the process with the URLs that s asks for. One that has them already goes on.
func (l *Local) reopen(ctx context.Context, s nodestate.State, state etcdconf.State, agreed bool) error {
	if !agreed {
		return l.run(ctx, s, state)
	}
	now := time.Now()
	l.agreedAt.Store(&now)
	l.agreedStart.Store(true)
	l.changes.end(ctx)
	l.comparer.end(ctx)
	err := l.spawn(ctx, s, state, spawnOptions{grace: switchGrace})
	l.compareAlways(ctx)
	l.watchChange(ctx, s)
	return err
}
