package lease

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// Useful reports whether the lease that self holds, in term and by record, is of
// use in what was observed. If not, another one is to be asked for: self is no
// lease voter any more, some node obeys only a later term, or the cluster is in another
// incarnation.
func Useful(term cluster.Term, record cluster.LeaseVoters, self cluster.NodeName, obs cluster.Observation) bool {
	return slices.Contains(record.Names, self) && !overtaken(term, self, obs) && !moved(record, obs)
}

// moved reports whether the cluster is in another incarnation than the lease:
// after a restore, by this daemon or by somebody else. The lease of the old one
// is kept only as long as the new one has no leader and no majority of its
// lease voters is there: they could not grant one.
func moved(record cluster.LeaseVoters, obs cluster.Observation) bool {
	e := obs.LeaseVoters
	if e.Token == record.Token {
		return false
	}
	if e.Token == obs.Token && obs.Leader != 0 {
		return true
	}
	there := 0
	for _, n := range obs.Nodes {
		if n.Reachable && n.LeaseVoters.Token == e.Token && slices.Contains(e.Names, n.Name) {
			there++
		}
	}
	return there >= cluster.Quorum(len(e.Names))
}

// overtaken reports whether a node that answers has seen a later term: one that
// campaigned while it was cut off. It obeys no order of this term any more, so a
// later one is needed.
//
// Nor does one that has voted for another in the same term: in a campaign that was
// lost, and the term given back, or as a lease voter of what ran before a restore,
// which counts the same numbers. A term that is out of reach cannot be passed:
// campaigns against it would only disturb those that can be won.
func overtaken(term cluster.Term, self cluster.NodeName, obs cluster.Observation) bool {
	for _, n := range obs.Nodes {
		other := n.Lease.Term == term && n.Lease.Holder != "" && n.Lease.Holder != self
		later := n.Lease.Term > term && InReach(term, n.Lease.Term)
		if n.Reachable && (later || other) {
			return true
		}
	}
	return false
}
