package sim

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// Who coordinates is decided by the values of package lease, as daemons use them:
// each node has a grantor, whose durable part is on its disk, a candidate, and the vote
// by which it should try for the lease or not.
// The network between them is the world's.

// clusterName is the name of the cluster.
const clusterName = "sim"

// leaseVoters returns the lease voters' record on n's disk.
func (n *node) leaseVoters() cluster.LeaseVoters { return n.grantor.Durable.LeaseVoters }

// runDaemon starts n's daemon: it has what is on the disk, and remembers nothing
// else.
func (n *node) runDaemon(w *world) {
	if !n.awake() && n.up {
		w.goOn(n) // nothing starts on a machine that stands still
	}
	n.since = n.wall(w.now)
	n.memory, n.read, n.asked, n.failures, n.ports = nil, nil, nil, nil, nil
	n.runs++
	n.grantor = lease.Start(n.mono(w.now), clusterName, n.grantor.Durable)
	n.vote = lease.StartVote(n.mono(w.now), n.leaseVoters())
	n.candidate = lease.Candidate{
		Cluster: clusterName, Name: n.name, Boot: cluster.Token(strconv.Itoa(n.runs)), TTL: lease.DefaultTTL,
	}
}

// holds reports whether the daemon on n has the lease, by its own account.
func (w *world) holds(n *node) bool {
	_, _, held := n.candidate.Held(n.mono(w.now))
	return held
}

// round sends a round of by's candidate to the lease voters, and reports whether it
// was won. A request, or its answer, may get lost.
func (w *world) round(by *node, r *lease.Round) bool {
	won := false
	for _, name := range r.Nodes() {
		n := w.node(name)
		if n == nil || !w.reaches(by, n) || n.hangs() || w.lost() {
			r.Fail(name)
			continue
		}
		req := r.Request
		req.Entitled = n == by
		if n != by && w.delay(n, req) {
			r.Fail(name)
			continue
		}
		reply := w.decide(n, req)
		if !reply.Granted {
			w.logf("     %s does not grant: %s", name, reply.Reason)
		}
		if w.lost() {
			r.Fail(name)
			continue
		}
		by.candidate.Learn(reply.LeaseVoters, reply.Term)
		if !won { // who has won waits for nobody
			by.candidate.Note(r, name, reply)
			won = by.candidate.Finish(r)
		}
	}
	return won
}

func (w *world) renew(by *node) bool {
	r, err := by.candidate.Renew(by.mono(w.now))
	won := err == nil && w.round(by, r)
	by.clock.doubt = by.clock.doubt && !won
	return won
}

// keep is what the holders of leases did in the background until now.
func (w *world) keep(held []*node) {
	for _, n := range held {
		for range 2 { // one renewal may get lost
			if !n.usable() {
				continue
			}
			if r, err := n.candidate.Keep(n.mono(w.now)); err == nil && w.round(n, r) {
				n.clock.doubt = false
				break
			}
		}
	}
}

// holders returns the nodes whose daemons have the lease. Two of them at once
// would both act; those of an incarnation that a restore has ended are known to be
// of the past.
func (w *world) holders() []*node {
	var list []*node
	for _, n := range w.nodes {
		if !n.awake() || !w.holds(n) {
			n.clock.doubt = n.clock.doubt && !n.awake()
			continue
		}
		for _, o := range list {
			// Who stood still may believe in a lease that is over. It asks before it acts.
			if !n.clock.doubt && !o.clock.doubt && w.claim(n).Token == w.claim(o).Token && !w.outdated(n, o) {
				w.violate("two-coordinators", "%s and %s have the lease at once", o.name, n.name)
			}
		}
		list = append(list, n)
	}
	return list
}

// release gives the lease back.
func (w *world) release(by *node) {
	req, nodes, ok := by.candidate.Release()
	if !ok {
		return
	}
	for _, name := range nodes {
		if n := w.node(name); n != nil && w.reaches(by, n) && !n.hangs() && !w.lost() {
			w.decide(n, req)
		}
	}
}

