package sim

import (
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A node has two clocks: the one on the wall, which may be wrong and jump, and the
// monotonic one, which the lease is counted by: its rate is not quite right, and
// it may stand still while the machine is suspended.
const (
	// ClockJumps sets the wall clock of a node forward or back.
	ClockJumps FaultKind = "clock jumps"
	// Freezes stops a machine for a while. It goes on where it was.
	Freezes FaultKind = "machine stands still"
)

var clockKinds = []FaultKind{ClockJumps, Freezes, Freezes}

// A clock is how a node's clocks differ from the world's.
type clock struct {
	ahead time.Duration // of the one on the wall
	// rate is by how many parts in a thousand the monotonic one is fast, since a
	// moment in which it reported something.
	rate     int
	since    time.Time
	reported time.Time
	// frozen is since when the machine stands still, zero for not at all; frozenTo
	// the step up to which, and stops whether its monotonic clock does so too.
	frozen   time.Time
	frozenTo int
	stops    bool
	// stood says that the daemon has stood still since its last observation; doubt, that it
	// may believe to have a lease that is over.
	stood, doubt bool
}

// maxRate is how many parts in a thousand a clock may be fast or slow, less than
// what [lease.Margin] is good for.
const maxRate = 40

// wall is what n's clock on the wall shows.
func (n *node) wall(now time.Time) time.Time { return now.Add(n.clock.ahead) }

// mono is what n's monotonic clock shows.
func (n *node) mono(now time.Time) time.Time {
	c := &n.clock
	if c.since.IsZero() {
		c.since, c.reported = now, now
	}
	d := now.Sub(c.since)
	return c.reported.Add(d + d*time.Duration(c.rate)/1000)
}

func (w *world) injectClock(n *node, f Fault) {
	switch f.Kind {
	case ClockJumps:
		ahead := []time.Duration{
			time.Minute, -time.Minute, 20 * time.Second, 10 * time.Minute, -10 * time.Minute, 3 * time.Hour, -3 * time.Hour,
			400 * 24 * time.Hour,
		}
		w.setClock(n, ahead[f.N%len(ahead)])
		for _, o := range w.nodes {
			w.drift(o)
		}
	case Freezes:
		if n.up && n.clock.frozen.IsZero() {
			n.clock.frozen, n.clock.frozenTo, n.clock.stops = w.now, w.step+1+f.N/3, f.N%2 == 0
		}
	}
}

// setClock sets n's clock on the wall. What the daemon remembers it has from the
// monotonic clock as well, by which durations are counted.
func (w *world) setClock(n *node, ahead time.Duration) {
	by := ahead - n.clock.ahead
	w.skew = max(w.skew, ahead.Abs())
	n.clock.ahead = ahead
	n.shift(by)
}

// shift moves the times that n's daemon remembers.
func (n *node) shift(by time.Duration) {
	move := func(t *time.Time) {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	move(&n.since)
	for i := range n.failures {
		move(&n.failures[i].retry)
	}
	if n.memory == nil {
		return
	}
	obs := *n.memory
	move(&obs.At)
	move(&obs.Since)
	obs.Members = append([]cluster.Member(nil), obs.Members...)
	for i := range obs.Members {
		move(&obs.Members[i].UnhealthySince)
		move(&obs.Members[i].LearnerSince)
	}
	n.memory = &obs
}

// thaw has machines go on that have stood still for long enough.
func (w *world) thaw() {
	for _, n := range w.nodes {
		c := &n.clock
		if c.frozen.IsZero() || !w.quiet && w.step < c.frozenTo {
			continue
		}
		w.goOn(n)
	}
}

// goOn ends a machine's standing still.
func (w *world) goOn(n *node) {
	c := &n.clock
	stood := w.now.Sub(c.frozen)
	c.frozen = time.Time{}
	if !n.up {
		return
	}
	if c.stops {
		// For the daemon no time has passed, but its clock on the wall is right again.
		c.reported = n.mono(w.now).Add(-stood - stood*time.Duration(c.rate)/1000)
		c.since = w.now
		n.shift(stood)
	} else {
		c.stood = true
	}
	c.doubt = true
	w.logf("%s goes on after %s", n.name, stood.Round(time.Second))
}

// awake reports whether n's machine is up and does not stand still.
func (n *node) awake() bool { return n.up && n.clock.frozen.IsZero() }

// drift gives n's monotonic clock another rate.
func (w *world) drift(n *node) {
	reported := n.mono(w.now)
	n.clock.rate = w.dice().IntN(2*maxRate+1) - maxRate
	n.clock.since, n.clock.reported = w.now, reported
}

// calmClocks sets all clocks right.
func (w *world) calmClocks() {
	for _, n := range w.nodes {
		w.setClock(n, 0)
	}
	w.thaw()
}
