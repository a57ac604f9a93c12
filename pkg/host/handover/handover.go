package handover

import (
	"context"
	"errors"
	"fmt"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A Machine is etcdadm's side of the machine. A [*operate.Machine] is one.
type Machine interface {
	Config() machine.Config
	Observe(ctx context.Context, goal machine.Goal) (machine.Observation, error)
	Run(ctx context.Context, goal machine.Goal) (operate.Result, error)
	Lock(goal machine.Goal) (unlock func(), err error)
}

// Options say what is handed over, and to whom.
type Options struct {
	machine.Manager
	// Config is the spec for etcdadm's side. Its version has no say: the member
	// keeps the one that it runs.
	Config machine.Config
	// Open returns the machine for a configuration; endpoints are client URLs of
	// other members.
	Open func(cfg machine.Config, endpoints []string) (Machine, error)
	// OpenStore opens the control store, by default store.Open.
	OpenStore func(ctx context.Context, location string) (*store.Store, error)
	// Began is called before a step, nil for nobody.
	Began func(machine.Step)
	// Fetching is called with the URL of an archive of etcd before anybody is asked for it, and
	// Waiting with why a try to fetch it failed, nil for nobody.
	Fetching, Waiting func(text string)
	// Warned is called with what is odd and holds nothing back, and what it is of.
	Warned func(of, text string)
}

// A Result is what was done.
type Result struct {
	Steps []machine.Step
	// Journal is what was decided.
	Journal machine.Journal
	// Daemon is how the daemon is to be started, nil when it is handed back.
	Daemon *machine.Daemon
}

// Plan returns the steps that are yet to be done in that direction, and changes
// nothing. What only a change can show is not found out: whether the data can be
// renamed, and who wins the race for the record.
func Plan(ctx context.Context, o Options, direction machine.Action) (Result, error) {
	r := newRunner(o, direction)
	defer r.close(context.WithoutCancel(ctx))
	obs, err := r.observe(ctx)
	if err != nil {
		return Result{}, err
	}
	steps, why, err := machine.Plan(r.goal, r.m.Config(), obs)
	if why != nil {
		err = r.held(why)
	}
	if err != nil {
		return Result{}, err
	}
	result := r.result(obs)
	result.Steps = steps
	return result, nil
}

// maxSteps bounds a run: the longest plan has ten steps, and some may be done again.
const maxSteps = 30

// Run hands the machine's etcd over in that direction: it observes, does the first step
// of the plan, and observes again, until nothing is left. A handover that ended before
// its end, in whatever way, is run again.
func Run(ctx context.Context, o Options, direction machine.Action) (Result, error) {
	r := newRunner(o, direction)
	defer r.close(context.WithoutCancel(ctx))
	var done []machine.Step
	for {
		obs, err := r.observe(ctx)
		if err != nil {
			return Result{Steps: done}, err
		}
		step, why := machine.Next(r.goal, r.m.Config(), obs)
		if why != nil {
			return Result{Steps: done}, r.held(why)
		}
		result := r.result(obs)
		if result.Steps = done; step == nil {
			return result, nil
		}
		if _, copies := step.Do.(*machine.CopyCA); !copies && r.state == nil {
			if err := r.lock(result.Journal); err != nil {
				return Result{}, err
			}
			continue // somebody may have been at work since
		}
		if len(done) == maxSteps {
			return Result{Steps: done}, fmt.Errorf("%s: %s still has to be done after it was done", step.Phase, step.Text())
		}
		if o.Began != nil {
			o.Began(*step)
		}
		crashpoint.Hit("handover." + step.Phase + ".before")
		err = r.do(ctx, step.Do)
		crashpoint.Hit("handover." + step.Phase + ".after")
		done = append(done, *step)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return Result{Steps: done}, fmt.Errorf("%s: %w", step.Phase, err)
		}
	}
}

// A runner observes and carries out one direction.
type runner struct {
	o    Options
	goal machine.Goal
	// m is etcdadm's side, opened for the configuration and endpoints of opened.
	m      Machine
	opened string
	// state is the daemon's memory, locked; nil until the first change.
	state *nodestate.File
	store *store.Store
	// storeErr is why the control store could not be read.
	storeErr error
	// decided is the journal of the last observation that has the member.
	decided machine.Journal
}

func newRunner(o Options, direction machine.Action) *runner {
	if o.OpenStore == nil {
		o.OpenStore = store.Open
	}
	return &runner{o: o, goal: machine.Goal{Action: direction, Manager: o.Manager}}
}

func (r *runner) close(ctx context.Context) {
	if r.state != nil {
		_ = r.state.Close() // the lock ends with the process at the latest
	}
	r.closeStore(ctx)
}

// held returns a hold as an error: of a store that does not answer, why it does not.
func (r *runner) held(why *machine.Hold) error {
	if why.Reason == machine.StoreUnreachable && r.storeErr != nil {
		return r.storeErr
	}
	return why
}

// result describes the handover as an observation has it.
func (r *runner) result(obs machine.Observation) Result {
	cfg := r.m.Config()
	if j, why := machine.DecideHandover(r.goal, cfg, obs); why == nil && j.Node != "" {
		r.decided = j
	}
	result := Result{Journal: r.decided}
	if r.goal.Action == machine.ToManager {
		c := obs.Handover.Control
		result.Daemon = r.o.Daemon(cfg, r.decided, c != nil && c.Seeded)
	}
	return result
}

// lock makes sure that no daemon runs, and that none starts until the end.
func (r *runner) lock(j machine.Journal) (err error) {
	cfg := r.m.Config()
	self := nodestate.Self{Name: cfg.Name, URLs: machine.URLs(cfg)}
	if r.goal.Action == machine.ToManager {
		self.Name, self.URLs = j.Node, j.URLs
	}
	r.state, err = nodestate.Open(r.o.ManagerDir, self)
	if taken := (*hostfs.LockedError)(nil); errors.As(err, &taken) {
		return machine.ManagerOpen(r.o.Manager)
	}
	return err
}

// locking has f run while no other etcdadm works on the machine.
func (r *runner) locking(f func() error) error {
	unlock, err := r.m.Lock(machine.Goal{})
	if err != nil {
		return err
	}
	defer unlock()
	return f()
}
