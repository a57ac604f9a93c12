package handover

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/host/hostfs"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/host/operate"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/crashpoint"
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
	// Config is the spec for etcdadm's side. Its version has no say: the member
	// keeps the one that it runs.
	Config machine.Config
	// Open returns the machine for a configuration; endpoints are client URLs of
	// other members.
	Open func(cfg machine.Config, endpoints []string) (Machine, error)

	// ManagerDir and PKIDir are the daemon's directories.
	ManagerDir, PKIDir string
	// EtcdDir is where the daemon finds binaries, in etcd-v<version>.
	EtcdDir string
	// ClusterName, BackupStore and GRPCPort are what the daemon is told. They are
	// not needed on the way back.
	ClusterName, BackupStore string
	GRPCPort                 int
	// NewIncarnation lets the daemons begin anew where the lease voters on record are
	// of no use any more. By it the operator says that no daemon runs a member of
	// this cluster.
	NewIncarnation bool

	// Endpoints are client URLs of other members, on the way back; by default
	// those that were seen on the way there, or that follow from the peer URLs.
	Endpoints []string
	// Alone starts the member, on the way back, although no other one answers.
	Alone bool

	// Began is called before a step, nil for nobody.
	Began func(Step)
}

// A Step is one change.
type Step struct {
	Name string `json:"name"`
	Text string `json:"text"`

	needed func() (bool, error)
	do     func(ctx context.Context) error
}

// A Result is what was done.
type Result struct {
	Steps []Step `json:"steps"`
	// Journal is what was decided.
	Journal Journal `json:"-"`
	// Daemon is how the daemon is to be started, nil on the way back.
	Daemon *Daemon `json:"daemon,omitempty"`
}

// Plan returns the steps that are yet to be done in that direction, and changes
// nothing. What only a change can tell is not found out: whether the data can be
// renamed, and who wins the race for the record.
func Plan(ctx context.Context, o Options, d Direction) (Result, error) {
	way, err := open(ctx, o, d, true)
	if err != nil {
		return Result{}, err
	}
	defer way.close(context.WithoutCancel(ctx))
	r := way.result()
	for _, s := range way.steps() {
		needed, err := s.needed()
		if err != nil {
			return r, fmt.Errorf("%s: %w", s.Name, err)
		}
		if needed {
			r.Steps = append(r.Steps, s)
		}
	}
	return r, nil
}

// Run hands the machine's etcd over in that direction. A handover that ended
// before its end, in whatever way, is run again.
func Run(ctx context.Context, o Options, d Direction) (Result, error) {
	way, err := open(ctx, o, d, false)
	if err != nil {
		return Result{}, err
	}
	defer way.close(context.WithoutCancel(ctx))
	var done []Step
	for _, s := range way.steps() {
		needed, err := s.needed()
		if err == nil && needed {
			if o.Began != nil {
				o.Began(s)
			}
			crashpoint.Hit("handover." + s.Name + ".before")
			err = s.do(ctx)
			crashpoint.Hit("handover." + s.Name + ".after")
			done = append(done, s)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return Result{Steps: done}, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	r := way.result()
	r.Steps = done
	return r, nil
}

// A way is one direction.
type way interface {
	steps() []Step
	result() Result
	close(ctx context.Context)
}

func open(ctx context.Context, o Options, d Direction, dry bool) (way, error) {
	j, err := ReadJournal(o.Config)
	if err != nil {
		return nil, err
	}
	if j != nil && j.ManagerDir != o.ManagerDir {
		here, err := hasMember(o.Config.Paths.Data)
		if err != nil {
			return nil, err
		}
		if !here || !j.Done {
			return nil, hold(ManagerState, flag+"="+j.ManagerDir, "the member was handed over to %s", j.ManagerDir)
		}
	}
	s := side{o: o, j: j, dry: dry, now: time.Now()}
	var w interface {
		way
		prepare(ctx context.Context) error
	}
	switch d {
	case ToManager:
		w = &there{side: s}
	case FromManager:
		w = &back{side: s}
	default:
		return nil, fmt.Errorf("there is no handover %q", d)
	}
	if err := w.prepare(ctx); err != nil {
		w.close(context.WithoutCancel(ctx))
		return nil, err
	}
	return w, nil
}

// A side is what both directions have in common.
type side struct {
	o   Options
	m   Machine
	cfg machine.Config
	dry bool
	now time.Time
	// j is the journal: of an earlier run, or of this one.
	j *Journal
	// state is the daemon's memory, locked; nil in a dry run.
	state *nodestate.File
}

func (s *side) close(context.Context) {
	if s.state != nil {
		_ = s.state.Close() // the lock ends with the process at the latest
	}
}

// open opens etcdadm's side of the machine.
func (s *side) open(cfg machine.Config, endpoints []string) (err error) {
	if s.m, err = s.o.Open(cfg, endpoints); err == nil {
		s.cfg = s.m.Config()
	}
	return err
}

// lockManager makes sure that no daemon runs, and that none starts until the
// end. It returns what the daemon remembers.
func (s *side) lockManager(self nodestate.Self) (nodestate.State, error) {
	dir := s.o.ManagerDir
	busy, err := locked(filepath.Join(dir, managerLock))
	if err != nil {
		return nodestate.State{}, err
	}
	if busy {
		return nodestate.State{}, s.managerRuns()
	}
	if s.dry {
		return nodestate.Read(dir)
	}
	s.state, err = nodestate.Open(dir, self)
	if taken := (*hostfs.LockedError)(nil); errors.As(err, &taken) {
		return nodestate.State{}, s.managerRuns()
	}
	if err != nil {
		return nodestate.State{}, err
	}
	return s.state.State(), nil
}

// managerLock is the file in its data directory that a daemon has locked, see
// package nodestate.
const managerLock = "etcdadm.lock"

func (s *side) managerRuns() *Hold {
	return hold(ManagerRuns,
		"stop etcd-manager on this machine, and keep it from being started until the handover is done",
		"an etcd-manager, or another handover, has %s open", s.o.ManagerDir)
}

// self is the member as the daemon's state file has it.
func (s *side) self(name cluster.NodeName, urls cluster.URLs) nodestate.Self {
	return nodestate.Self{Name: name, URLs: urls, TLS: true}
}

func (s *side) step(name, text string, needed func() (bool, error), do func(context.Context) error) Step {
	return Step{Name: name, Text: text, needed: needed, do: do}
}

func (s *side) dataOf(token cluster.Token) string { return nodestate.DataDir(s.o.ManagerDir, token) }

// flag names where the two directories come from.
const flag = "--manager-data-dir"

// locking has f run while no other etcdadm works on the machine.
func (s *side) locking(f func() error) error {
	unlock, err := s.m.Lock(machine.Goal{})
	if err != nil {
		return err
	}
	defer unlock()
	return f()
}

// observed checks the machine and at its cluster.
func (s *side) observe(ctx context.Context) (machine.Observation, error) {
	// The goal decides whom to ask: all members that the machine knows of.
	return s.m.Observe(ctx, machine.Goal{Action: machine.Reset})
}

func always() (bool, error) { return true, nil }
