// Package apply carries operations out. What it acts on is observed by package nodeobserve.
//
// [Local] does what concerns one node: its etcd process, its disk, its state
// file. [Coordinator] does the rest, through etcd and the store, and sends
// what belongs to a node to that node. Both compare an operation's
// expectations with the present first, and both leave a world in which the
// same operation can simply be done again, wherever they are killed; the
// argument for each stands at its function.
package apply

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdproc"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/hazards"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/node/nodeobserve"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// ErrPrecondition is wrapped by errors of operations that the node's present
// state does not allow.
var ErrPrecondition = nodeobserve.ErrPrecondition

func refuse(format string, args ...any) error { return nodeobserve.Refuse(format, args...) }

// EtcdTLS gives etcd its key material, and us ours for talking to it.
type EtcdTLS interface {
	// Ensure makes sure that the files of an incarnation's member exist and are
	// valid, and returns their paths.
	Ensure(token cluster.Token, urls cluster.URLs) (*etcdconf.TLS, error)
	// Client returns the configuration of a client of etcd.
	Client() *tls.Config
}

// A LeaseVoter is the node's vote in the coordinator's lease.
type LeaseVoter interface {
	// Prepare makes the node a lease voter of an incarnation that is being bootstrapped.
	Prepare(ctx context.Context, token cluster.Token, names []cluster.NodeName) error
	// Join makes it ready to become one of a running incarnation, starting from
	// the record of the coordinator.
	Join(ctx context.Context, record cluster.LeaseVoters) error
	// Recover makes it one by a record whose predecessor has no majority left.
	Recover(ctx context.Context, record cluster.LeaseVoters, expect, lost []cluster.NodeName) error
}

// LocalOptions say what a node is and where its things are.
type LocalOptions struct {
	Name    cluster.NodeName
	DataDir string
	URLs    cluster.URLs
	// ListenAddress replaces the host of the URLs that etcd listens on.
	ListenAddress string
	MetricsURLs   []string
	// UserEnv holds the operator's ETCD_* variables.
	UserEnv map[string]string
	// Names, if not nil, makes the names of nodes known to this machine. It is called
	// before a process is started.
	Names func(context.Context)
	// OtherPatch, if not nil, is called when there are no binaries of the version that a
	// member is to run, and which patch of it is started.
	OtherPatch func(v etcdversion.Version, path string)
	// Bounds hold whoever orders to what this node's own flags say.
	Bounds Bounds

	State      *nodestate.File
	LeaseVoter LeaseVoter
	Proc       *etcdproc.Supervisor
	Bin        etcdbin.Finder
	// Fetch gets a release of etcd, so that Bin finds it; nil where the node gets none itself.
	// From says where it looks, for people.
	Fetch func(ctx context.Context, v etcdversion.Version) error
	From  string
	// TLS is nil for an etcd that speaks plain text.
	TLS EtcdTLS
	// Backups is nil on a node without a store, and Restorer too.
	Backups   BackupTaker
	Restorer  Restorer
	Inspector Inspector
	Now       func() time.Time

	// diskTimeout is [nodeobserve.DefaultDiskTimeout], where no test has more time.
	diskTimeout time.Duration
	// recheck is defaultRecheckGrace, where no test has less time.
	recheck time.Duration
	// comparePeriod is defaultCompareInterval, where no test has another time.
	comparePeriod time.Duration
	// closedCompare is defaultClosedCompareGrace, where no test has another time.
	closedCompare time.Duration
	// record writes a change of version down: [nodestate.File.Update], where no test
	// has a disk that hangs.
	record func(*nodestate.File, nodestate.Transition) error
	// startTimeout is defaultStartTimeout, where no test has less time.
	startTimeout time.Duration
	// examine is [hazards.Examine], where no test has another one.
	examine nodeobserve.Examiner
}

// Local carries out operations on its own node.
type Local struct {
	o LocalOptions
	// semaphore lets one operation run at a time. Observing does not take it.
	semaphore chan struct{}

	// observer sees what the node has, and asks its etcd and those of the other members.
	observer  *nodeobserve.Observer
	lastCheck lastCheck
	fetches   fetches
	stager    stager
	comparer  comparer
	changes   changeWatcher
	late      changeWatcher
	held      held
	// agreedAt is when the coordinator found last that the restored members agree.
	agreedAt atomic.Pointer[time.Time]
	// agreedStart says that the process has not been started for that yet.
	agreedStart atomic.Bool
	// lacking says that the member could not be started for want of binaries.
	lacking atomic.Bool
	// forced is how many entries have been proposed for the raft snapshot under way.
	forced atomic.Int64
	// spawned is the version that was started last.
	spawned atomic.Pointer[etcdversion.Version]
	// recorded is the member as etcd has it on record, nil where it has not reported yet.
	recorded atomic.Pointer[cluster.Member]
	// work wakes Watch.
	work chan struct{}
	// remembering is held while a report's ids are written to the disk.
	remembering sync.Mutex
}

