package lease

import (
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A Round is one request to all lease voters, and their answers.
type Round struct {
	// Request is what every one of [Round.Nodes] is sent.
	Request Request

	sent            time.Time // before anything was sent
	campaign, probe bool
	// first says that the round makes a won term a lease, changes that it changes
	// the lease voters.
	first, changes bool
	sets           [][]cluster.NodeName // a majority of each is needed
	granted        map[cluster.NodeName]bool
	used           bool // see [Round.Used]
}

// Timeout returns how long a lease voter may take to answer: [WriteTimeout] if it has
// to write something new, as all of them do at the same time, or [CallTimeout].
func (r *Round) Timeout() time.Duration {
	if r.campaign || r.probe || r.first || r.changes {
		return WriteTimeout
	}
	return CallTimeout
}

// Nodes returns whom to ask, sorted.
func (r *Round) Nodes() []cluster.NodeName {
	var nodes []cluster.NodeName
	for _, set := range r.sets {
		nodes = append(nodes, set...)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// Used reports whether a lease voter did not grant because it has seen the term, or a
// later one, and nobody holds it: another campaign, in a term that is free, may be
// won at once. Without it two daemons that ask in turn, of which only one can win,
// can each use up the term that the other asks for next.
func (r *Round) Used() bool { return r.used }

// Fail notes that node did not answer.
func (r *Round) Fail(node cluster.NodeName) { r.granted[node] = false }

// Won reports whether a majority has granted.
func (r *Round) Won() bool {
	for _, set := range r.sets {
		if r.count(set, true) < cluster.Quorum(len(set)) {
			return false
		}
	}
	return true
}

// Lost reports whether so many have refused or failed that the round cannot be
// won any more.
func (r *Round) Lost() bool {
	for _, set := range r.sets {
		if len(set)-r.count(set, false) < cluster.Quorum(len(set)) {
			return true
		}
	}
	return false
}

func (r *Round) count(set []cluster.NodeName, granted bool) int {
	n := 0
	for _, name := range set {
		if answer, ok := r.granted[name]; ok && answer == granted {
			n++
		}
	}
	return n
}
