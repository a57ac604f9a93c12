package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// A Config says how to play. The zero value plays the real planner.
type Config struct {
	// Next is the planner, [plan.Next] if nil.
	Next func(cluster.Spec, cluster.Observation) (plan.Operation, []plan.Hold)
	// Trusting makes executors do as they are ordered: neither [plan.Check] nor the
	// state on a node's disk is asked. What is left are the invariants of the
	// world.
	Trusting bool
	// Versions has machines with several versions of etcd, and a spec that asks for one
	// after the other.
	Versions bool
	// Ports has peer ports closed, and daemons that try them.
	Ports bool
	// RolledBack has the store, and disks, go back to what they were.
	RolledBack bool
	// Sealed, which goes with Versions, has operators allow restores as a version to which
	// nothing else leads.
	Sealed bool
	// Record keeps the log of the run.
	Record bool
}

// A History is what happened in a run.
type History struct {
	Seed uint64
	// Versions, Ports, RolledBack and Sealed are those of [Config].
	Versions, Ports, RolledBack, Sealed bool
	Faults                              []Fault
	// Steps and Operations are how many there were.
	Steps, Operations int
	// Converged says that the cluster was what the spec asks for at the end;
	// otherwise Holds says why not.
	Converged bool
	Holds     []plan.Hold
	// Log is the scenario, if the run was recorded.
	Log []string
}

// A Failure is returned by [Run] for a history that broke an invariant.
type Failure struct {
	Invariant string
	Text      string
	History   History
}

func (f *Failure) Error() string {
	var b strings.Builder
	kind := ""
	if f.History.Versions {
		kind = " with versions"
	}
	if f.History.Ports {
		kind += " with closed ports"
	}
	if f.History.RolledBack {
		kind += " with rollbacks"
	}
	if f.History.Sealed {
		kind += " with sealed restores"
	}
	fmt.Fprintf(&b, "seed %d%s, step %d: %s: %s", f.History.Seed, kind, f.History.Steps, f.Invariant, f.Text)
	for _, fault := range f.History.Faults {
		fmt.Fprintf(&b, "\n  %s", fault)
	}
	for _, line := range f.History.Log {
		fmt.Fprintf(&b, "\n%s", line)
	}
	return b.String()
}

// The bounds of a run.
const (
	// maxQuiet is how many steps a cluster may take to settle when the faults
	// are over, maxIdle how many of them in a row without an operation that
	// changes the cluster: longer than every wait of the default policy.
	maxQuiet = 1500
	maxIdle  = 40

	busyPause = time.Second
	idlePause = 30 * time.Second
)

// Run plays the history of a seed. The error, if any, is a [*Failure].
func Run(seed uint64, c Config) (History, error) {
	faults, steps := c.history(seed)
	return Replay(seed, c, faults, steps)
}

// Replay plays the history of a seed with other faults, in a number of steps.
func Replay(seed uint64, c Config, faults []Fault, steps int) (History, error) {
	w := newWorld(seed, c)
	h := History{
		Seed: seed, Versions: c.Versions, Ports: c.Ports, RolledBack: c.RolledBack, Sealed: c.Sealed, Faults: faults,
	}
	for w.step < steps && w.broken == nil {
		w.cycle(faults)
	}
	if w.broken == nil {
		w.calm()
		h.Converged, h.Holds = w.settle()
	}
	h.Steps, h.Operations, h.Log = w.step, w.ops, w.log
	if w.broken != nil {
		return h, &Failure{Invariant: w.broken.invariant, Text: w.broken.text, History: h}
	}
	return h, nil
}

// cycle is one step of the time of faults.
func (w *world) cycle(faults []Fault) {
	w.reseed()
	for _, f := range faults {
		if f.Step == w.step {
			w.inject(f)
		}
	}
	w.heal()
	w.deliver()
	w.tick()
	w.takeImages()
	w.deliverOrders()
	busy := w.runDelayed()
	acted := w.actAll().acted
	w.advance(busy || acted)
}

