package lease

import (
	"errors"
	"fmt"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// MaxTerm is the highest term that anybody grants, obeys, learns or writes. No
// cluster gets there by campaigns, which use up a few million terms a year; a
// higher one comes from a caller gone wrong or a damaged disk, and would leave
// no term to campaign for.
const MaxTerm cluster.Term = 1 << 62

// maxJump is how far ahead of the terms that a node has seen another may be: a
// node that was cut off for decades, and campaigned all the time, stays within
// it. So a caller gone wrong cannot use up all terms with one request.
const maxJump = 1 << 28

// InReach reports whether a node that has seen the term from takes over the term
// to. A node that has seen none (a fresh disk, a person's command) has nothing to
// compare with and takes over any term up to [MaxTerm].
func InReach(from, to cluster.Term) bool {
	return to <= MaxTerm && (from == 0 || to <= from || to-from <= maxJump)
}

// beyond says why a node that has seen the term from refuses the term to, empty
// if it does not.
func beyond(from, to cluster.Term) string {
	switch {
	case InReach(from, to):
		return ""
	case to > MaxTerm:
		return fmt.Sprintf("term %d is above the maximum, %d", to, MaxTerm)
	}
	return fmt.Sprintf("term %d is far above %d, the highest seen here", to, from)
}

// A BadTermError says that the disk of a node has a term after which none can
// follow, or one that nobody else can follow.
type BadTermError struct {
	Term cluster.Term
	// To is the term to go back to, 0 where that is not known.
	To cluster.Term
	// Dir is the data directory where the term is, empty for the usual one.
	Dir string
}

func (e *BadTermError) Error() string {
	return fmt.Sprintf("term %d leaves no term to campaign for (%d is the maximum)", e.Term, MaxTerm)
}

// Hint says what to do.
func (e *BadTermError) Hint() string {
	to, dir, which := "TERM", "", ""
	if e.To > 0 {
		to = fmt.Sprint(e.To)
	} else {
		which = "; TERM is the highest lease.term of the other nodes (etcdadm observe -o json), or, if all have seen " +
			"this one, " +
			"1000 or any other that is not below those in etcd-manager-ctl history"
	}
	if e.Dir != "" {
		dir = " --data-dir=" + e.Dir
	}
	return "on each node that has seen this term, one node at a time: stop etcd-manager, run \"etcdadm term reset --to=" +
		to + dir +
		"\", start etcd-manager, and wait until its member is healthy" + which
}

// resetSeq is more than any holder counts up in one term.
const resetSeq = 1 << 32

// ErrResetTarget is what [Durable.Reset] returns, wrapped, for a term that cannot
// be gone back to; ErrInReach for a node whose term needs no reset.
var (
	ErrResetTarget = errors.New("the term cannot be reset to this")
	ErrInReach     = errors.New("the term of this node can still be exceeded")
)

// ResetTarget is an error where no node can be reset to term.
func ResetTarget(term cluster.Term) error {
	if term == 0 || term > MaxTerm/2 {
		return fmt.Errorf("%w: %d is not between 1 and %d", ErrResetTarget, term, MaxTerm/2)
	}
	return nil
}

// Reset returns d with the highest term seen lowered to term. It is the way out
// where a node has seen a term that nobody can follow from the given one: any
// other node forgets promises for nothing, and is refused. The daemon must not run.
//
// A grant of a higher term counts as one of the new term to the same holder,
// not given back: so the grantor that starts from the result keeps quiet for one
// [MaxTTL], in which every lease that it took part in ends, and a holder of
// a higher term finds its term out of reach, or asks for a new one. A record with
// a higher stamp gets the stamp of term, and a number that keeps it newer than
// every record that was made before it.
//
// Term must be the highest that can be used of those that other nodes have seen:
// from a lower one the node would have forgotten promises that still count.
func (d Durable) Reset(term cluster.Term) (Durable, error) {
	if err := ResetTarget(term); err != nil {
		return d, err
	}
	if term > d.Term {
		return d, fmt.Errorf("%w: %d is above %d, the highest seen", ErrResetTarget, term, d.Term)
	}
	if InReach(term, d.Term) {
		return d, fmt.Errorf("%w: it has seen %d, and from %d up to %d is in reach", ErrInReach, d.Term, term, term+maxJump)
	}
	d.Term = term
	if d.Grant.Term > term {
		d.Grant.Term, d.Grant.Released = term, false
	}
	if d.LeaseVoters.Term > term {
		d.LeaseVoters.Term, d.LeaseVoters.Seq = term, d.LeaseVoters.Seq+resetSeq
	}
	return d, nil
}
