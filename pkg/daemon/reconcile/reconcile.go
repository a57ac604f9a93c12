// Package reconcile is the daemon's loop: observe, plan, do the first operation,
// observe again.
//
// It is the only place where clock, coordination and log come together with
// the plan. What it decides itself is only when to observe and whether this
// daemon may act; what to do is decided in package plan.
package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/internal/backoff"
)

// Lease is the right to act.
type Lease interface {
	// Acquire tries to get the lease from a majority of the lease voters, and keeps
	// it renewed until Release. The error is a [*lease.HeldError] where somebody
	// else has it.
	Acquire(ctx context.Context, leaseVoters cluster.LeaseVoters) error
	// Held returns the term while the lease is held.
	Held() (cluster.Term, bool)
	// Succeeds returns the term of the last lease before the one that is held, zero for none.
	Succeeds() cluster.Term
	// LeaseVoters returns the record that the lease stands on.
	LeaseVoters() cluster.LeaseVoters
	// Rest says whether there is nothing to do: the lease is renewed less often then, and another
	// daemon takes over later when this one is lost.
	Rest(rest bool)
	Release(ctx context.Context)
}

// Options are what the loop works with. The functions are called from one
// goroutine, one at a time.
type Options struct {
	Self cluster.NodeName
	// Candidate says whether this daemon should try to coordinate. It is a hint
	// that saves work; the lease decides.
	Candidate func() bool
	// Quiet returns for how long at least Candidate will say no, unless Wake ends that; nil
	// means that nobody knows. Each cycle of a daemon that stands by costs processor time.
	Quiet func() time.Duration
	Lease Lease
	// Early returns the lease voters to ask for the lease before the first observation, none
	// where that is not worth it; nil means never. An observation may have to wait for an
	// etcd that has lost its leader together with the last coordinator.
	Early func() cluster.LeaseVoters
	// Observe observes once.
	Observe func(ctx context.Context, prev cluster.Observation) cluster.Observation
	// Spec returns the present spec, the zero Spec where none is known.
	Spec func() cluster.Spec
	// Do carries out one operation.
	Do func(ctx context.Context, spec cluster.Spec, obs cluster.Observation, op plan.Operation) error
	// NotYet reports whether an operation failed for a reason that clears by
	// itself within seconds; nil means never.
	NotYet func(err error) bool
	// Previous returns the observation that a coordinator published, for what it knew
	// about the past, and its term.
	Previous func(ctx context.Context) (cluster.Observation, cluster.Term)
	// Won is called when the lease has been won: what was read before may be older than what
	// the coordinator before has done. It may be nil.
	Won func()
	// Report receives what came out of each observation. It must not block for long.
	Report func(ctx context.Context, r Report)
	// Fit says why this daemon should not coordinate now, whatever Candidate says;
	// nil means never. It gives the lease back then.
	Fit func() error
	// Progress is called, again and again, with the time within which it will be called again, as
	// long as the loop runs. It may be nil.
	Progress func(within time.Duration)
	// Deadline says how long an operation may take; nil for no time worth naming.
	Deadline func(obs cluster.Observation, op plan.Operation) time.Duration
	// Late is called before each cycle with the time at which it was due. It may be nil.
	Late func(due time.Time)
	// Wake ends a pause early, as does News.
	Wake, News <-chan struct{}
	// StoreFlag is the flag with the location of the store, for the command lines in the log.
	StoreFlag string
	Log       *slog.Logger
	Now       func() time.Time
}

// A Report says what the coordinator sees and does.
type Report struct {
	At          time.Time           `json:"at"`
	Coordinator cluster.NodeName    `json:"coordinator"`
	Term        cluster.Term        `json:"term"`
	Spec        cluster.Spec        `json:"spec"`
	Observation cluster.Observation `json:"observation"`
	// Operation is the command line that is about to be carried out, or is since Since.
	Operation string      `json:"operation,omitempty"`
	Since     time.Time   `json:"since,omitzero"`
	Holds     []plan.Hold `json:"holds,omitempty"`
	Converged bool        `json:"converged"`
	// Authorities are the key identifiers of the authorities of the daemons' certificates, none
	// where they have no TLS. By them a command without a certificate distinguishes
	// this cluster's daemons from those of another one, whose nodes may have the same names.
	Authorities []string `json:"authorities,omitempty"`
	// Done is the operation that has just ended, nil for none.
	Done *Done `json:"-"`
}

// Done is an operation that has ended.
type Done struct {
	At time.Time
	// Term is the one in which it began, zero where the store decided: the lease may have
	// been won again since.
	Term cluster.Term
	Line string
	Took time.Duration
	Err  error
}