func (w *world) advance(busy bool) {
	w.step++
	if busy {
		w.pass(busyPause + time.Duration(w.rand.IntN(3000))*time.Millisecond)
	} else {
		w.pass(time.Duration(5+w.rand.IntN(25)) * time.Second)
	}
}

// restTime is how much time passes in which a coordinator is at rest at the end.
const restTime = 20 * time.Second

// pass lets time pass. Who holds the lease has renewed it shortly before the end.
func (w *world) pass(d time.Duration) {
	held := w.holders()
	for _, n := range held {
		n.candidate.TTL = lease.DefaultTTL
		if d >= restTime {
			n.candidate.TTL = lease.RestTTL
		}
	}
	w.now = w.now.Add(d - lease.RenewInterval/2)
	w.keep(held)
	w.now = w.now.Add(lease.RenewInterval / 2)
}

// settle goes on without faults until the cluster is what the spec asks for,
// or has nothing left to do.
func (w *world) settle() (bool, []plan.Hold) {
	idle := 0
	var holds []plan.Hold
	for range maxQuiet {
		w.reseed()
		w.changed = false
		w.heal()
		w.tick()
		t := w.actAll()
		if w.broken != nil {
			return false, nil
		}
		holds = t.holds
		if t.op == nil && (t.led() || idle > maxIdle) && w.settled() && (idle > maxIdle || w.untrue(holds) == nil) {
			w.refute(holds)
			return true, holds
		}
		tried := t.acted && !upkeep(t.op)
		if tried && w.changed {
			idle = 0
		} else if idle++; idle > maxIdle && w.operatorHelps(holds) {
			idle = 0
		} else if idle > maxIdle && t.op == nil { // behind an operation not all is said
			w.justify(holds)
			w.refute(holds)
			return false, holds
		}
		w.step++
		if t.acted {
			w.pass(busyPause)
		} else {
			w.pass(idlePause)
		}
	}
	w.violate("stuck", "not settled after %d steps without faults", maxQuiet)
	return false, nil
}

func upkeep(op plan.Operation) bool {
	switch op.(type) {
	case *plan.BackupTake, *plan.BackupVerify, *plan.BackupDrill, *plan.BackupPrune, *plan.DataDiscard:
		return true
	}
	return false
}

// act lets the daemon on by observe, plan and carry out one operation.
func (w *world) act(by *node) outcome {
	obs := w.observe(by)
	if !w.lead(by, &obs) {
		none := plan.Hold{Reason: plan.NoCoordinator, Text: "no majority of the lease voters"}
		if w.heldByAnother(by, &obs) {
			by.memory = nil
			return outcome{holds: []plan.Hold{none}}
		}
		op, holds := w.config.Next(w.spec, obs)
		if op != nil && plan.Unfenced(obs, op) {
			w.carryOut(by, &obs, op)
			return outcome{op, holds, true}
		}
		return outcome{holds: append([]plan.Hold{none}, holds...)}
	}
	if by != w.lastActor {
		w.lastActor, by.failures = by, nil
		w.logf("%s acts", by.name)
	}
	if !w.unreadable(by) {
		term, _, _ := by.candidate.Held(by.mono(w.now))
		if w.published == nil || term >= w.published.term {
			w.published = &published{obs: obs, term: term, in: w.storeOf(by)}
			w.mark(by, obs.Revision)
		}
	}
	op, holds := w.config.Next(w.spec, obs)
	if op == nil {
		if len(holds) == 0 && !plan.Converged(w.spec, obs) {
			w.violate("unexplained", "nothing is done and nothing is said")
		}
		w.logf("%s: %v", by.name, holds)
		return outcome{holds: holds}
	}
	w.carryOut(by, &obs, op)
	return outcome{op, holds, true}
}

