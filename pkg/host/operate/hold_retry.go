package operate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// momentaryGrace is how long a momentary hold may last: an etcd that was killed is
// started again by systemd after five seconds, and elections that a slow disk
// has fail take one to two seconds each.
const momentaryGrace = 15 * time.Second

// clearingGrace is how long a hold may last that this machine clears by itself, or that nobody
// will, and how long a server of releases may say that it is overloaded.
const clearingGrace = 2 * time.Minute

// unansweredGrace is how long a server of releases may not be reached: a network that has just come up
// takes seconds, and a machine without one waits in vain. The tries of one download may take longer.
const unansweredGrace = 30 * time.Second

// A holding is a run that is held back, step after step.
type holding struct {
	// since is when it began; momentary, when the momentary holds of now did.
	since, momentary time.Time
	// unreachable is since when the cluster has not answered.
	unreachable time.Time
	// own is since when the hold is one that no other machine clears.
	own   time.Time
	heard reason
}

// clears notes a hold, and says whether to wait for it to clear: those that other
// machines clear get the limit, those that clear by themselves no more than clearingGrace, and
// momentary ones no more than momentaryGrace.
func (h *holding) clears(why *machine.Hold, limit time.Duration, now time.Time) bool {
	if !why.Wait && !why.Momentary {
		return false
	}
	if h.since.IsZero() {
		h.since = now
	}
	switch {
	case why.Reason != machine.ClusterUnreachable:
		h.unreachable = time.Time{}
	case h.unreachable.IsZero():
		h.unreachable = now
	}
	// An election is a moment without an answer, too; a machine that is restarted is not.
	election := why.Reason == machine.ClusterUnreachable && now.Sub(h.unreachable) < momentaryGrace
	switch {
	case why.Momentary && h.momentary.IsZero():
		h.momentary = now
	case !why.Momentary && !election:
		h.momentary = time.Time{}
	}
	h.heard.note(why)
	if why.Momentary {
		return now.Sub(h.momentary) < min(momentaryGrace, limit)
	}
	if !why.Others {
		if h.own.IsZero() {
			h.own = now
		}
		return now.Sub(h.own) < min(clearingGrace, limit)
	}
	h.own = time.Time{}
	return now.Sub(h.since) < limit
}

// pause returns how long to wait before the next observation: longer the longer it has been
// already, and never in step with another machine that waits for the same.
func (h *holding) pause(now time.Time) time.Duration { return backoff(now.Sub(h.since)) }

// backoff is a tenth of the time that was waited, within bounds, and up to a quarter
// more or less.
func backoff(waited time.Duration) time.Duration {
	d := min(max(waited/10, pause), longestPause)
	return d*3/4 + rand.N(d/2)
}

// longestPause is the longest pause between two observations.
const longestPause = 15 * time.Second

// tooFewServe says whether err is what the last question before a change found:
// a momentary hold that came between the observation and the change.
func tooFewServe(err error) bool {
	var unsafe *plan.UnsafeError
	return errors.As(err, &unsafe) && unsafe.Invariant == "quorum"
}

// Refusals are since when a change has been refused, for each kind of reason: that too
// few members serve is over in a moment, or not at all.
type refusals struct{ few, others spell }

// A spell is a time in which something was seen again and again.
type spell struct{ began, last time.Time }

// note returns for how long the change has been refused for reasons of err's kind. began
// is when it was tried: a try may take longer than the pauses.
func (r *refusals) note(err error, began, now time.Time) time.Duration {
	s := &r.others
	if tooFewServe(err) {
		s = &r.few
	}
	if s.began.IsZero() || began.Sub(s.last) > 2*longestPause {
		s.began = now
	}
	s.last = now
	return now.Sub(s.began)
}

// A repetition is how often in a row one step was done, and which step was reported last.
type repetition struct {
	times    int
	reported string
}

// note returns an error for a step that is done again and again without effect. That
// another machine hands the leadership back is none: where all reset at once, each gives
// it to one that is leaving, too.
func (p *repetition) note(ctx context.Context, done []machine.Step, step machine.Step) error {
	n := len(done)
	if n <= maxSteps && (n == 0 || done[n-1].Text() != step.Text()) {
		p.times = 0
		return nil
	}
	op, ok := step.Do.(*machine.Membership)
	if p.times++; p.times >= 3 && !(ok && machine.MovesLeader(op)) || n > maxSteps {
		return fmt.Errorf("%s: %s was done, but still has to be done", step.Phase, step.Text())
	}
	return wait.For(ctx, backoff(0))
}

// begins says whether a step is another one than that which was reported last.
func (p *repetition) begins(step machine.Step) bool {
	is := p.reported == step.Text()
	p.reported = step.Text()
	return !is
}

// reportInterval is the time between two lines about one reason to wait. Its text may
// change with each observation, as endpoints fail in turns.
const reportInterval = time.Minute

// say reports why a run waits: a new reason at once, and each once a minute.
func (m *Machine) say(reason machine.Reason, text string, now time.Time) {
	if last, said := m.said[reason]; m.o.Waiting == nil || said && now.Sub(last) < reportInterval {
		return
	}
	if m.said == nil {
		m.said = map[machine.Reason]time.Time{}
	}
	m.said[reason] = now
	m.o.Waiting(text)
}

// A reason is why a run waits: the last one that the cluster has given, and since
// when it has given none.
type reason struct {
	reported    *machine.Hold
	unreachable time.Time
}

// retryGrace is a time without an answer that says less than what was reported before it: of a cluster
// that is slow, for an observation or two.
const retryGrace = 2 * askTimeout

func (r *reason) note(why *machine.Hold) {
	switch {
	case why.Reason != machine.ClusterUnreachable:
		*r = reason{reported: why}
	case r.unreachable.IsZero():
		r.unreachable = time.Now()
	}
}

// of returns why a run that has waited in vain ends, where it ends with last.
func (r *reason) of(last *machine.Hold) *machine.Hold {
	short := r.unreachable.IsZero() || time.Since(r.unreachable) < retryGrace
	if last.Reason == machine.ClusterUnreachable && r.reported != nil && short {
		return r.reported
	}
	return last
}
