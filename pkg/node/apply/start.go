package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdproc"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/node/nodeobserve"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// Boot starts the member that the node's disk says it runs: no coordinator, no
// store and no network are needed for it. A member whose data is gone is not
// started, it would come back as a voter that has forgotten its votes.
func (l *Local) Boot(ctx context.Context) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.leave()
	s := l.o.State.State()
	l.resumeStaging(ctx, s)
	err := l.boot(ctx, s)
	l.lacking.Store(errors.As(err, new(*etcdbin.NotFoundError)))
	l.wakeWatch()
	return err
}

// bootLate starts the member that could not be started for want of binaries, once there
// are some: fetched meanwhile, or of a patch that the operator asks for by now.
func (l *Local) bootLate(ctx context.Context) error {
	if !l.lacking.Load() {
		return nil
	}
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.leave()
	s := l.o.State.State()
	if s.Assigned != nil && l.o.Proc.Status().State == cluster.ProcessStopped {
		if _, err := l.program(s.Assigned.Version, s); err != nil {
			return nil
		}
		err := l.boot(ctx, s)
		if errors.As(err, new(*nodeobserve.TwinError)) {
			return err
		}
		if err != nil {
			return nil // tried again: nobody else would
		}
	}
	l.lacking.Store(false)
	return nil
}

func (l *Local) boot(ctx context.Context, s nodestate.State) error {
	if s.Assigned == nil || s.Assigned.Stopped {
		return nil
	}
	disk := nodestate.Disk(l.o.DataDir, s)
	if disk.State != cluster.DiskData || disk.Token != s.Assigned.Token {
		return nil
	}
	if s.Bootstrapping() {
		return l.run(ctx, s, etcdconf.StateNew)
	}
	return l.run(ctx, s, etcdconf.StateExisting)
}

// clearCutOff removes what etcd has made where it was cut off before it committed
// the bootstrap of its cluster: started on that, it would wait for itself forever.
func (l *Local) clearCutOff() error {
	s := l.o.State.State()
	if !s.Bootstrapping() {
		return nil
	}
	return nodestate.DropUncommitted(l.o.DataDir, s.Assigned.Token)
}

// start writes the assignment, then starts the process. Killed before the
// write, nothing has happened. Killed after it and before etcd has written its
// data, the node has an assignment and an empty disk, and does not start by
// itself: a bootstrap voter still has its promise, which only goes when its
// data is there (see Look), and is ordered to start again; a learner's assignment
// is cleared and it joins again.
func (l *Local) start(ctx context.Context, op *plan.MemberStart, leaseVoters cluster.LeaseVoters) error {
	s := l.o.State.State()
	find := l.o.Bin.Find
	if op.Mode == plan.StartRestart && s.Assigned != nil && s.Assigned.Version == op.Version {
		find = func(v etcdversion.Version) (etcdbin.Binaries, error) { return l.program(v, s) }
	}
	if _, err := find(op.Version); err != nil {
		return err
	}
	if err := l.mayStart(op, s); err != nil {
		return err
	}
	restored := s.Prepared != nil && s.Prepared.Token == op.Token && s.Prepared.Backup != ""
	state := etcdconf.StateExisting
	if op.Mode == plan.StartNew && !restored {
		state = etcdconf.StateNew
	}
	// Also a node that was a lease voter before takes the newer record: by its own it
	// would not grant to those that have become lease voters since.
	if op.Mode != plan.StartNew && leaseVoters.Token == op.Token && len(leaseVoters.Names) > 0 {
		if err := l.o.LeaseVoter.Join(ctx, leaseVoters); err != nil {
			return fmt.Errorf("join the lease voters: %w", err)
		}
	}
	crashpoint.Hit("member-start.before-assign")
	err := l.o.State.Update(nodestate.Assign(nodestate.Assignment{
		Token: op.Token, Version: op.Version, Peers: op.Peers,
		Bootstrap: op.Mode == plan.StartNew, Quarantined: restored, AcceptData: op.AcceptData != 0,
	}))
	if err != nil {
		return err
	}
	if restored {
		crashpoint.Hit("member-start.before-adopt")
		if err := nodestate.Adopt(l.o.DataDir, op.Token); err != nil {
			return err
		}
	}
	if op.AcceptData != 0 && nodeobserve.Differs(s) != "" {
		// It is kept from starting, with longer and longer pauses.
		if err := l.o.Proc.Stop(ctx); err != nil {
			return err
		}
	}
	crashpoint.Hit("member-start.before-spawn")
	err = l.run(ctx, l.o.State.State(), state)
	crashpoint.Hit("member-start.after-spawn")
	return err
}

