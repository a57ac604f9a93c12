package lease

import (
	"errors"
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// Evidence is what a node knows by which it judges a claim.
type Evidence struct {
	// Own is how the node itself stands.
	Own Standing
	// Newest is the incarnation that the store's newest record is of, empty where
	// the store does not answer or has none.
	Newest cluster.Token
	// LeaseVoters and Initial members are the nodes of that incarnation that the store
	// names: those that the last coordinator published, and those that it began
	// with.
	LeaseVoters, InitialMembers []cluster.NodeName
	// Answers are how others stand, and the node itself.
	Answers map[cluster.NodeName]Standing
}

// AskRounds is how often a node asks: each round names those that the answers of
// the last name.
const AskRounds = 3

// Ask returns whom to ask, the most trusted first: the lease voters that the node or
// the store knows, those that they name, those of the claim, and those of any
// other record, who may contradict. It is nothing where no answer is needed any more.
func (c Claim) Ask(e Evidence) []cluster.NodeName {
	if len(c.LeaseVoters.Names) > maxClaimed || c.known(e) {
		return nil
	}
	known := e.Own.LeaseVoters.Names
	if e.Newest == c.LeaseVoters.Token {
		known = slices.Concat(known, e.LeaseVoters, e.InitialMembers)
	}
	var list []cluster.NodeName
	add := func(names []cluster.NodeName) {
		for _, n := range names {
			if _, ok := e.Answers[n]; !ok && !slices.Contains(list, n) {
				list = append(list, n)
			}
		}
	}
	add(known)
	for _, r := range c.trusted(e) {
		add(r.Names)
	}
	add(c.LeaseVoters.Names)
	for _, name := range answered(e) {
		if r := e.Answers[name].LeaseVoters; len(r.Names) <= maxClaimed {
			add(r.Names)
		}
	}
	return list
}

// Proven reports why the evidence does not prove the claim, nil if it does.
//
// A majority of the lease voters that the claim names must have given it their
// votes. But a claim names its own lease voters, so the node must also have a
// reason to believe in them. A majority of the lease voters in its own record is
// one. Otherwise the claim must be of the right incarnation:
//
//   - that of the node's own record, or
//   - that of the store's newest record, or
//   - where the store does not say, one to which a majority of the node's own
//     lease voters has gone, or any if the node has no record.
//
// And its lease voters must be known: starting from those that the node or the store
// knows, somebody has a record that names them, or has one that names others,
// and a majority of the others has given the claim their votes. A true record is
// found in this way because two records that follow each other share a majority's
// node (see the package).
//
// Only a node without a record of the incarnation, whose store has no published
// lease voters, believes in lease voters that nobody it knows reports: if no other record is
// held by a majority of those whom it names.
func (c Claim) Proven(e Evidence) error {
	if err := validRecord(c.LeaseVoters); err != nil {
		return err
	}
	if len(c.LeaseVoters.Names) > maxClaimed {
		return fmt.Errorf("lease voter record names %d nodes, at most %d are allowed", len(c.LeaseVoters.Names), maxClaimed)
	}
	names := c.LeaseVoters.Names
	if n, need := c.granted(names, e.Answers), cluster.Quorum(len(names)); n < need {
		return fmt.Errorf("%d of the lease voters %v confirm that %s holds the lease of term %d, %d are needed", n, names,
			c.Holder, c.Term, need)
	}
	if c.known(e) {
		return nil
	}
	if err := c.current(e); err != nil {
		return err
	}
	trusted := c.trusted(e)
	if len(trusted) > 0 && c.majority(newestOf(trusted).Names, e.Answers) {
		return nil
	}
	own := e.Own.LeaseVoters
	named := slices.ContainsFunc(trusted, func(r cluster.LeaseVoters) bool { return slices.Equal(r.Names, names) })
	switch {
	case named:
	case len(own.Names) > 0 && own.Token == c.LeaseVoters.Token:
		return fmt.Errorf("no majority of the lease voters %v, which this node knows, confirms the lease of %s", own.Names,
			c.Holder)
	case len(own.Names) > 0 && e.Newest == "":
		return fmt.Errorf("none of the lease voters %v, which this node knows, confirms the lease voters %v",
			own.Names, names)
	case len(e.LeaseVoters) > 0:
		return fmt.Errorf("none of the lease voters %v, which the store names, confirms the lease voters %v",
			e.LeaseVoters, names)
	default:
		if err := c.near(e); err != nil {
			return err
		}
	}
	return c.otherRecord(e)
}

// known reports whether the lease voters in the node's own record confirm the claim.
func (c Claim) known(e Evidence) bool {
	own := e.Own.LeaseVoters
	return own.Token == c.LeaseVoters.Token && c.majority(own.Names, e.Answers) &&
		c.majority(c.LeaseVoters.Names, e.Answers)
}

// current reports why the claim's incarnation is not the present one.
func (c Claim) current(e Evidence) error {
	own := e.Own.LeaseVoters
	switch {
	case len(own.Names) > 0 && own.Token == c.LeaseVoters.Token:
		return nil
	case e.Newest == c.LeaseVoters.Token:
		return nil
	case e.Newest != "":
		return fmt.Errorf("the newest incarnation in the store is %s, but the order is of incarnation %s", e.Newest,
			c.LeaseVoters.Token)
	case len(own.Names) > 0 && !c.followed(e):
		return fmt.Errorf("this node is in incarnation %s, which has not ended as far as known, but the order is of incarnation %s",
			own.Token, c.LeaseVoters.Token)
	}
	return nil
}

// followed reports whether a majority of the node's own lease voters has gone to the
// claim's incarnation.
func (c Claim) followed(e Evidence) bool {
	n := 0
	for _, name := range e.Own.LeaseVoters.Names {
		if s, ok := e.Answers[name]; ok && s.LeaseVoters.Token == c.LeaseVoters.Token {
			n++
		}
	}
	return n >= cluster.Quorum(len(e.Own.LeaseVoters.Names))
}

// trusted returns the records of the claim's incarnation that those have whom the
// node or the store knows, and whom they name, and so on.
func (c Claim) trusted(e Evidence) []cluster.LeaseVoters {
	var names []cluster.NodeName
	var records []cluster.LeaseVoters
	token, own := c.LeaseVoters.Token, e.Own.LeaseVoters
	if own.Token == token && len(own.Names) > 0 {
		records, names = append(records, own), append(names, own.Names...)
	} else if len(own.Names) > 0 && c.followed(e) {
		names = append(names, own.Names...)
	}
	if e.Newest == token {
		names = slices.Concat(names, e.LeaseVoters, e.InitialMembers)
	}
	for i := 0; i < len(names); i++ {
		r := e.Answers[names[i]].LeaseVoters
		if slices.Contains(names[:i], names[i]) || r.Token != token || len(r.Names) == 0 || len(r.Names) > maxClaimed {
			continue
		}
		records, names = append(records, r), append(names, r.Names...)
	}
	return records
}

func newestOf(records []cluster.LeaseVoters) cluster.LeaseVoters {
	return slices.MaxFunc(records, func(a, b cluster.LeaseVoters) int {
		switch {
		case Newer(a, b):
			return 1
		case Newer(b, a):
			return -1
		}
		return 0
	})
}

// near makes sure that the first term which a node learns is in reach of those
// that others have seen: the claim's own lease voters may be made up.
func (c Claim) near(e Evidence) error {
	high := max(1, e.Own.Seen)
	for _, name := range answered(e) {
		if seen := e.Answers[name].Seen; !slices.Contains(c.LeaseVoters.Names, name) && InReach(high, seen) {
			high = max(high, seen)
		}
	}
	if why := beyond(high, c.Term); why != "" {
		return errors.New(why)
	}
	return nil
}

func (c Claim) majority(names []cluster.NodeName, answers map[cluster.NodeName]Standing) bool {
	return len(names) > 0 && c.granted(names, answers) >= cluster.Quorum(len(names))
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

// errContested is returned for a claim beside which there is another that is as
// good.
var errContested = errors.New("others are lease voters by another record")

// otherRecord reports whether another record is held by a majority of those whom
// it names: one of the claim's incarnation, or of any if the store does not say
// which is the present one and the node does not know.
func (c Claim) otherRecord(e Evidence) error {
	any := e.Newest == "" && len(e.Own.LeaseVoters.Names) == 0
	for _, name := range answered(e) {
		r := e.Answers[name].LeaseVoters
		same := r.Token == c.LeaseVoters.Token
		if len(r.Names) == 0 || !same && !any || same && slices.Equal(r.Names, c.LeaseVoters.Names) {
			continue
		}
		n := 0
		for _, name := range r.Names {
			if a, ok := e.Answers[name]; ok && sameStamp(a.LeaseVoters, r) {
				n++
			}
		}
		if n >= cluster.Quorum(len(r.Names)) {
			return fmt.Errorf("%w: %v, not %v as the order of %s says", errContested, r.Names, c.LeaseVoters.Names, c.Holder)
		}
	}
	return nil
}

// answered returns who has answered, in order.
func answered(e Evidence) []cluster.NodeName {
	list := make([]cluster.NodeName, 0, len(e.Answers))
	for n := range e.Answers {
		list = append(list, n)
	}
	return sorted(list)
}