// The pauses between two observations.
const (
	activePause  = 20 * time.Millisecond  // something is under way
	soonPause    = 100 * time.Millisecond // what was started is about to be there
	waitingPause = 250 * time.Millisecond
	heldPause    = time.Second
	idlePause    = 3 * time.Second
	// calmPause is idlePause once there has been nothing to do for calmDelay. What other nodes, the
	// store or gossip bring ends it; a member that hangs is seen that much later.
	calmPause = 5 * time.Second
	calmDelay = 30 * time.Second
	// maxCampaignPause is the longest pause between two tries for a lease that
	// nobody has and that no majority grants.
	maxCampaignPause = 5 * time.Second
	// firstCampaignPause is the first of these pauses; they double.
	firstCampaignPause = 250 * time.Millisecond
	// standbyPause is part of the time that it takes to notice that the coordinator
	// has gone. A cycle takes microseconds.
	standbyPause = 100 * time.Millisecond
	// cycleLimit is how long a cycle may take without its operation: what the last
	// coordinator published, an observation, a campaign, each with its deadline, and some
	// time for a busy machine.
	cycleLimit = 8 * time.Second
)

// A Loop runs until its context ends.
type Loop struct {
	o    Options
	prev cluster.Observation
	seen bool // prev comes from an observation, or from a coordinator
	// of is the term of the coordinator of whom prev has its times, zero for none.
	of cluster.Term

	tries  tries
	backup *backup // nil for none under way
	// idle is since when there has been nothing to do, zero where there is something.
	idle time.Time
	// reread says that the last cycle ended for the list of backups to be read again: once is
	// enough, also where the lease is lost and won in each.
	reread bool
	// lost counts the campaigns lost in a row. Each uses up a term.
	lost   int
	events events
}

// New returns a loop.
func New(o Options) *Loop {
	if o.Fit == nil {
		o.Fit = func() error { return nil }
	}
	if o.Early == nil {
		o.Early = func() cluster.LeaseVoters { return cluster.LeaseVoters{} }
	}
	if o.Won == nil {
		o.Won = func() {}
	}
	if o.Quiet == nil {
		o.Quiet = func() time.Duration { return 0 }
	}
	if o.Progress == nil {
		o.Progress = func(time.Duration) {}
	}
	if o.Deadline == nil {
		o.Deadline = func(cluster.Observation, plan.Operation) time.Duration { return 0 }
	}
	return &Loop{o: o, events: events{log: o.Log, flag: o.StoreFlag}}
}

// Run observes and acts until ctx ends, then gives the lease back.
func (l *Loop) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	due := l.o.Now()
	for {
		select {
		case <-ctx.Done():
			if ended := l.backupEnded(); ended != nil {
				<-ended
			}
			release, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			l.o.Lease.Release(release)
			cancel()
			return
		case <-timer.C:
		case <-l.o.Wake:
			l.idle = time.Time{}
		case <-l.o.News:
			l.idle = time.Time{}
		case <-l.backupEnded():
		}
		l.late(due)
		l.o.Progress(cycleLimit)
		l.o.Lease.Rest(l.calm())
		pause := l.cycle(ctx)
		l.o.Progress(pause + cycleLimit)
		due = l.o.Now().Add(pause)
		timer.Reset(pause)
	}
}

// cycle is one round of the loop; it returns the pause until the next.
func (l *Loop) cycle(ctx context.Context) time.Duration {
	_, held := l.o.Lease.Held()
	if err := l.o.Fit(); err != nil {
		return l.yield(ctx, held, err)
	}
	if !held && !l.o.Candidate() {
		l.standby()
		return max(standbyPause, l.o.Quiet())
	}
	if !held && !l.seen && l.lost == 0 {
		if pause, over := l.early(ctx); over {
			return pause
		}
	}
	if !l.seen {
		l.prev, l.of = l.o.Previous(ctx)
		l.seen = true
	}
	obs := l.o.Observe(ctx, l.prev)
	if ctx.Err() != nil {
		return standbyPause
	}
	l.prev = obs
	if l.collectBackup(ctx, &obs) {
		return activePause // to an observation that shows it
	}
	spec := l.o.Spec()
	won := false
	if _, paused := obs.Store.Pause(); paused {
		l.o.Lease.Release(ctx)
	} else if now, err := l.lead(ctx, obs); err != nil {
		return l.follow(ctx, Report{Spec: spec, Observation: obs}, err)
	} else {
		if won = now; won {
			l.idle = time.Time{}
		}
	}
	obs = l.inherit(obs)
	obs.Failures = l.tries.failures()
	op, holds := plan.Next(spec, obs)
	r := Report{Spec: spec, Observation: obs, Holds: holds, Converged: plan.Converged(spec, obs)}
	switch {
	case op != nil && won && !l.reread && plan.InBackground(op):
		l.reread = true
		return 0 // to an observation that shows the backups of the coordinator before
	case op != nil:
		l.reread = false
		return l.act(ctx, r, op)
	}
	l.reread = false
	l.report(ctx, r)
	return min(l.rest(pauseAfter(r)), l.tries.next(l.o.Now()))
}

