package lease

import (
	"errors"
	"fmt"
	"slices"
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
	// Electors is the node's own record.
	Electors cluster.Electors `json:"electors"`
}

// Standing returns what the node can say of the lease at now.
func (g Grantor) Standing(now time.Time) Standing {
	s := Standing{Seen: g.Durable.Term, Electors: cloneRecord(g.Durable.Electors)}
	if g.running(now) && !g.Durable.Grant.Released {
		s.Term, s.Holder, s.Remaining = g.Durable.Grant.Term, g.Durable.Grant.Holder, g.Until.Sub(now)
	}
	return s
}

// A Claim is what somebody says who gives an order: to hold the lease of a term
// by the votes of the electors of a record.
type Claim struct {
	Holder   cluster.NodeName
	Term     cluster.Term
	Electors cluster.Electors
}

// maxClaimed is how many electors a claim may name. etcd advises against more
// than seven voters; a claim must not make a node ask the whole network.
const maxClaimed = 32

// Grants reports whether the one who stands so has given its vote to the claim.
func (c Claim) Grants(s Standing) bool {
	return c.Term > 0 && s.Term == c.Term && s.Holder == c.Holder && s.Remaining > 0 && s.Electors.Token == c.Electors.Token
}

// Ask returns whom a node asks whose own record is own: the electors of the
// claim and its own.
func (c Claim) Ask(own cluster.Electors) []cluster.NodeName {
	if len(c.Electors.Names) > maxClaimed {
		return nil
	}
	return slices.Compact(sorted(slices.Concat(c.Electors.Names, own.Names)))
}

// Proven reports why the answers of others do not prove the claim to a node
// whose own record is own, nil if they do. newest is the incarnation that the
// store's newest record is of, empty where that is not known.
//
// A majority of the electors that the claim names must have given it their
// votes. But a claim names its own electors, so the node must also have a
// reason to believe in them:
//
//   - a majority of the electors in its own record has given the votes, or
//   - one of these has a newer record, so its own is outdated, or
//   - its own record is of an incarnation that the store says has ended, or it
//     has none.
//
// In the last three cases nobody may contradict: no other record of the claim's
// incarnation, or the node's own, is held by a majority of those whom it names.
// A finished record ends all earlier ones in just this sense, because two
// records that follow each other share a majority's node (see the package).
func (c Claim) Proven(own cluster.Electors, newest cluster.Token, answers map[cluster.NodeName]Standing) error {
	if err := validRecord(c.Electors); err != nil {
		return err
	}
	if len(c.Electors.Names) > maxClaimed {
		return fmt.Errorf("elector record names %d nodes, at most %d are allowed", len(c.Electors.Names), maxClaimed)
	}
	if n, need := c.granted(c.Electors.Names, answers), cluster.Quorum(len(c.Electors.Names)); n < need {
		return fmt.Errorf("%d of the electors %v confirm that %s holds the lease of term %d, %d are needed", n, c.Electors.Names, c.Holder, c.Term, need)
	}
	same := own.Token == c.Electors.Token
	if same && len(own.Names) > 0 && c.granted(own.Names, answers) >= cluster.Quorum(len(own.Names)) {
		return nil
	}
	switch {
	case len(own.Names) == 0:
	case same && !outdated(own, answers):
		return fmt.Errorf("no majority of the electors %v, which this node knows, confirms the lease of %s", own.Names, c.Holder)
	case !same && newest != c.Electors.Token && holds(own, answers):
		return fmt.Errorf("this node is in incarnation %s, which nothing says has ended, and the order is of incarnation %s", own.Token, c.Electors.Token)
	}
	return c.contested(answers)
}

func (c Claim) granted(names []cluster.NodeName, answers map[cluster.NodeName]Standing) int {
	n := 0
	for _, name := range names {
		if s, ok := answers[name]; ok && c.Grants(s) {
			n++
		}
	}
	return n
}

// outdated reports whether one of the electors in the record has a newer one.
func outdated(own cluster.Electors, answers map[cluster.NodeName]Standing) bool {
	return slices.ContainsFunc(own.Names, func(n cluster.NodeName) bool {
		s, ok := answers[n]
		return ok && Newer(s.Electors, own)
	})
}

// holds reports whether a majority of those whom the record names may still
// vote by it: all that do not say otherwise count.
func holds(r cluster.Electors, answers map[cluster.NodeName]Standing) bool {
	n := 0
	for _, name := range r.Names {
		if s, ok := answers[name]; !ok || s.Electors.Token == r.Token {
			n++
		}
	}
	return n >= cluster.Quorum(len(r.Names))
}

// errContested is returned for a claim beside which there is another that is as
// good.
var errContested = errors.New("others are electors by another record")

// contested reports whether another record of the claim's incarnation is held
// by a majority of those whom it names.
func (c Claim) contested(answers map[cluster.NodeName]Standing) error {
	for _, s := range answers {
		r := s.Electors
		if r.Token != c.Electors.Token || len(r.Names) == 0 || slices.Equal(r.Names, c.Electors.Names) {
			continue
		}
		n := 0
		for _, name := range r.Names {
			if a, ok := answers[name]; ok && sameStamp(a.Electors, r) {
				n++
			}
		}
		if n >= cluster.Quorum(len(r.Names)) {
			return fmt.Errorf("%w: %v, not %v as the order of %s says", errContested, r.Names, c.Electors.Names, c.Holder)
		}
	}
	return nil
}