// lead makes sure that the daemon on by may act, as one does that has observed. A
// cluster without lease voters is still to be bootstrapped; there the store decides.
func (w *world) lead(by *node, obs *cluster.Observation) bool {
	if _, paused := obs.Store.Pause(); paused {
		w.release(by)
		return true
	}
	if len(obs.LeaseVoters.Names) == 0 {
		return len(obs.Members) == 0
	}
	c := &by.candidate
	if term, _, held := c.Held(by.mono(w.now)); held && lease.Useful(term, w.claim(by), by.name, *obs) {
		return true
	}
	if !slices.Contains(obs.LeaseVoters.Names, by.name) {
		w.release(by)
		return false
	}
	c.Enter(obs.LeaseVoters.Token)
	c.Learn(obs.LeaseVoters, obs.LeaseVoters.Term)
	before := c.Known()
	ok, used := w.campaign(by)
	if !ok && (used || lease.Newer(c.Known(), before)) {
		ok, _ = w.campaign(by) // a refusal has a newer record, or a later term
	}
	if ok {
		w.inherit(by, obs)
	}
	return ok
}

func (w *world) campaign(by *node) (won, used bool) {
	by.candidate.TTL = lease.DefaultTTL
	r, err := by.candidate.Campaign(by.mono(w.now))
	if err != nil {
		return false, false
	}
	if w.round(by, r) && w.renew(by) {
		by.failures = nil
		w.logf("%s coordinates in term %d", by.name, r.Request.Term)
		return true, false
	}
	req := r.Request
	req.Release = true
	for _, name := range r.Nodes() {
		if n := w.node(name); n != nil && w.reaches(by, n) && !n.hangs() && !w.lost() {
			w.decide(n, req)
		}
	}
	return false, r.Used()
}

// claim returns the record that the daemon on by acts by: that of its lease, or
// the newest that it knows.
func (w *world) claim(by *node) cluster.LeaseVoters {
	if r, _ := by.candidate.Record(); len(r.Names) > 0 {
		return r
	}
	return by.candidate.Known()
}

// confirm proves the lease right before the effect. The term is zero for what
// needs none.
func (w *world) confirm(by *node, obs *cluster.Observation, op plan.Operation) (cluster.Term, error) {
	blank := len(obs.LeaseVoters.Names) == 0 && len(obs.Members) == 0
	if plan.Unfenced(*obs, op) || bootstraps(op) && blank {
		return 0, nil
	}
	if len(w.claim(by).Names) == 0 {
		return 0, fmt.Errorf("no lease voters are known: %w", errRefuse)
	}
	if !w.renew(by) {
		return 0, fmt.Errorf("the lease is not confirmed: %w", errUnreachable)
	}
	term, _, held := by.candidate.Held(by.mono(w.now))
	if !held {
		return 0, fmt.Errorf("the lease is over: %w", errUnreachable)
	}
	return term, nil
}

// bootstraps reports whether op is one of those that bootstrap a cluster.
func bootstraps(op plan.Operation) bool {
	switch op.(type) {
	case *plan.MemberPrepare, *plan.IncarnationCreate, *plan.RestoreStage, *plan.RestoreSwitch, *plan.RestoreDiscard,
		*plan.RequestClose, *plan.LeaseVotersRecover, *plan.LeaseVotersAdopt:
		return true
	}
	return false
}

// An order is what a coordinator sends to a node.
type order struct {
	by          *node
	term        cluster.Term
	leaseVoters cluster.LeaseVoters
	op          plan.Operation
}

// entitled is what a node asks before it obeys: whether the order's term is over,
// and whether who gives it has the lease.
func (w *world) entitled(n *node, o order) error {
	if w.config.Trusting {
		return nil
	}
	if o.term == 0 {
		if !bootstraps(o.op) || n.assigned != nil && !unfenced(n, o.op) {
			return &lease.StaleError{Want: 0, Seen: n.grantor.Durable.Term}
		}
		return nil
	}
	d, err := n.grantor.Durable.Witness(o.term, o.by.name)
	if err != nil {
		return err
	}
	claim := lease.Claim{Holder: o.by.name, Term: o.term, LeaseVoters: o.leaseVoters}
	own := n.grantor.Standing(n.mono(w.now))
	if n != o.by && !claim.Grants(own) {
		if n.assigned == nil && n.prepared == nil {
			own.LeaseVoters = cluster.LeaseVoters{} // a spare is no lease voter
		}
		unknown := len(own.LeaseVoters.Names) == 0 || own.LeaseVoters.Token != claim.LeaseVoters.Token
		err := claim.Proven(w.evidence(n, claim, own, unknown))
		if err != nil && !unknown && n.assigned == nil && !n.disk.data {
			// What it has promised may have begun, and moved on, without it.
			err = claim.Proven(w.evidence(n, claim, own, true))
		}
		if err != nil {
			return err
		}
	}
	n.grantor.Durable = d
	return nil
}

