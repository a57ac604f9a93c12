package operate

import (
	"errors"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// settling is how long a momentary hold may last: an etcd that was killed is
// started again by systemd after five seconds, and elections that a slow disk
// has fail take one to two seconds each.
const settling = 15 * time.Second

// A holding is a run that is held back, step after step.
type holding struct {
	// since is when it began; momentary, when the momentary holds of now did.
	since, momentary time.Time
	heard            reason
}

// clears notes a hold, and says whether to wait for it to clear: those that
// clear by themselves get the limit, and momentary ones no more than settling.
func (h *holding) clears(why *machine.Hold, limit time.Duration, now time.Time) bool {
	if !why.Wait && !why.Momentary {
		return false
	}
	if h.since.IsZero() {
		h.since = now
	}
	switch {
	case why.Momentary && h.momentary.IsZero():
		h.momentary = now
	case !why.Momentary && why.Reason != machine.ClusterUnreachable: // which an election is, too
		h.momentary = time.Time{}
	}
	h.heard.note(why)
	if why.Momentary {
		return now.Sub(h.momentary) < min(settling, limit)
	}
	return now.Sub(h.since) < limit
}

// tooFewServe says whether err is what the last question before a change found:
// a momentary hold that came between the observation and the change.
func tooFewServe(err error) bool {
	var unsafe *plan.UnsafeError
	return errors.As(err, &unsafe) && unsafe.Invariant == "quorum"
}

// say tells why a run waits, once for each reason.
func (m *Machine) say(text string) {
	if text != m.said && m.o.Waiting != nil {
		m.o.Waiting(text)
	}
	m.said = text
}

// A reason is why a run waits: the last one that the cluster has told, and since
// when it has told nothing.
type reason struct {
	told        *machine.Hold
	unreachable time.Time
}

// retryGrace is a silence that says less than what was told before it: of a cluster
// that is slow, for an observation or two.
const retryGrace = 2 * askTimeout

func (r *reason) note(why *machine.Hold) {
	switch {
	case why.Reason != machine.ClusterUnreachable:
		*r = reason{told: why}
	case r.unreachable.IsZero():
		r.unreachable = time.Now()
	}
}

// of returns why a run that has waited in vain ends, where it ends with last.
func (r *reason) of(last *machine.Hold) *machine.Hold {
	short := r.unreachable.IsZero() || time.Since(r.unreachable) < retryGrace
	if last.Reason == machine.ClusterUnreachable && r.told != nil && short {
		return r.told
	}
	return last
}
