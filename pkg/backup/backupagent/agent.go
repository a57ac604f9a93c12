package backupagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/backup/backupagent/sweep"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// A Store is what an agent does with a backup store: [store.Store] is one.
type Store interface {
	backup.Target
	backup.Objects
	sweep.Store
	Put(ctx context.Context, key string, b []byte) error
	Requests() int64
}

// A Config says what an agent does.
type Config struct {
	// ClusterName is written into the backups.
	ClusterName string
	Store       Store
	// Endpoints are the client URLs of the members that this agent reads from,
	// Dial connects to them.
	Endpoints []string
	Dial      Dial
	Schedule  Schedule
	Prefer    Prefer
	// Lease and Timeout are how long a dead agent's claim, and its rank, hold the
	// others back; zero is what fits the schedule.
	Lease, RankTimeout time.Duration
	// Timeout is how long one backup may take, Stall how long it may stand still;
	// zero is an hour, and five minutes.
	Timeout, Stall time.Duration
	// Compression, Recipients and Signer are those of [backup.TakeOptions].
	Compression string
	Recipients  []backup.Recipient
	Signer      *backup.Signer
	// Trusted are the signers whose backups of this cluster count, none for all
	// backups.
	Trusted backup.Trusted
	// SkipUnchanged takes no backup while the revision is that of the newest one.
	SkipUnchanged bool
	// Verify reads each backup back.
	Verify bool
	// Retention is the policy by which old backups are deleted after each backup;
	// nil deletes nothing.
	Retention *retention.Policy
	// Progress, if not nil, receives how many bytes of a snapshot have been read,
	// and about how many there are.
	Progress func(done, total int64)
	// Clock is the time of day, [time.Now] if nil. Those of other agents may differ.
	Clock func() time.Time
	// Name names the agent among others, Tool the program in the backups.
	Name, Tool string
	Log        *slog.Logger
}

