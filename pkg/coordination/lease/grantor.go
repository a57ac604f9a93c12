package lease

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A Grantor is the lease voter's side on one node, as a value: what is on its disk,
// and until when its running grant lasts.
type Grantor struct {
	// Cluster is the name of the cluster.
	Cluster string
	// Durable is what is on disk.
	Durable Durable
	// Until is when the running grant ends by this node's clock; the zero value
	// and the past mean that none runs.
	Until time.Time
}

// Start returns the grantor of a node whose daemon starts now. The deadline of
// a remembered grant is lost, so it counts as just given.
func Start(now time.Time, name string, d Durable) Grantor {
	g := Grantor{Cluster: name, Durable: d}
	if d.Grant.Term > 0 && !d.Grant.Released {
		g.Until = now.Add(MaxTTL)
	}
	return g
}

// Decide returns the grantor after req, and the answer. Where the answer is
// Granted and next.Durable differs from g.Durable, next.Durable must be on disk
// before the answer goes out; if it cannot be written, the answer is
// [Grantor.Refuse] and g stays as it was.
func (g Grantor) Decide(now time.Time, req Request) (next Grantor, reply Reply) {
	if req.Release {
		return g.release(now, req)
	}
	if why := g.refusal(now, req); why != "" {
		return g, g.Refuse(now, why)
	}
	next = g
	next.Durable.Term = req.Term
	next.Durable.Grant = Grant{Term: req.Term, Holder: req.Holder, Boot: req.Boot}
	// Only the holder of a term makes records of that term. A record of an
	// earlier term is what a candidate is elected with, not something to adopt.
	if req.LeaseVoters.Term == req.Term && Newer(req.LeaseVoters, g.Durable.LeaseVoters) {
		next.Durable.LeaseVoters = cloneRecord(req.LeaseVoters)
	}
	// A shorter lease must not shorten time that was promised before.
	if until := now.Add(req.TTL); until.After(next.Until) {
		next.Until = until
	}
	reply = next.reply(now)
	reply.Granted = true
	return next, reply
}

// Refuse returns the answer of a grantor that does not grant.
func (g Grantor) Refuse(now time.Time, reason string) Reply {
	r := g.reply(now)
	r.Reason = reason
	return r
}

func (g Grantor) reply(now time.Time) Reply {
	r := Reply{Term: g.Durable.Term, LeaseVoters: cloneRecord(g.Durable.LeaseVoters)}
	if g.running(now) {
		r.Holder, r.Remaining = g.Durable.Grant.Holder, g.Until.Sub(now)
	}
	return r
}

// running reports whether the lease that g granted last has not expired, by the
// clock of g's node.
func (g Grantor) running(now time.Time) bool { return g.Until.After(now) }

// refusal says why g does not grant req, empty if it does. The order matters
// only for the text.
func (g Grantor) refusal(now time.Time, req Request) string {
	if err := validRequest(req); err != nil {
		return err.Error()
	}
	d := g.Durable
	switch {
	case req.Cluster != g.Cluster:
		return fmt.Sprintf("this node belongs to cluster %q, not %q", g.Cluster, req.Cluster)
	case len(d.LeaseVoters.Names) == 0:
		return "this node has no lease voter record"
	case req.Token != d.LeaseVoters.Token:
		return fmt.Sprintf("this node is in incarnation %s, not %s", d.LeaseVoters.Token, req.Token)
	case d.Term > MaxTerm:
		bad := &BadTermError{Term: d.Term}
		return bad.Error() + "; " + bad.Hint()
	case req.Term < d.Term:
		return fmt.Sprintf("term %d is over: term %d has been seen", req.Term, d.Term)
	}
	if why := beyond(d.Term, req.Term); why != "" {
		return why
	}
	if why := conflict(d.LeaseVoters, req.LeaseVoters); why != "" {
		return why
	}
	same := d.Grant.Holder == req.Holder && d.Grant.Boot == req.Boot
	// A holder may finish its term after it has ceased to be a lease voter.
	renews := same && d.Grant.Term == req.Term
	switch {
	case !req.Entitled && !renews && !slices.Contains(d.LeaseVoters.Names, req.Holder):
		return fmt.Sprintf("%s is not one of the lease voters %v, nor a user with an operator's certificate", req.Holder,
			d.LeaseVoters.Names)
	case !same && g.running(now):
		return fmt.Sprintf("%s has the lease of term %d", d.Grant.Holder, d.Grant.Term)
	case !same && req.Term == d.Grant.Term:
		return fmt.Sprintf("term %d was granted to %s", d.Grant.Term, d.Grant.Holder)
	case req.Term == d.Grant.Term && d.Grant.Released:
		// A renewal that was overtaken by the release.
		return fmt.Sprintf("the lease of term %d was given back", req.Term)
	}
	return ""
}

