package lease

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A Candidate is the asking side: what one daemon knows about the lease, and
// what it holds. It is not safe for concurrent use.
type Candidate struct {
	// Cluster is the name of the cluster.
	Cluster string
	// Name and Boot identify the daemon, see [Request].
	Name cluster.NodeName
	Boot cluster.Token
	// TTL is the time to ask for.
	TTL time.Duration

	seen  cluster.Term        // highest term seen anywhere
	known cluster.LeaseVoters // newest record seen anywhere

	asked  cluster.Term        // the term of the last campaign
	term   cluster.Term        // the term won, zero for none
	after  cluster.Term        // the term of the record by which it was won
	record cluster.LeaseVoters // the record of this term
	// before is the record that record replaces, as long as a majority of both
	// has not adopted record. It is zero otherwise.
	before cluster.LeaseVoters
	until  time.Time
	// by is when a won term has to be a lease at the latest: until then those who
	// granted the campaign keep it free.
	by time.Time
}

// Learn takes in a record and a term that were seen somewhere: on the own disk,
// in an observation, in a reply. A record of another incarnation than the
// candidate's is ignored, its term is not. What is out of reach (see [InReach])
// is ignored: whoever has it cannot be won, and the others must not follow it.
func (c *Candidate) Learn(e cluster.LeaseVoters, term cluster.Term) {
	if InReach(c.seen, e.Term) {
		if Newer(e, c.known) {
			c.known = cloneRecord(e)
		}
		c.seen = max(c.seen, e.Term)
	}
	if InReach(c.seen, term) {
		c.seen = max(c.seen, term)
	}
}

// Enter makes the candidate one of the incarnation token. Coming from another
// incarnation it drops what it holds, and has to [Candidate.Learn] a record.
func (c *Candidate) Enter(token cluster.Token) {
	if token != c.known.Token {
		c.drop()
		c.known = cluster.LeaseVoters{Token: token}
	}
}

// Known returns the newest lease voter record that the candidate has seen.
func (c *Candidate) Known() cluster.LeaseVoters { return cloneRecord(c.known) }

// Held returns the term that the candidate holds at now, and until when it may
// act on it. ok is false if it holds none.
func (c *Candidate) Held(now time.Time) (term cluster.Term, until time.Time, ok bool) {
	if !c.until.After(now) {
		return 0, time.Time{}, false
	}
	return c.term, c.until, true
}

// Record returns the record that the candidate's term works with, and whether
// a change of it is unfinished.
func (c *Candidate) Record() (record cluster.LeaseVoters, changing bool) {
	return cloneRecord(c.record), len(c.before.Names) > 0
}

// Succeeds returns the term of the last lease of this incarnation before the term that the
// candidate has won, zero for none. It is that of the record by which the term was won: each
// term stamps the record on a majority before it is a lease, and nobody is elected by an
// older record than a majority has. One that too few have stamped to make it a lease
// may be it, too.
func (c *Candidate) Succeeds() cluster.Term { return c.after }

func (c *Candidate) drop() {
	c.after = 0
	c.term, c.until, c.by = 0, time.Time{}, time.Time{}
	c.record, c.before = cluster.LeaseVoters{}, cluster.LeaseVoters{}
}

// Campaign drops what the candidate holds and returns the round that asks for
// a new term. A won campaign is not a lease yet: the first won [Candidate.Renew]
// makes it one.
func (c *Candidate) Campaign(now time.Time) (*Round, error) {
	if len(c.known.Names) == 0 {
		return nil, fmt.Errorf("no lease voter record is known")
	}
	if c.seen >= MaxTerm {
		return nil, &BadTermError{Term: c.seen}
	}
	c.drop()
	c.seen++
	c.asked = c.seen
	r := c.round(now, c.seen, c.known)
	r.campaign = true
	return r, nil
}

// Renew returns the round that makes a won term a lease, and a lease longer. A
// lease that is over is not renewed, although the lease voters may have given it to
// nobody else: its holder stood still, and what it knows is from before. It drops
// the term, and has to campaign for another.
func (c *Candidate) Renew(now time.Time) (*Round, error) {
	if c.term == 0 {
		return nil, fmt.Errorf("no term has been won")
	}
	if over := maxTime(c.until, c.by); !over.After(now) {
		err := fmt.Errorf("the lease of term %d is over since %v", c.term, now.Sub(over))
		c.drop()
		return nil, err
	}
	return c.renewal(now), nil
}