const (
	defaultTimeout      = time.Hour
	defaultStallTimeout = 5 * time.Minute
	maxLeaseTime        = 30 * time.Second
	maxTimeout          = 15 * time.Second
)

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	period := c.Schedule.Period(c.Clock())
	fill := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	fill(&c.Timeout, defaultTimeout)
	fill(&c.Stall, defaultStallTimeout)
	fill(&c.Lease, max(min(period/2, maxLeaseTime), time.Second))
	fill(&c.RankTimeout, min(period/5, maxTimeout))
	if c.Prefer == "" {
		c.Prefer = Follower
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// An Agent backs up a cluster. Its methods but Metrics and Health are for one
// goroutine.
type Agent struct {
	c       Config
	log     *slog.Logger
	claims  claims
	metrics *metrics
	vetter  *backup.Vetter
	began   time.Time
	state   State
	// newest is what State.Newest is the time of, before what was the newest before
	// this agent's last backup. Those in bad do not count: they were damaged when
	// they were read back, which the store may not say.
	newest, before cluster.Backup
	bad            map[string]bool
	// listErr is why the store could not be listed the last time.
	listErr error
	// foreign is the cluster whose backups the store should not have, for Health.
	foreign atomic.Pointer[string]
	// observations is how often in a row no member answered.
	observations int
	// pruned is when old backups were last deleted.
	pruned time.Time
	// warned is that the log says that results cannot be stored.
	warned bool
	// said is what was last logged about why nothing is done.
	said string
	// satisfied is the time of the newest backup, or of when it was found to be as
	// good as a new one, for Health.
	satisfied atomic.Pointer[time.Time]
}

// New returns an agent.
func New(c Config) *Agent {
	c = c.withDefaults()
	fetch := backup.FetchOptions{Trusted: c.Trusted, Cluster: c.ClusterName}
	a := &Agent{c: c, log: c.Log, vetter: &backup.Vetter{Store: c.Store, Fetch: fetch}, began: c.Clock(),
		bad: map[string]bool{}, claims: claims{
			store: c.Store, id: c.Name, lease: c.Lease, clock: c.Clock,
		}}
	a.metrics = newMetrics(c.Clock, c.Store.Requests, a.lastBackup, func() bool { return a.Health(c.Clock()) == nil })
	return a
}

func (a *Agent) rules() Rules {
	return Rules{Schedule: a.c.Schedule, Prefer: a.c.Prefer, RankTimeout: a.c.RankTimeout, Agent: a.c.Name}
}

// Run backs up on schedule until ctx ends. A backup that is under way then is
// broken off, and leaves nothing behind.
func (a *Agent) Run(ctx context.Context) {
	for ctx.Err() == nil {
		d := a.step(ctx)
		a.say(ctx, d)
		a.sleepUntil(ctx, d.Next)
	}
}

// sleepUntil returns at a time by the clock on the wall, which may be set
// meanwhile, or when ctx ends.
func (a *Agent) sleepUntil(ctx context.Context, t time.Time) {
	for {
		// Without its monotonic reading, so that a clock that is set counts.
		left := t.Round(0).Sub(a.c.Clock().Round(0))
		if left <= 0 || wait.For(ctx, min(left, time.Minute)) != nil {
			return
		}
	}
}

// say logs why nothing is done, once.
func (a *Agent) say(ctx context.Context, d Decision) {
	if d.Why == "" || d.Why == a.said {
		return
	}
	a.said = d.Why
	level := slog.LevelDebug
	if d.Idle {
		level = slog.LevelInfo
	}
	a.log.Log(ctx, level, "waiting", "why", d.Why, "until", d.Next.UTC().Format(time.RFC3339))
}

// step observes and decides, and takes a backup if that is the decision. It returns
// what is then to be waited for.
func (a *Agent) step(ctx context.Context) Decision {
	a.list(ctx)
	if d, wait := Wait(a.rules(), a.state); wait {
		return d
	}
	view, err := a.view(ctx)
	if err != nil {
		return a.noMember(ctx, err)
	}
	a.observations, a.state.View = 0, view
	d := decide(a.rules(), a.state)
	if !d.Act {
		return d
	}
	_, err = a.act(ctx, d.Candidate, d.Key)
	var busy *busyError
	switch {
	case ctx.Err() != nil:
		return Decision{}
	case errors.As(err, &busy):
		return a.busy(busy)
	case err != nil:
		a.state.Failures++
		a.state.Failed = a.c.Clock()
		a.metrics.failed(taking)
		a.log.Error("backup failed", "member", d.Candidate.Endpoint, "failures", a.state.Failures, "err", err)
	default:
		a.state.Failures, a.said = 0, ""
	}
	a.state.Now = a.c.Clock()
	d, _ = Wait(a.rules(), a.state)
	return d
}

// store is the store with the backups that count.
func (a *Agent) store() sweep.Store { return sweep.Vetted{Store: a.c.Store, Vet: a.vetter.Vet} }

// list checks the store's backups. An agent that cannot goes by what it knows.
func (a *Agent) list(ctx context.Context) {
	backups, err := a.store().Backups(ctx)
	a.state.Now = a.c.Clock()
	if err != nil {
		if ctx.Err() == nil && a.listErr == nil {
			a.log.Warn("the store's backups cannot be listed: using what this agent knows", "err", err)
		}
		a.listErr, a.state.Listed = err, false
		a.metrics.failed(listing)
		return
	}
	a.listErr, a.state.Listed = nil, true
	a.newest = a.newestOwn(backups)
	a.state.Newest = a.newest.At
	a.metrics.listed(backups, a.newest)
	a.satisfy()
}

// newestOwn returns the newest backup of the agent's cluster. A store is for one
// cluster; where another's backups lie in it, they must neither count nor be
// deleted.
func (a *Agent) newestOwn(backups []cluster.Backup) cluster.Backup {
	all := slices.Clone(backups)
	for i, b := range all {
		all[i].Damaged = b.Damaged || a.bad[b.Name]
	}
	foreign := newestGood(all, a.state.Now).Foreign
	if last := a.foreign.Swap(&foreign); foreign != "" && (last == nil || *last != foreign) {
		a.log.Error("the store has backups of another cluster: each cluster needs a store of its own; nothing is deleted", "cluster",
			foreign)
	}
	return newestGood(cluster.Store{Backups: all}.Own(), a.state.Now)
}

// satisfy updates Health and the metrics from when on a backup is missing.
func (a *Agent) satisfy() {
	at := a.state.satisfied()
	a.satisfied.Store(&at)
}

// view checks the cluster.
func (a *Agent) view(ctx context.Context) (View, error) {
	others := a.c.Prefer == Follower || a.c.Prefer == Leader
	v, err := a.c.Dial.view(ctx, a.c.Endpoints, others)
	if err == nil {
		err = v.oneCluster()
	}
	a.state.Now = a.c.Clock()
	return v, err
}

// noMember waits for etcd, which as a rule comes back soon: longer each time,
// and never as long as after a failed backup, because asking costs nothing.
func (a *Agent) noMember(ctx context.Context, err error) Decision {
	if ctx.Err() != nil {
		return Decision{}
	}
	a.observations++
	a.metrics.failed(observing)
	if a.observations == 1 || a.said != err.Error() {
		a.log.Warn("no member answers", "err", err)
	}
	a.said = err.Error()
	wait := min(time.Duration(a.observations)*minRetryDelay, idleInterval, a.c.Schedule.Period(a.state.Now))
	return Decision{Next: a.state.Now.Add(wait)}
}

// busy waits for the agent that has the claim.
func (a *Agent) busy(b *busyError) Decision {
	now := a.c.Clock()
	if b.Done {
		a.state.Confirmed = now
		a.satisfy()
		a.state.Now = now
		d, _ := Wait(a.rules(), a.state)
		return d
	}
	next := b.Until
	if latest := now.Add(idleInterval); next.After(latest) {
		next = latest
	}
	return Decision{Next: next, Why: b.By + " is taking this backup"}
}

// lastBackup returns the time of the newest backup, zero for none.
func (a *Agent) lastBackup() time.Time {
	if at := a.satisfied.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Health reports an error when three backups in a row are missing, counted from
// the newest one in the store, whoever took it, or from the start of the agent;
// and when another cluster's backups are in the store.
func (a *Agent) Health(now time.Time) error {
	last, since := a.lastBackup(), a.began
	if last.After(since) {
		since = last
	}
	foreign := a.foreign.Load()
	switch {
	case foreign != nil && *foreign != "":
		return fmt.Errorf("the store has backups of another cluster, %s", *foreign)
	case !now.After(a.c.Schedule.Overdue(since)):
		return nil
	case last.IsZero():
		return fmt.Errorf("no backup is known, and this agent has been running since %s", a.began.UTC().Format(time.RFC3339))
	}
	return fmt.Errorf("%d backups in a row are missing: the newest is of %s", missedBackups,
		last.UTC().Format(time.RFC3339))
}
