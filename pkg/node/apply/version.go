package apply

import (
	"context"
	"fmt"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/hazards"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

const (
	// stopTimeout is how long etcd may take to end by itself before its version is
	// changed: clients' streams end, and a leader hands over.
	stopTimeout = 2 * time.Minute
	// defaultStartTimeout is how long a new version may take to serve, as long as its
	// process runs: a large database is read, and compared with the others'.
	defaultStartTimeout = 5 * time.Minute
	changeDeadline      = 2*stopTimeout + defaultStartTimeout + time.Minute
)

// ahead does what a change does not wait for the semaphore with, and reports whether it is
// under way already, and how it ended.
func (l *Local) ahead(ctx context.Context, op *plan.MemberChangeVersion, order string) (begun bool, err error) {
	if l.changing(op) {
		return true, l.settled(ctx, op)
	}
	if err := l.reverted(op, order); err != nil {
		return true, err
	}
	return false, l.checkFirst(ctx, op)
}

// reverted returns what the same order has failed with, where the node runs the old version
// again for that. Without a name, no order is the same.
func (l *Local) reverted(op *plan.MemberChangeVersion, order string) error {
	c := l.o.State.State().Changing()
	if op.Node != l.o.Name || c == nil || !c.Back || order == "" || c.Order != order {
		return nil
	}
	return didNotComeUp(c)
}

func didNotComeUp(c *cluster.VersionChange) error {
	return fmt.Errorf("etcd %s did not come up: %s", c.To, c.Failed)
}

// changing reports whether op is under way already. An order that is given again does
// not wait for the semaphore: by then the change may have been reverted, and would begin
// again with nobody having checked the other voters.
func (l *Local) changing(op *plan.MemberChangeVersion) bool {
	c := l.o.State.State().Changing()
	return op.Node == l.o.Name && c.Pending() && c.Token == op.ExpectToken && c.To == op.To
}

// changeVersion records the change, stops the old version and starts the new one.
// Killed before the record, nothing has happened. Killed after it, the node starts
// the new version when its daemon starts, and sees the change to its end: what it
// waits for stands in [Local.settle].
func (l *Local) changeVersion(ctx context.Context, op *plan.MemberChangeVersion, order plan.Order) error {
	s := l.o.State.State()
	if c := s.Changing(); c != nil && !c.Back && c.To == op.To {
		return nil // an earlier order has begun it
	}
	if err := l.reverted(op, order.ID); err != nil {
		return err // it was sent again, and has waited since
	}
	if s.Assigned != nil && s.Assigned.Token == op.ExpectToken && s.Assigned.Version == op.To {
		return nil
	}
	if err := l.mayChange(ctx, op, len(order.LeaseVoters.Names), s); err != nil {
		return err
	}
	crashpoint.Hit("member-change-version.before-record")
	if err := l.o.record(l.o.State, nodestate.ChangeVersion(op.ExpectToken, op.To, order.ID)); err != nil {
		l.forgetLate(ctx, op)
		return err
	}
	crashpoint.Hit("member-change-version.before-signal")
	s = l.o.State.State()
	l.changes.end(ctx)
	l.comparer.end(ctx)
	ran := l.o.Proc.Status().State == cluster.ProcessRunning
	if err := l.o.Proc.StopWithin(ctx, stopTimeout); err != nil {
		l.watchChange(ctx, s) // it goes on when the process has ended
		return err
	}
	crashpoint.Hit("member-change-version.before-spawn")
	// What keeps the new version from starting is found, and reported, by who settles it.
	_ = l.spawn(ctx, s, etcdconf.StateExisting, spawnOptions{ran: ran})
	l.compareAlways(ctx)
	l.watchChange(ctx, s)
	crashpoint.Hit("member-change-version.after-spawn")
	return nil
}

// forgetLate takes a record of op back that lands after its order has failed, as it
// may where the disk hangs. The old version runs on, and nobody knows how the other
// voters do by then: who wants the change orders it again. Killed meanwhile, the node
// finds either.
func (l *Local) forgetLate(ctx context.Context, op *plan.MemberChangeVersion) {
	l.late.begin(ctx, func(ctx context.Context) {
		forget := func() bool {
			return l.o.State.Update(nodestate.ForgetChange(op.ExpectToken, op.To, l.spawned.Load())) != nil
		}
		for ctx.Err() == nil && l.exclusively(ctx, forget) {
			_ = wait.For(ctx, changeInterval)
		}
	})
}

// mayChange compares what is expected with this node, and its etcd with the new
// version.
func (l *Local) mayChange(ctx context.Context, op *plan.MemberChangeVersion, voters int, s nodestate.State) error {
	disk := nodestate.Disk(l.o.DataDir, s)
	switch {
	case s.Assigned == nil || disk.State != cluster.DiskData:
		return refuse("the node runs no member")
	case s.Assigned.Stopped:
		return refuse("the member has been stopped by an operation")
	case s.Assigned.Token != op.ExpectToken || disk.Token != op.ExpectToken:
		return &plan.StaleError{Want: "incarnation " + string(op.ExpectToken), Got: string(disk.Token)}
	case disk.MemberID != op.ExpectMemberID:
		return &plan.StaleError{Want: "member " + op.ExpectMemberID.String(), Got: disk.MemberID.String()}
	case s.Assigned.Version != op.ExpectVersion:
		return &plan.StaleError{Want: "etcd " + op.ExpectVersion.String(), Got: s.Assigned.Version.String()}
	}
	if c := s.Changing(); c != nil && !c.Back {
		return refuse("the member is between etcd %s and %s", c.From, c.To)
	}
	if why := cluster.TooFar(s.Assigned.Version, op.To); why != "" {
		return refuse("%s", why)
	}
	if err := l.tooOld(s, op.To); err != nil {
		return err
	}
	if err := l.isVersion(ctx, op.To); err != nil {
		return err
	}
	if err := l.running(ctx, op, voters, s); err != nil {
		return err
	}
	s.Assigned.Version = op.To // of this copy
	_, err := l.command(s, etcdconf.StateExisting)
	return err
}

// dataVersion returns the version that the data is known to be of: what the member has
// reported, and where it never has, as of data that another program has run, what is written
// in it. Restored data names the cluster that its backup is of.
func (l *Local) dataVersion(s nodestate.State) (etcdversion.Version, error) {
	seen := s.DataVersion()
	if !seen.IsZero() || s.Assigned == nil || s.Assigned.Quarantined {
		return seen, nil
	}
	return hazards.DataVersion(datadir.At(nodestate.DataDir(l.o.DataDir, s.Assigned.Token)))
}

// tooOld reports why v must not be started on the member's data, nil where it may. What
// cannot be read is left to etcd, if it checks that: 3.5 is the first one that does.
func (l *Local) tooOld(s nodestate.State, v etcdversion.Version) error {
	seen, err := l.dataVersion(s)
	switch {
	case err != nil && !v.AtLeast(3, 5):
		return refuse("whether etcd %s is too old for its data is unknown: %v", v, err)
	case err != nil || seen.IsZero():
		return nil
	}
	s.Seen = &nodestate.SeenVersion{Token: s.Assigned.Token, Version: seen}
	if err := s.TooOld(v); err != nil {
		return refuse("%v", err)
	}
	return nil
}

// rightBinary holds a start to what the binary says that it is, whatever its directory
// is called: none that is older than the data is started, and none of a later minor
// version than the member is to run, to which nobody has let it change.
func (l *Local) rightBinary(ctx context.Context, path string, s nodestate.State) error {
	seen, unread := l.dataVersion(s)
	if s.Assigned == nil || seen.IsZero() && unread == nil {
		return nil
	}
	is, err := etcdbin.Probe(ctx, path)
	if err != nil {
		return nil // what cannot be asked cannot be started either, which says why
	}
	if why := cluster.WrongBinary(is, s.Assigned.Version, seen); why != "" {
		return refuse("%s %s", path, why)
	}
	if unread != nil {
		return l.tooOld(s, is)
	}
	return nil
}

// isVersion asks the binary what it is: a directory may be named after any version.
// Another patch than its name says is right: kops mounts later ones so.
func (l *Local) isVersion(ctx context.Context, v etcdversion.Version) error {
	bin, err := l.o.Bin.Find(v)
	if err != nil {
		return err
	}
	is, err := etcdbin.Probe(ctx, bin.Etcd)
	if err != nil {
		return err
	}
	if is.Major != v.Major || is.Minor != v.Minor {
		return refuse("%s is etcd %s, not %s", bin.Etcd, is, v)
	}
	return nil
}

// othersTime is how long the other voters have to serve, othersInterval the pause between two
// questions.
const (
	othersTime     = 5 * time.Second
	othersInterval = 200 * time.Millisecond
)

// running holds the change to what the node's own etcd and its peers say now. A
// member that does not answer may be changed: it is down, and nothing is lost. Another
// voter that was changed right before has a moment to serve.
func (l *Local) running(ctx context.Context, op *plan.MemberChangeVersion, voters int, s nodestate.State) error {
	c, err := l.observer.Etcd(s)
	if err != nil {
		return err
	}
	now, err := l.observer.VersionGate(ctx, c, s)
	for end := time.Now().Add(othersTime); now.Answers && now.Needed() && time.Now().Before(end); {
		if err := wait.For(ctx, othersInterval); err != nil {
			return err
		}
		now, err = l.observer.VersionGate(ctx, c, s)
	}
	now.Ordered = voters
	if why := now.Refusal(s.Assigned.Version, op.To); why != "" {
		if err != nil {
			why = fmt.Sprintf("%s (%v)", why, err)
		}
		return refuse("%s", why)
	}
	if now.Runs.Minor < op.To.Minor {
		return l.checkHazards(ctx, now.Runs, op)
	}
	return nil
}

// hangUpGrace is for how long an order is waited for after its sender has hung up, as
// it does with each renewal of its lease: it must see that, and order again, before
// it sees an error, which would say that the order has failed.
const hangUpGrace = 5 * time.Second

// settled waits until the change that op has begun is settled, and reports how it
// ended.
func (l *Local) settled(sender context.Context, op *plan.MemberChangeVersion) error {
	ctx, end := context.WithTimeout(context.WithoutCancel(sender), Deadline(op))
	defer end()
	defer context.AfterFunc(sender, func() {
		_ = wait.For(ctx, hangUpGrace)
		end()
	})()
	for {
		s := l.o.State.State()
		c := s.Changing()
		switch {
		case s.Assigned == nil || s.Assigned.Token != op.ExpectToken:
			return &plan.StaleError{Want: "incarnation " + string(op.ExpectToken), Got: "none"}
		case c != nil && c.To == op.To && c.Failed != "":
			return didNotComeUp(c)
		case c == nil && s.Assigned.Version == op.To:
			return nil
		case s.Assigned.Stopped || c == nil:
			return &plan.StaleError{Want: "etcd " + op.To.String(), Got: s.Assigned.Version.String()}
		}
		_ = wait.For(ctx, changeInterval)
		if ctx.Err() != nil {
			return fmt.Errorf("wait for etcd %s: %w", op.To, context.Cause(ctx))
		}
	}
}
