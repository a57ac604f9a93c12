package lease

import (
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A Standing is what a node says of the lease: to whom it has given its vote,
// while that runs, and by which record it votes.
type Standing struct {
	// Term and Holder are of the running grant, zero and empty for none.
	// Remaining is how long it still runs if it is not renewed.
	Term      cluster.Term     `json:"term,omitempty"`
	Holder    cluster.NodeName `json:"holder,omitempty"`
	Remaining time.Duration    `json:"remaining,omitempty"`
	// Seen is the highest term that the node has seen.
	Seen cluster.Term `json:"seen,omitempty"`
	// LeaseVoters is the node's own record.
	LeaseVoters cluster.LeaseVoters `json:"leaseVoters"`
}

// Standing returns what the node can say of the lease at now.
func (g Grantor) Standing(now time.Time) Standing {
	s := Standing{Seen: g.Durable.Term, LeaseVoters: cloneRecord(g.Durable.LeaseVoters)}
	if g.running(now) && !g.Durable.Grant.Released {
		s.Term, s.Holder, s.Remaining = g.Durable.Grant.Term, g.Durable.Grant.Holder, g.Until.Sub(now)
	}
	return s
}

// A Claim is what somebody says who gives an order: to hold the lease of a term
// by the votes of the lease voters of a record.
type Claim struct {
	Holder      cluster.NodeName
	Term        cluster.Term
	LeaseVoters cluster.LeaseVoters
}

// maxClaimed is how many lease voters a claim may name. etcd advises against more
// than seven voters; a claim must not make a node ask the whole network.
const maxClaimed = 32

// Grants reports whether the one who stands so has given its vote to the claim.
func (c Claim) Grants(s Standing) bool {
	return c.Term > 0 && s.Term == c.Term && s.Holder == c.Holder && s.Remaining > 0 &&
		s.LeaseVoters.Token == c.LeaseVoters.Token
}