// Keep is Renew for a holder that has renewed the lease all the time until now.
// A simulation knows that whose steps are longer than a lease; a daemon does not.
func (c *Candidate) Keep(now time.Time) (*Round, error) {
	if c.term == 0 {
		return nil, fmt.Errorf("no term has been won")
	}
	return c.renewal(now), nil
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// renewal is Renew of a term that is held or won.
func (c *Candidate) renewal(now time.Time) *Round {
	r := c.round(now, c.term, c.record)
	r.first = c.until.IsZero()
	if len(c.before.Names) > 0 {
		r.changes = true
		r.sets = append(r.sets, c.before.Names)
	}
	return r
}

// Change makes names the lease voters of the held term. It differs from the
// present record by at most one name. The change is done when a round that
// began after it is won; until then another change is refused.
func (c *Candidate) Change(now time.Time, names []cluster.NodeName) error {
	if _, _, ok := c.Held(now); !ok {
		return fmt.Errorf("the lease is not held")
	}
	next := cluster.LeaseVoters{Token: c.record.Token, Term: c.term, Seq: c.record.Seq + 1, Names: sorted(names)}
	if err := validRecord(next); err != nil {
		return err
	}
	switch steps := Steps(c.record.Names, next.Names); {
	case steps == 0:
		return nil
	case len(c.before.Names) > 0:
		return fmt.Errorf("the change to the lease voters %v is not finished", c.record.Names)
	case steps > 1:
		return fmt.Errorf("lease voters %v differ from %v by %d names, one at a time is safe", next.Names,
			c.record.Names, steps)
	}
	c.before, c.record = c.record, next
	c.Learn(next, c.term)
	return nil
}

// Probe returns a round that asks only node, with the present record. A node
// that does not grant it cannot become a lease voter.
func (c *Candidate) Probe(now time.Time, node cluster.NodeName) (*Round, error) {
	r, err := c.Renew(now)
	if err != nil {
		return nil, err
	}
	r.sets, r.probe = [][]cluster.NodeName{{node}}, true
	return r, nil
}

// Release drops the lease and returns the request that gives it back, and whom
// to send it to. Answers are of no interest. ok is false if there is nothing
// to give back.
func (c *Candidate) Release() (req Request, nodes []cluster.NodeName, ok bool) {
	if c.term == 0 {
		return Request{}, nil, false
	}
	r := c.renewal(time.Time{})
	c.drop()
	r.Request.Release = true
	return r.Request, r.Nodes(), true
}

func (c *Candidate) round(now time.Time, term cluster.Term, e cluster.LeaseVoters) *Round {
	return &Round{
		Request: Request{
			Cluster: c.Cluster, Token: e.Token, Term: term, Holder: c.Name, Boot: c.Boot,
			TTL: c.TTL, LeaseVoters: cloneRecord(e),
		},
		sent:    now,
		sets:    [][]cluster.NodeName{e.Names},
		granted: map[cluster.NodeName]bool{},
	}
}

// Note takes in node's reply to r.
func (c *Candidate) Note(r *Round, node cluster.NodeName, reply Reply) {
	c.Learn(reply.LeaseVoters, reply.Term)
	r.granted[node] = reply.Granted
	r.used = r.used || !reply.Granted && reply.Holder == "" && reply.Term >= r.Request.Term
}

// Finish takes in the outcome of r, and reports whether it was won. Rounds of
// a term that has been dropped since change nothing.
func (c *Candidate) Finish(r *Round) bool {
	if !r.Won() {
		return false
	}
	req := r.Request
	switch {
	case r.probe:
	case r.campaign:
		if c.term != 0 || req.Term != c.asked || req.Token != c.known.Token {
			return false
		}
		c.after = req.LeaseVoters.Term
		c.term, c.by = req.Term, r.sent.Add(req.TTL-Margin(req.TTL))
		c.record = cluster.LeaseVoters{Token: req.Token, Term: req.Term, Names: slices.Clone(req.LeaseVoters.Names)}
	case req.Term == c.term && req.Token == c.record.Token:
		if until := r.sent.Add(req.TTL - Margin(req.TTL)); until.After(c.until) {
			c.until = until
		}
		if sameStamp(req.LeaseVoters, c.record) {
			c.before = cluster.LeaseVoters{}
		}
	default:
		return false
	}
	return true
}