// mayStart holds the start to what is on this node's own disk.
func (l *Local) mayStart(op *plan.MemberStart, s nodestate.State) error {
	disk := nodestate.Disk(l.o.DataDir, s)
	switch {
	case disk.State == cluster.DiskUnreadable:
		return refuse("the disk is unreadable: %s", disk.Problem)
	case disk.State == cluster.DiskData && disk.Token != op.Token:
		return refuse("the disk holds data of incarnation %s", disk.Token)
	case s.Assigned != nil && s.Assigned.Token != op.Token:
		return refuse("the node is assigned to incarnation %s", s.Assigned.Token)
	case disk.State == cluster.DiskData && s.Assigned != nil && s.Assigned.Version != op.Version:
		return refuse("the data is of etcd %s; etcdadm member change-version changes the version", s.Assigned.Version)
	case disk.State == cluster.DiskData && s.Assigned == nil:
		return refuse("the disk holds data without a state file")
	case op.AcceptData != 0 && disk.MemberID != op.AcceptData:
		return &plan.StaleError{Want: "data of member " + op.AcceptData.String(), Got: disk.MemberID.String()}
	case disk.State == cluster.DiskData:
		return nil
	}
	switch op.Mode {
	case plan.StartNew:
		if s.Prepared == nil || s.Prepared.Token != op.Token {
			return refuse("the node has not promised incarnation %s, or has started it before", op.Token)
		}
		if s.Prepared.Backup == "" {
			return nil
		}
		if has, err := nodestate.Staged(l.o.DataDir, op.Token); err != nil || !has {
			return errors.Join(refuse("the restored data is gone from this node"), err)
		}
	case plan.StartJoin:
		if s.Assigned != nil && l.o.Proc.Status().State != cluster.ProcessRunning {
			return refuse("the node had a member before and has lost its data")
		}
	case plan.StartRestart:
		return refuse("there is no data to start from")
	}
	return nil
}

// run starts the process that the state file asks for, and compares its data with
// that of the others; one that runs with the same configuration is left alone.
func (l *Local) run(ctx context.Context, s nodestate.State, initial etcdconf.State) error {
	l.changes.end(ctx)
	err := l.rerun(ctx, s, initial)
	l.watchChange(ctx, s)
	return err
}

// rerun is run for who settles a change of version.
func (l *Local) rerun(ctx context.Context, s nodestate.State, initial etcdconf.State) error {
	l.comparer.end(ctx)
	err := l.spawn(ctx, s, initial, spawnOptions{})
	l.compareAlways(ctx)
	return err
}

// spawnOptions are how a process is started.
type spawnOptions struct {
	// ran says that the member has run here until now: it is not asked whether another machine
	// runs it.
	ran bool
	// grace is how long a running process of another configuration may take to end by itself,
	// 0 for the usual time.
	grace time.Duration
}