// mark raises the mark in the store of who coordinates above a revision that it has
// seen, with room for more.
func (w *world) mark(by *node, seen cluster.Revision) {
	s := w.storeOf(by)
	s.mark = ahead(s.mark, seen)
}

// ahead is the mark for what was seen.
func ahead(mark, seen cluster.Revision) cluster.Revision {
	const step = 1_000_000
	if seen <= mark {
		return mark
	}
	return (seen/step + 1) * step
}

// carryOut does op with the faults that wait for an operation.
func (w *world) carryOut(by *node, obs *cluster.Observation, op plan.Operation) {
	if !w.config.Trusting {
		if err := plan.Check(w.spec, *obs, op); err != nil {
			w.violate("check", "%s: %v", plan.Line(op), err)
			return
		}
	}
	fault := FaultKind("")
	if len(w.armed) > 0 {
		fault, w.armed = w.armed[0], w.armed[1:]
	}
	w.logf("%s: %s   %s", by.name, plan.Line(op), fault)
	switch fault {
	case OpFails:
		w.note(by, op, errUnreachable)
	case OpHalf:
		if s, ok := op.(*plan.MemberStart); ok && w.reaches(by, w.node(s.Node)) {
			w.halfStart(w.node(s.Node), s, w.claim(by))
		}
		w.note(by, op, errUnreachable)
	case OpDelayed, Rival:
		w.delayed = append(w.delayed, delayed{by: by, op: op, due: w.step + 1 + w.rand.IntN(10)})
	case DiesBefore:
		w.die(by)
	case OrderLate:
		w.late = true
		w.effect(by, obs, op, false)
		w.late = false
	default:
		w.effect(by, obs, op, fault == OpLost)
		if fault == DiesAfter {
			w.die(by)
		}
	}
}

func (w *world) die(n *node) {
	n.shutdown()
	n.until = w.step + 2 + w.rand.IntN(20)
}

func (w *world) effect(by *node, obs *cluster.Observation, op plan.Operation, lost bool) {
	before := w.quorate()
	err := w.do(by, obs, op)
	if !w.mayWait(op) {
		w.checkQuorum(before, op)
	}
	if p, ok := op.(*plan.Promote); ok && err == nil && w.promotedGone {
		w.takeAway(w.node(p.Name))
	} else if ok && err == nil && w.recordBehind {
		w.leaveBehind(by, w.node(p.Name))
	}
	w.ops++
	if err == nil && (lost || writes(op) && w.lags(by)) {
		err = errUnreachable
	}
	if err != nil {
		w.logf("     %v", err)
	}
	w.changed = w.changed || err == nil
	w.note(by, op, err)
}

// note remembers a failure, so that the operation waits before it is tried
// again.
func (w *world) note(by *node, op plan.Operation, err error) {
	line := plan.Line(op)
	i := slices.IndexFunc(by.failures, func(f failure) bool { return f.line == line })
	switch {
	case err == nil:
		by.failures = nil
	case i >= 0:
		f := &by.failures[i]
		f.wait = min(2*f.wait, time.Minute)
		f.retry = by.wall(w.now).Add(f.wait)
	default:
		by.failures = append(by.failures, failure{
			line: line, text: err.Error(), wait: time.Second, retry: by.wall(w.now).Add(time.Second),
		})
	}
}

// runDelayed carries out operations that were planned some steps ago. Like
// every executor it asks Check about the present first.
func (w *world) runDelayed() bool {
	ran := false
	w.delayed = slices.DeleteFunc(w.delayed, func(d delayed) bool {
		if d.due > w.step {
			return false
		}
		if !d.by.up {
			return true
		}
		obs := w.observe(d.by)
		if !w.lead(d.by, &obs) && !plan.Unfenced(obs, d.op) || !w.config.Trusting && plan.Check(w.spec, obs, d.op) != nil {
			return true
		}
		w.logf("%s, late: %s", d.by.name, plan.Line(d.op))
		w.effect(d.by, &obs, d.op, false)
		ran = true
		return true
	})
	return ran
}
