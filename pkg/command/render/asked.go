package render

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
)

// An Asked says which daemons of a published report answered whoever shows it.
type Asked struct {
	Answered []cluster.NodeName `json:"answered"`
	// Unreachable says of each that did not answer where it was asked, and what became of that.
	Unreachable map[cluster.NodeName]string `json:"unreachable,omitempty"`
}

// unreachable reports whether daemons were asked, and none answered.
func (a *Asked) unreachable() bool { return a != nil && len(a.Answered) == 0 && len(a.Unreachable) > 0 }

// reasons say of each daemon why it did not answer, by name.
func (a *Asked) reasons() (list []string) {
	for _, name := range slices.Sorted(maps.Keys(a.Unreachable)) {
		list = append(list, fmt.Sprintf("%s at %s", name, a.Unreachable[name]))
	}
	return list
}

// coordinates reports whether the coordinator of the report may still be it: it answered, or
// was not asked.
func (s Status) coordinates() bool {
	if s.Asked == nil {
		return !s.Stale
	}
	_, unreachable := s.Asked.Unreachable[s.Report.Coordinator]
	return !s.Stale && !unreachable
}

// Coordinator names who coordinates; there is a report. Who only published last is said to
// be just that.
func (s Status) Coordinator(now time.Time) string {
	age := now.Sub(s.Report.At)
	if !s.coordinates() {
		age = max(age, StaleAge+1)
	}
	return Coordinator(*s.Report, age)
}

// State says in one line what is going on; there is a report.
func (s Status) State(now time.Time) string {
	age := now.Sub(s.Report.At)
	if s.Stale {
		return StaleState(*s.Report, age)
	}
	return State(*s.Report, age)
}

// Coordinator names who coordinates by a report of that age. Who only published
// last is said to be just that.
func Coordinator(r reconcile.Report, age time.Duration) string {
	none := slices.ContainsFunc(r.Holds, func(h plan.Hold) bool { return h.Reason == plan.NoCoordinator })
	last := r.Coordinator
	switch {
	case none, last == "":
		last = lastHolder(r.Observation)
	case last != "" && age <= StaleAge && r.Term != 0:
		return fmt.Sprintf("%s (term %d)", last, r.Term)
	case last != "" && age <= StaleAge:
		return string(last)
	}
	if last == "" {
		return "none"
	}
	return fmt.Sprintf("none (last seen: %s)", last)
}

// lastHolder returns who had the lease of the latest term that the nodes report.
func lastHolder(obs cluster.Observation) (name cluster.NodeName) {
	var term cluster.Term
	for _, n := range obs.Nodes {
		if n.Lease.Holder != "" && n.Lease.Term >= term {
			name, term = n.Lease.Holder, n.Lease.Term
		}
	}
	return name
}

// StaleState says what went on by a report of that age of which nothing need be so any more.
func StaleState(r reconcile.Report, age time.Duration) string {
	return "unknown; STALE: " + State(r, 0) + " " + Age(age)
}

// State says in one line what is going on, by a report of that age.
func State(r reconcile.Report, age time.Duration) string {
	if age > StaleAge {
		return StaleState(r, age)
	}
	switch {
	case r.Operation != "":
		doing := "doing: " + r.Operation
		if took := r.At.Sub(r.Since).Truncate(time.Second); !r.Since.IsZero() && took >= time.Second {
			doing += fmt.Sprintf(" (for %s)", took)
		}
		return doing
	case r.Converged && len(r.Holds) == 0:
		return "as the spec says"
	case r.Converged:
		return "as the spec says, with holds"
	case len(r.Holds) > 0:
		return "held"
	}
	return "not yet as the spec says"
}
