package lease

import (
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A Recovery is an order, given without a lease, to replace a record that has no
// majority left; see [Grantor.Recover].
type Recovery struct {
	// Record is the new one, with sorted names.
	Record cluster.LeaseVoters
	// Expect are the names in the record that is replaced, Lost the nodes that are
	// gone for good or have forgotten it.
	Expect, Lost []cluster.NodeName
}

// maxRecoverStep is how far the term of a recovered record may be above all that
// were seen. The planner stays within 200; candidates that cannot get the lease
// use up a few terms a second meanwhile.
const maxRecoverStep = 500

// Ask returns whom a node asks whose own record is own.
func (r Recovery) Ask(own cluster.LeaseVoters) []cluster.NodeName {
	list := slices.Compact(sorted(slices.Concat(r.Record.Names, own.Names, r.Expect, r.Lost)))
	return list[:min(len(list), 2*maxClaimed)]
}

// Supported reports why a node that stands so does not take part, nil if it does.
// declared are the lists of those that an operator has declared to be gone for
// good, one for each request; answers are what the nodes say that were asked.
//
// Each lost node must be declared lost, or say itself that it has no record; none
// of them may have one. What the voters have as their newest record must be the
// one that is replaced, and must have no majority without the lost ones. The term
// is not far above what they have seen.
func (r Recovery) Supported(own Standing, declared [][]cluster.NodeName, answers map[cluster.NodeName]Standing) error {
	blank := func(s Standing) bool { return s.LeaseVoters.Token != r.Record.Token || len(s.LeaseVoters.Names) == 0 }
	var unexplained []cluster.NodeName
	for _, name := range r.Lost {
		s, ok := answers[name]
		switch {
		case ok && !blank(s):
			return fmt.Errorf("%s answers and has lease voter record %s: it is not lost", name, stamp(s.LeaseVoters))
		case !ok:
			unexplained = append(unexplained, name)
		}
	}
	if !slices.ContainsFunc(declared, func(list []cluster.NodeName) bool { return covers(list, unexplained) }) {
		return fmt.Errorf("no request in the store declares %v to be lost, and they do not report that they have lost "+
			"their record", unexplained)
	}
	newest, high := own.LeaseVoters, max(own.Seen, own.LeaseVoters.Term)
	if blank(own) {
		newest = cluster.LeaseVoters{Token: r.Record.Token}
	}
	var terms []cluster.Term
	for _, name := range slices.Concat(r.Record.Names, own.LeaseVoters.Names) {
		s := answers[name]
		terms = append(terms, s.Seen, s.LeaseVoters.Term)
		if slices.Contains(r.Record.Names, name) && !blank(s) && Newer(s.LeaseVoters, newest) {
			newest = s.LeaseVoters
		}
	}
	high = reached(high, terms)
	switch {
	case len(newest.Names) == 0 || slices.Equal(newest.Names, r.Record.Names):
	case !slices.Equal(newest.Names, sorted(r.Expect)):
		return fmt.Errorf("the voters' newest lease voter record names %v, not %v", newest.Names, r.Expect)
	case !cluster.Lost(newest.Names, r.Lost):
		return fmt.Errorf("a majority of the lease voters %v is left without %v", newest.Names, r.Lost)
	}
	if r.Record.Term > high && r.Record.Term-high > maxRecoverStep {
		return fmt.Errorf("term %d is far above %d, the highest that the voters report", r.Record.Term, high)
	}
	return nil
}

// reached returns the highest of some terms that a node that has seen high takes over one
// after the other, the lowest first. One that is out of reach gets it from a voter gone
// wrong, and says nothing about how far the others are.
func reached(high cluster.Term, terms []cluster.Term) cluster.Term {
	for _, t := range slices.Sorted(slices.Values(terms)) {
		if InReach(max(1, high), t) {
			high = max(high, t)
		}
	}
	return high
}

// covers reports whether all names are in the list.
func covers(list, names []cluster.NodeName) bool {
	return !slices.ContainsFunc(names, func(n cluster.NodeName) bool { return !slices.Contains(list, n) })
}