// unfenced reports whether a node that runs a member takes op without a term.
func unfenced(n *node, op plan.Operation) bool {
	switch op := op.(type) {
	case *plan.RestoreSwitch:
		return n.staged != nil && n.staged.Token == op.Token && n.staged.Ready
	case *plan.RestoreStage:
		return cluster.Lost(n.leaseVoters().Names, op.Lost)
	case *plan.LeaseVotersRecover:
		return len(n.leaseVoters().Names) == 0 || cluster.Lost(n.leaseVoters().Names, op.Lost)
	case *plan.LeaseVotersAdopt:
		return n.leaseVoters().Token != op.Token
	}
	return false
}

// writeLeaseVoters has the holder's candidate change the record.
func (w *world) writeLeaseVoters(by *node, op *plan.LeaseVotersWrite) error {
	c := &by.candidate
	present, _ := c.Record()
	if present.Token != op.Token {
		return fmt.Errorf("the lease is of incarnation %s: %w", present.Token, errRefuse)
	}
	for _, name := range op.Names {
		if slices.Contains(present.Names, name) {
			continue
		}
		// A new lease voter is asked first: without it the record may have no majority.
		if r, err := c.Probe(by.mono(w.now), name); err != nil || !w.round(by, r) {
			return fmt.Errorf("lease voter %s is not ready: %w", name, errUnreachable)
		}
	}
	if err := c.Change(by.mono(w.now), op.Names); err != nil {
		return err
	}
	if !w.renew(by) {
		return errUnreachable
	}
	return nil
}

// recoverLeaseVoters compares what it receives with what the quorum says, through the
// node's own member, with what the voters report, and with the store.
func (w *world) recoverLeaseVoters(n *node, op *plan.LeaseVotersRecover) error {
	g := w.group(op.Token)
	if n.assigned == nil || n.assigned.Token != op.Token || g == nil || !w.reports(g, n) {
		return errUnreachable
	}
	var voters []cluster.NodeName
	for _, m := range g.members {
		if !m.learner {
			voters = append(voters, m.name)
		}
	}
	if !slices.Equal(voters, op.Names) {
		return errRefuse
	}
	r := lease.Recovery{Record: cluster.LeaseVoters{Token: op.Token, Term: op.Term, Names: op.Names}, Expect: op.Expect,
		Lost: op.Lost}
	if !w.config.Trusting {
		var declared [][]cluster.NodeName
		for _, q := range w.store.requests {
			if q.Kind == cluster.RequestLeaseVoters {
				declared = append(declared, q.Lost)
			}
		}
		own := n.grantor.Standing(n.mono(w.now))
		answers := w.standings(n, r.Ask(own.LeaseVoters))
		answers[n.name] = own
		if err := r.Supported(own, declared, answers); err != nil {
			return err
		}
	}
	d, err := n.grantor.Recover(n.mono(w.now), r.Record, op.Expect, op.Lost)
	if err == nil {
		n.grantor.Durable = d
	}
	return err
}

// electable reports, by the world's own account, whether a majority of the lease voters
// that obs reports has the record.
func (w *world) electable(by *node, obs *cluster.Observation) bool {
	record := obs.LeaseVoters
	if len(record.Names) == 0 {
		return len(obs.Members) == 0 // without lease voters it is unknown whether another acts
	}
	granted := 0
	for _, name := range record.Names {
		if n := w.node(name); n != nil && w.reaches(by, n) && !n.hangs() && n.leaseVoters().Token == record.Token &&
			len(n.leaseVoters().Names) > 0 {
			granted++
		}
	}
	return granted >= cluster.Quorum(len(record.Names))
}