// NewLocal returns the executor of a node.
func NewLocal(o LocalOptions) *Local {
	o.diskTimeout = cmp.Or(o.diskTimeout, nodeobserve.DefaultDiskTimeout)
	o.recheck = cmp.Or(o.recheck, defaultRecheckGrace)
	o.comparePeriod = cmp.Or(o.comparePeriod, defaultCompareInterval)
	o.closedCompare = cmp.Or(o.closedCompare, defaultClosedCompareGrace)
	o.startTimeout = cmp.Or(o.startTimeout, defaultStartTimeout)
	if o.record == nil {
		o.record = (*nodestate.File).Update
	}
	if o.examine == nil {
		o.examine = hazards.Examine
	}
	l := &Local{o: o, semaphore: make(chan struct{}, 1), work: make(chan struct{}, 1)}
	l.observer = nodeobserve.New(l.observed())
	return l
}

// observed says what the observer of the node observes.
func (l *Local) observed() nodeobserve.Options {
	o := nodeobserve.Options{
		Name: l.o.Name, DataDir: l.o.DataDir, URLs: l.o.URLs, ListenAddress: l.o.ListenAddress, UserEnv: l.o.UserEnv,
		State: l.o.State.State, Bin: l.o.Bin, Now: l.o.Now, Progress: progress{l},
		DiskTimeout: l.o.diskTimeout, Examine: l.o.examine,
	}
	if l.o.Proc != nil {
		o.Status = l.o.Proc.Status
	}
	if l.o.TLS != nil {
		o.TLS = l.o.TLS
	}
	return o
}

// Observer returns what observes the node, and changes nothing.
func (l *Local) Observer() *nodeobserve.Observer { return l.observer }

// progress reports to the observer what the node has under way.
type progress struct{ l *Local }

func (p progress) Fetches() []cluster.BrokenBinary           { return p.l.fetches.list() }
func (p progress) Staging(s *cluster.Staged) *cluster.Staged { return p.l.stager.describe(s) }
func (p progress) Disputes() string                          { return p.l.comparer.disputes() }
func (p progress) Compares(pid int) bool                     { return p.l.comparer.compares(pid) }
func (p progress) Forced() int64                             { return p.l.forced.Load() }

func (l *Local) take(ctx context.Context) error {
	select {
	case l.semaphore <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for another operation: %w", context.Cause(ctx))
	}
}

func (l *Local) leave() { <-l.semaphore }

// Close stops the etcd process and what is being restored, and ends the
// connection to etcd.
func (l *Local) Close(ctx context.Context) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.leave()
	l.stager.end(ctx)
	l.changes.end(ctx)
	l.late.end(ctx)
	l.comparer.end(ctx)
	l.observer.Close(ctx)
	l.held.release()
	return l.o.Proc.Close(ctx)
}

// Do carries out an order for this node. Errors that wrap [ErrPrecondition]
// say that nothing was done. An order whose ctx ends before it begins is not
// carried out; one that has begun is finished, within its [Deadline]: whoever
// gave it may have hung up, and does so with each renewal of the lease.
//
// Still says why an order does not count any more. It is asked right before the
// effect: other orders may have been waited for, and the machine may have stood
// still. Nil is for an order that always counts.
func (l *Local) Do(ctx context.Context, order plan.Order, still func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, Deadline(order.Operation))
	defer cancel()
	if op, ok := order.Operation.(*plan.MemberChangeVersion); ok {
		if begun, err := l.ahead(ctx, op, order.ID); begun || err != nil {
			return err
		}
	}
	if err := l.do(ctx, order, still); err != nil {
		return err
	}
	if op, ok := order.Operation.(*plan.MemberChangeVersion); ok {
		return l.settled(ctx, op) // other operations run meanwhile
	}
	return nil
}