// follow is a cycle in which this daemon wanted to coordinate and may not. What
// it saw is reported only where nobody else coordinates: then it is all that
// people can learn.
func (l *Loop) follow(ctx context.Context, r Report, err error) time.Duration {
	var held *lease.HeldError
	if errors.As(err, &held) {
		l.standby()
		return max(standbyPause, min(held.Remaining, idlePause))
	}
	r.Observation.Failures = l.tries.failures()
	op, holds := plan.Next(r.Spec, r.Observation)
	if op != nil && plan.Unfenced(r.Observation, op) {
		r.Holds = holds
		return l.act(ctx, r, op)
	}
	none := plan.Hold{Reason: plan.NoCoordinator, Text: err.Error()}
	var bad *lease.BadTermError // no agreement comes before people have reset it
	if !errors.As(err, &bad) && slices.ContainsFunc(holds, func(h plan.Hold) bool { return h.Reason == plan.TakingOver }) {
		none.Text = "the nodes have not agreed yet on who may coordinate"
	}
	r.Holds = append([]plan.Hold{none}, holds...)
	l.report(ctx, r)
	l.lost++
	return backoff.Doubled(firstCampaignPause, maxCampaignPause, l.lost)
}

// act carries out op.
func (l *Loop) act(ctx context.Context, r Report, op plan.Operation) time.Duration {
	line, began, term := plan.Line(op), l.o.Now(), l.term(r.Observation)
	l.idle = time.Time{}
	l.o.Lease.Rest(false)
	r.Operation, r.Since = line, began
	l.report(ctx, r)
	if plan.InBackground(op) {
		l.startBackup(ctx, r, op)
		return activePause
	}
	l.o.Progress(l.o.Deadline(r.Observation, op) + cycleLimit)
	err := l.do(ctx, r, op)
	transient := l.o.NotYet != nil && l.o.NotYet(err)
	l.tries.note(line, err, transient, l.o.Now())
	r.Operation, r.Since = "", time.Time{}
	if transient {
		return waitingPause
	}
	r.Done = &Done{At: began, Term: term, Line: line, Took: l.o.Now().Sub(began), Err: err}
	l.report(ctx, r)
	return activePause
}

// do carries out op. While it takes long the cluster is observed and reported as ever,
// so that what is published, and what is known of grace times, does not grow old. What
// was held before op began is held.
func (l *Loop) do(ctx context.Context, r Report, op plan.Operation) error {
	ended := make(chan error, 1)
	go func() { ended <- l.o.Do(ctx, r.Spec, r.Observation, op) }()
	beat := time.NewTicker(idlePause)
	defer beat.Stop()
	_, led := l.o.Lease.Held()
	for {
		select {
		case err := <-ended:
			return err
		case <-beat.C:
		}
		obs := l.o.Observe(ctx, l.prev)
		if ctx.Err() != nil {
			return <-ended
		}
		l.prev = obs
		obs.Failures = r.Observation.Failures
		l.backup.show(&obs)
		r.Observation = obs
		if _, held := l.o.Lease.Held(); held || !led { // otherwise another may report
			l.report(ctx, r)
		}
	}
}

// pauseAfter returns the shortest pause that one of the holds asks for.
func pauseAfter(r Report) time.Duration {
	pause := idlePause
	if !r.Converged || len(r.Holds) > 0 {
		pause = heldPause
	}
	for _, h := range r.Holds {
		switch h.Reason {
		case plan.Bootstrap, plan.LearnerBehind, plan.MemberStarting:
			return soonPause
		case plan.WaitingForNodes, plan.StoreNotShared, plan.QuorumLost, plan.LeaseVotersDiffer, plan.SpecMissing, plan.Grace,
			plan.NotYet, plan.Restoring:
			pause = waitingPause
		}
	}
	return pause
}

// standby forgets what a coordinator knows: when this daemon takes over, it
// starts from what the last one published.
func (l *Loop) standby() {
	select {
	case <-l.backupEnded():
		l.backup = nil // it woke this loop, and would forever
	default:
	}
	l.prev, l.seen, l.of = cluster.Observation{}, false, 0
	l.events.forget()
}

func (l *Loop) report(ctx context.Context, r Report) {
	r.At, r.Coordinator, r.Term = l.o.Now(), l.o.Self, l.term(r.Observation)
	l.events.note(r)
	l.o.Report(ctx, r)
}

// term is the one of the lease that counts for what was observed, zero for none. Without
// lease voters there is a bootstrap, in which the store decides: a lease that is held
// then is of an incarnation that never began, and nothing is done under it.
func (l *Loop) term(obs cluster.Observation) (term cluster.Term) {
	if len(obs.LeaseVoters.Names) > 0 {
		term, _ = l.o.Lease.Held()
	}
	return term
}