func validRequest(req Request) error {
	if err := req.Holder.Validate(); err != nil {
		return err
	}
	if err := validRecord(req.LeaseVoters); err != nil {
		return err
	}
	switch {
	case req.Term == 0:
		return fmt.Errorf("term is missing")
	case req.LeaseVoters.Token != req.Token:
		return fmt.Errorf("lease voter record is of incarnation %s, the request of %s", req.LeaseVoters.Token, req.Token)
	case req.LeaseVoters.Term > req.Term:
		return fmt.Errorf("lease voter record %s is of a later term than %d", stamp(req.LeaseVoters), req.Term)
	case req.TTL <= 0 || req.TTL > MaxTTL:
		return fmt.Errorf("lease time is %v, at most %v is allowed", req.TTL, MaxTTL)
	}
	return nil
}

// release ends the grant if it is the holder's own and of that term.
func (g Grantor) release(now time.Time, req Request) (Grantor, Reply) {
	own := Grant{Term: req.Term, Holder: req.Holder, Boot: req.Boot}
	if req.Cluster != g.Cluster || g.Durable.Grant != own {
		return g, g.Refuse(now, fmt.Sprintf("%s has no lease of term %d here", req.Holder, req.Term))
	}
	next := g
	next.Durable.Grant.Released = true
	next.Until = time.Time{}
	reply := next.reply(now)
	reply.Granted = true
	return next, reply
}

// Recover returns what the node has on disk as a lease voter by the record, which
// replaces one that has no majority left: expect are the names in it, lost those
// that are gone for good or have forgotten it. It is an error while the node's
// grant to anyone runs, if the node knows another record, and if without the lost
// ones a majority of it is left. A node that has this very record keeps it; one
// whose own record has these names needs no other. Whoever calls it knows from
// etcd's quorum that the names of the record are those of the voters.
func (g Grantor) Recover(now time.Time, record cluster.LeaseVoters, expect, lost []cluster.NodeName) (Durable, error) {
	d := g.Durable
	record.Names = sorted(record.Names)
	if err := validRecord(record); err != nil {
		return d, err
	}
	own := d.LeaseVoters
	switch {
	case sameStamp(own, record) && slices.Equal(own.Names, record.Names):
		return d, nil
	case own.Token == record.Token && slices.Equal(own.Names, record.Names):
		return d, fmt.Errorf("lease voter record %s names %v here already", stamp(own), own.Names)
	case g.running(now):
		return d, fmt.Errorf("%s has the lease of term %d for another %v", d.Grant.Holder, d.Grant.Term, g.Until.Sub(now))
	case record.Term <= d.Term:
		return d, &StaleError{Want: record.Term, Seen: d.Term}
	case !InReach(d.Term, record.Term):
		return d, fmt.Errorf("term %d is too far above %d, the highest seen", record.Term, d.Term)
	case len(own.Names) > 0 && own.Token != record.Token:
		return d, fmt.Errorf("this node is in incarnation %s, not %s", own.Token, record.Token)
	case len(own.Names) > 0 && !slices.Equal(own.Names, sorted(expect)):
		return d, fmt.Errorf("lease voter record %s names %v here, not %v", stamp(own), own.Names, expect)
	case len(own.Names) > 0 && !cluster.Lost(own.Names, lost):
		return d, fmt.Errorf("a majority of the lease voters %v is left without %v", own.Names, lost)
	}
	d.Term, d.LeaseVoters = record.Term, record
	return d, nil
}

// LeaseVoters returns a copy of the record that the node has adopted.
func (g Grantor) LeaseVoters() cluster.LeaseVoters { return cloneRecord(g.Durable.LeaseVoters) }
