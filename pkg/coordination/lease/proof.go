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
	// Electors and Founders are the nodes of that incarnation that the store
	// names: those that the last coordinator published, and those that it began
	// with.
	Electors, Founders []cluster.NodeName
	// Answers are how others stand, and the node itself.
	Answers map[cluster.NodeName]Standing
}

// AskRounds is how often a node asks: each round names those that the answers of
// the last tell of.
const AskRounds = 3

// Ask returns whom to ask, the most trusted first: the electors that the node or
// the store knows, those that they tell of, those of the claim, and those of any
// other record, who may contradict. It is nothing where no answer is needed any more.
func (c Claim) Ask(e Evidence) []cluster.NodeName {
	if len(c.Electors.Names) > maxClaimed || c.known(e) {
		return nil
	}
	known := e.Own.Electors.Names
	if e.Newest == c.Electors.Token {
		known = slices.Concat(known, e.Electors, e.Founders)
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
	add(c.Electors.Names)
	for _, name := range answerers(e) {
		if r := e.Answers[name].Electors; len(r.Names) <= maxClaimed {
			add(r.Names)
		}
	}
	return list
}

// Proven reports why the evidence does not prove the claim, nil if it does.
//
// A majority of the electors that the claim names must have given it their
// votes. But a claim names its own electors, so the node must also have a
// reason to believe in them. A majority of the electors in its own record is
// one. Otherwise the claim must be of the right incarnation:
//
//   - that of the node's own record, or
//   - that of the store's newest record, or
//   - where the store does not say, one to which a majority of the node's own
//     electors has gone, or any if the node has no record.
//
// And its electors must be known: starting from those that the node or the store
// knows, somebody has a record that names them, or has one that names others,
// and a majority of the others has given the claim their votes. A true record is
// found in this way because two records that follow each other share a majority's
// node (see the package).
//
// Only a node without a record of the incarnation, whose store does not tell of
// electors that were published, believes in electors that nobody it knows tells
// of: if no other record is held by a majority of those whom it names.
func (c Claim) Proven(e Evidence) error {
	if err := validRecord(c.Electors); err != nil {
		return err
	}
	if len(c.Electors.Names) > maxClaimed {
		return fmt.Errorf("elector record names %d nodes, at most %d are allowed", len(c.Electors.Names), maxClaimed)
	}
	names := c.Electors.Names
	if n, need := c.granted(names, e.Answers), cluster.Quorum(len(names)); n < need {
		return fmt.Errorf("%d of the electors %v confirm that %s holds the lease of term %d, %d are needed", n, names, c.Holder, c.Term, need)
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
	own := e.Own.Electors
	named := slices.ContainsFunc(trusted, func(r cluster.Electors) bool { return slices.Equal(r.Names, names) })
	switch {
	case named:
	case len(own.Names) > 0 && own.Token == c.Electors.Token:
		return fmt.Errorf("no majority of the electors %v, which this node knows, confirms the lease of %s", own.Names, c.Holder)
	case len(own.Names) > 0 && e.Newest == "":
		return fmt.Errorf("none of the electors %v, which this node knows, tells of the electors %v", own.Names, names)
	case len(e.Electors) > 0:
		return fmt.Errorf("none of the electors %v, which the store tells of, tells of the electors %v", e.Electors, names)
	default:
		if err := c.near(e); err != nil {
			return err
		}
	}
	return c.contested(e)
}

// known reports whether the electors in the node's own record confirm the claim.
func (c Claim) known(e Evidence) bool {
	own := e.Own.Electors
	return own.Token == c.Electors.Token && c.majority(own.Names, e.Answers) && c.majority(c.Electors.Names, e.Answers)
}

// current reports why the claim's incarnation is not the present one.
func (c Claim) current(e Evidence) error {
	own := e.Own.Electors
	switch {
	case len(own.Names) > 0 && own.Token == c.Electors.Token:
		return nil
	case e.Newest == c.Electors.Token:
		return nil
	case e.Newest != "":
		return fmt.Errorf("the newest incarnation in the store is %s, and the order is of incarnation %s", e.Newest, c.Electors.Token)
	case len(own.Names) > 0 && !c.followed(e):
		return fmt.Errorf("this node is in incarnation %s, which nothing says has ended, and the order is of incarnation %s", own.Token, c.Electors.Token)
	}
	return nil
}

// followed reports whether a majority of the node's own electors has gone to the
// claim's incarnation.
func (c Claim) followed(e Evidence) bool {
	n := 0
	for _, name := range e.Own.Electors.Names {
		if s, ok := e.Answers[name]; ok && s.Electors.Token == c.Electors.Token {
			n++
		}
	}
	return n >= cluster.Quorum(len(e.Own.Electors.Names))
}

// trusted returns the records of the claim's incarnation that those have whom the
// node or the store knows, and whom they name, and so on.
func (c Claim) trusted(e Evidence) []cluster.Electors {
	var names []cluster.NodeName
	var records []cluster.Electors
	token, own := c.Electors.Token, e.Own.Electors
	if own.Token == token && len(own.Names) > 0 {
		records, names = append(records, own), append(names, own.Names...)
	} else if len(own.Names) > 0 && c.followed(e) {
		names = append(names, own.Names...)
	}
	if e.Newest == token {
		names = slices.Concat(names, e.Electors, e.Founders)
	}
	for i := 0; i < len(names); i++ {
		r := e.Answers[names[i]].Electors
		if slices.Contains(names[:i], names[i]) || r.Token != token || len(r.Names) == 0 || len(r.Names) > maxClaimed {
			continue
		}
		records, names = append(records, r), append(names, r.Names...)
	}
	return records
}

func newestOf(records []cluster.Electors) cluster.Electors {
	return slices.MaxFunc(records, func(a, b cluster.Electors) int {
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
// that others have seen: the claim's own electors may be made up.
func (c Claim) near(e Evidence) error {
	high := max(1, e.Own.Seen)
	for _, name := range answerers(e) {
		if seen := e.Answers[name].Seen; !slices.Contains(c.Electors.Names, name) && InReach(high, seen) {
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
var errContested = errors.New("others are electors by another record")

// contested reports whether another record is held by a majority of those whom
// it names: one of the claim's incarnation, or of any if the store does not say
// which is the present one and the node does not know.
func (c Claim) contested(e Evidence) error {
	any := e.Newest == "" && len(e.Own.Electors.Names) == 0
	for _, name := range answerers(e) {
		r := e.Answers[name].Electors
		same := r.Token == c.Electors.Token
		if len(r.Names) == 0 || !same && !any || same && slices.Equal(r.Names, c.Electors.Names) {
			continue
		}
		n := 0
		for _, name := range r.Names {
			if a, ok := e.Answers[name]; ok && sameStamp(a.Electors, r) {
				n++
			}
		}
		if n >= cluster.Quorum(len(r.Names)) {
			return fmt.Errorf("%w: %v, not %v as the order of %s says", errContested, r.Names, c.Electors.Names, c.Holder)
		}
	}
	return nil
}

// answerers returns who has answered, in order.
func answerers(e Evidence) []cluster.NodeName {
	list := make([]cluster.NodeName, 0, len(e.Answers))
	for n := range e.Answers {
		list = append(list, n)
	}
	return sorted(list)
}