func (l *Local) do(ctx context.Context, order plan.Order, still func(context.Context) error) error {
	op := order.Operation
	if err := plan.Validate(op); err != nil {
		return err
	}
	if node, ok := plan.Target(op); !ok || node != l.o.Name {
		return refuse("the operation is not for node %s", l.o.Name)
	}
	if !plan.InBackground(op) { // what only reads, and may take long: nothing waits for it
		if err := l.take(ctx); err != nil {
			return err
		}
		defer l.leave()
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the order is too old: %w", context.Cause(ctx))
	}
	if still != nil {
		if err := still(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Deadline(op))
	defer cancel()
	return l.effect(ctx, order)
}

// effect does what the order says.
func (l *Local) effect(ctx context.Context, order plan.Order) error {
	switch op := order.Operation.(type) {
	case *plan.BackupTake:
		return l.backup(ctx, op)
	case *plan.BackupVerify, *plan.BackupDrill:
		return l.inspect(ctx, op)
	case *plan.MemberPrepare:
		return l.prepare(ctx, op)
	case *plan.MemberStart:
		return l.start(ctx, op, order.LeaseVoters)
	case *plan.MemberStop:
		return l.stop(ctx, op)
	case *plan.MemberChangeVersion:
		return l.changeVersion(ctx, op, order)
	case *plan.MemberForceSnapshot:
		return l.forceSnapshot(ctx, op)
	case *plan.MemberDrain:
		return l.drain(ctx, op)
	case *plan.RestoreStage:
		return l.stage(ctx, op)
	case *plan.RestoreSwitch:
		return l.changeOver(ctx, op)
	case *plan.RestoreDiscard:
		return l.discardStaged(ctx, op)
	case *plan.LeaseVotersRecover:
		return l.recoverLeaseVoters(ctx, op)
	case *plan.LeaseVotersAdopt:
		return l.adoptLeaseVoters(ctx, op)
	case *plan.DataSetAside:
		return l.setAside(ctx, op)
	case *plan.DataDiscard:
		return l.discard(op)
	case *plan.QuarantineSet:
		return l.quarantine(ctx, true, false)
	case *plan.QuarantineLift:
		return l.quarantine(ctx, false, op.ExpectRevision > 0)
	}
	return fmt.Errorf("%s is not carried out by nodes", plan.KindOf(order.Operation).Path)
}

// prepare makes the node a lease voter and then records the promise. Killed in
// between, it has a vote in an incarnation that does not exist yet.
func (l *Local) prepare(ctx context.Context, op *plan.MemberPrepare) error {
	if _, err := l.o.Bin.Find(op.Version); err != nil {
		return err
	}
	if !slices.ContainsFunc(op.Voters, func(s cluster.InitialMember) bool { return s.Name == l.o.Name }) {
		return refuse("%s is not one of the voters", l.o.Name)
	}
	s := l.o.State.State()
	if disk := nodestate.Disk(l.o.DataDir, s); s.Assigned != nil || disk.State != cluster.DiskEmpty {
		return refuse("%s already has data or an assignment", l.o.Name)
	}
	if p := s.Prepared; p != nil && p.Backup != "" {
		return refuse("%s has restored %s as incarnation %s", l.o.Name, p.Backup, p.Token)
	}
	crashpoint.Hit("member-prepare.before")
	if err := l.o.LeaseVoter.Prepare(ctx, op.Token, cluster.InitialMemberNames(op.Voters)); err != nil {
		return err
	}
	crashpoint.Hit("member-prepare.before-promise")
	err := l.o.State.Update(nodestate.Promise(cluster.Prepared{Token: op.Token, Version: op.Version, Voters: op.Voters}))
	crashpoint.Hit("member-prepare.after")
	return err
}

// stop records the spec before it stops the process, so that a daemon killed
// in between does not start the member again.
func (l *Local) stop(ctx context.Context, op *plan.MemberStop) error {
	s := l.o.State.State()
	disk := nodestate.Disk(l.o.DataDir, s)
	if s.Assigned == nil {
		return l.o.Proc.Stop(ctx)
	}
	if s.Assigned.Token != op.ExpectToken {
		return &plan.StaleError{Want: "incarnation " + string(op.ExpectToken), Got: string(s.Assigned.Token)}
	}
	if disk.MemberID != op.ExpectMemberID {
		return &plan.StaleError{Want: "member " + op.ExpectMemberID.String(), Got: disk.MemberID.String()}
	}
	crashpoint.Hit("member-stop.before")
	err := l.o.State.Update(nodestate.Stop)
	if err != nil {
		return err
	}
	l.comparer.end(ctx)
	l.held.release()
	crashpoint.Hit("member-stop.before-signal")
	err = l.o.Proc.Stop(ctx)
	crashpoint.Hit("member-stop.after")
	return err
}