// spawn starts the process, unless another machine runs the member. What runs goes on where that
// fails before the new one could be started.
func (l *Local) spawn(ctx context.Context, s nodestate.State, initial etcdconf.State, how spawnOptions) error {
	if err := l.tooOld(s, s.Assigned.Version); err != nil {
		return err
	}
	cfg, err := l.command(s, initial)
	if err != nil {
		return err
	}
	if !how.ran {
		if err := l.observer.Twin(ctx, s); err != nil {
			return err
		}
	}
	if l.o.Names != nil {
		l.o.Names(ctx)
	}
	if _, err := l.o.Bin.Find(s.Assigned.Version); err != nil && l.o.OtherPatch != nil {
		l.o.OtherPatch(s.Assigned.Version, cfg.Path)
	}
	l.spawned.Store(&s.Assigned.Version)
	if how.grace > 0 {
		return l.o.Proc.StartWithin(ctx, cfg, how.grace)
	}
	return l.o.Proc.Start(ctx, cfg)
}

// named returns the URLs under which a member is looked for: its own, and those that
// its peers have on record or were given at its start.
func named(own cluster.URLs, s nodestate.State, name cluster.NodeName) cluster.URLs {
	own.Peer = slices.Clone(own.Peer)
	for _, m := range slices.Concat(s.Voters, s.Peers) {
		if m.Name == name {
			own.Peer = append(own.Peer, m.PeerURLs...)
		}
	}
	return own
}

// command returns what runs the member that the state asks for.
func (l *Local) command(s nodestate.State, initial etcdconf.State) (etcdproc.Config, error) {
	bin, err := l.program(s.Assigned.Version, s)
	if err != nil {
		return etcdproc.Config{}, err
	}
	m := etcdconf.Member{
		Name: l.o.Name, Version: s.Assigned.Version, Token: s.Assigned.Token,
		DataDir: nodestate.DataDir(l.o.DataDir, s.Assigned.Token), State: initial, Peers: s.Peers,
		URLs: l.observer.Served(s), Quarantined: s.Assigned.Quarantined,
		Address: l.o.ListenAddress, MetricsURLs: l.o.MetricsURLs, User: l.o.UserEnv,
	}
	if l.o.TLS != nil {
		if m.TLS, err = l.o.TLS.Ensure(s.Assigned.Token, named(l.o.URLs, s, l.o.Name)); err != nil {
			return etcdproc.Config{}, fmt.Errorf("issue etcd's certificates: %w", err)
		}
	}
	l.observer.Started(m.URLs.Peer, m.TLS)
	l.wakeWatch()
	compared, err := etcdconf.Env(m)
	if err != nil {
		return etcdproc.Config{}, err
	}
	m.Uncompared = true
	env, err := etcdconf.Env(m)
	if err != nil {
		return etcdproc.Config{}, err
	}
	return etcdproc.Config{
		Path: bin.Etcd, Env: env, WorkDir: l.o.DataDir,
		ClientPorts: etcdconf.ClientPorts(env), PeerPorts: etcdconf.PeerPorts(env),
		Before: l.before(bin.Etcd, compared),
	}, nil
}

// program returns what runs a member of version v. A machine may come with its disk and
// with one patch only, not with that by which the member was started last: kops mounts one
// image, and the spec has changed before. Then the next later patch of the minor version
// runs, as it does where its directory has the names of the earlier ones; an earlier one
// only if there is none later, and the operator has asked for just that. A change to a version that has no binaries
// (any more) is no reason for another one: the member goes back.
func (l *Local) program(v etcdversion.Version, s nodestate.State) (etcdbin.Binaries, error) {
	bin, err := l.o.Bin.Find(v)
	if err == nil || s.Change.Pending() {
		return bin, err
	}
	all := l.o.Bin.Versions()
	for _, has := range all {
		if has.Major == v.Major && has.Minor == v.Minor && has.Pre == "" && has.Compare(v) > 0 {
			return l.o.Bin.Find(has)
		}
	}
	if s.Spec != nil && slices.Contains(all, s.Spec.EtcdVersion) && s.Spec.EtcdVersion.Major == v.Major &&
		s.Spec.EtcdVersion.Minor == v.Minor {
		return l.o.Bin.Find(s.Spec.EtcdVersion)
	}
	return bin, err
}
