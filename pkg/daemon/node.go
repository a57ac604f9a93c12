package daemon

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc/election"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/node/apply"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// A node answers for this machine: to its own loop, and through the port to
// those of others.
type node struct {
	address string
	boot    cluster.Token
	local   *apply.Local
	voter   *election.Voter
	state   *nodestate.File
	keys    *keys
	now     func() time.Time
	// neighbours are the daemons that are none of ours.
	neighbours *neighbours
	// authority holds orders of others to the lease, orders writes them down.
	authority *authority
	orders    *orderBook
	// known returns what this daemon knows of its cluster; nil for nothing.
	known func(ctx context.Context) *cluster.Known
	// voted is the node's last vote, nil for none.
	voted atomic.Pointer[lease.Vote]
	// released is called when another run of a daemon, or a person, has released the lease.
	released func()
}

// Observe reports what the node knows about itself.
func (n *node) Observe(ctx context.Context) cluster.Answer {
	c, report := n.local.Observe(ctx)
	c.Address, c.Boot, c.CertNotAfter = n.address, n.boot, n.keys.renewer.NotAfter()
	s := n.state.State()
	c.Pause, c.Neighbours = s.Pause, n.neighbours.say()
	// Of a later term than its own vote it knows only that there was one.
	c.Lease.Term = s.Term
	if s.Term == s.Grant.Term {
		c.Lease.Holder, c.Lease.Released = s.Grant.Holder, s.Grant.Released
	}
	if g, err := n.voter.Standing(ctx); err == nil && g.Holder != "" {
		c.Lease.Running = g.Term == c.Lease.Term && g.Holder == c.Lease.Holder && g.Remaining > 0
	}
	return cluster.Answer{Node: c, Report: report, Now: n.now()}
}

// Execute carries out an order, if its term is not over: neither when it comes,
// nor when it has the semaphore.
func (n *node) Execute(ctx context.Context, e plan.Order) error {
	still := func(ctx context.Context) error { return n.counts(ctx, e) }
	if err := still(ctx); err != nil {
		return err
	}
	return n.local.Do(ctx, e, still)
}

// counts reports why an order does not count. A backup without a term is this daemon's own,
// which it takes where nobody can hold a lease yet: see [node.entitled] for those of others.
func (n *node) counts(ctx context.Context, e plan.Order) error {
	if _, backup := e.Operation.(*plan.BackupTake); backup && e.Term == 0 {
		return nil
	}
	return n.observeTerm(ctx, e)
}

// ExecuteOrder carries out an order of another, if the caller is entitled to it, and
// writes it down either way.
func (n *node) ExecuteOrder(ctx context.Context, from rpc.Caller, e plan.Order) error {
	began := n.now()
	if err := n.entitled(ctx, e); err != nil {
		n.orders.note(ctx, from, e, began, err, true)
		return err
	}
	n.orders.accepted(ctx, from, e)
	err := n.Execute(ctx, e)
	n.orders.note(ctx, from, e, began, err, false)
	return err
}

// entitled reports why an order of another is not obeyed. The node's own
// coordinator has just proven its lease, and read the store.
func (n *node) entitled(ctx context.Context, e plan.Order) error {
	s := n.state.State()
	if e.Term > 0 {
		// What is stale is said to be so, and nobody is asked for it.
		if _, err := durable(n.state).Witness(e.Term, e.Holder); err != nil {
			return err
		}
		return n.authority.holds(ctx, e, s.Assigned == nil && s.Prepared == nil, s.Assigned == nil && s.Prepared != nil)
	}
	if err := n.observeTerm(ctx, e); err != nil {
		return err
	}
	var leaseVoters []cluster.NodeName
	if s.Assigned != nil {
		leaseVoters = s.LeaseVoters.Names
	}
	return n.authority.bootstrapped(ctx, e.Operation, leaseVoters)
}

// observeTerm holds an order to the terms that the node has seen. Without a term
// only a node that runs nothing takes orders, and only those that found: a
// cluster that is to be bootstrapped has no lease voters yet, and its record in the
// store decides.
func (n *node) observeTerm(ctx context.Context, e plan.Order) error {
	if e.Term > 0 {
		return n.voter.Witness(ctx, e.Term, e.Holder)
	}
	if s := n.state.State(); !apply.Bootstraps(e.Operation) || s.Assigned != nil && !unfenced(s, e.Operation) {
		return &lease.StaleError{Want: 0, Seen: s.Term}
	}
	return nil
}

// unfenced reports whether a node that runs a member takes an order without a
// term: to change over to what it has staged, on which the record in the store
// has decided; and to stage, beside what it runs, where too few of its lease voters
// are left to give anyone a term; and to become a lease voter of an incarnation of which it
// has no record.
func unfenced(s nodestate.State, op plan.Operation) bool {
	switch op := op.(type) {
	case *plan.RestoreSwitch:
		return s.Staged != nil && s.Staged.Token == op.Token && s.Staged.Ready
	case *plan.RestoreStage:
		return cluster.Lost(s.LeaseVoters.Names, op.Lost)
	case *plan.LeaseVotersRecover:
		return len(s.LeaseVoters.Names) == 0 || cluster.Lost(s.LeaseVoters.Names, op.Lost)
	case *plan.LeaseVotersAdopt:
		return s.LeaseVoters.Token != op.Token
	}
	return false
}

// Lease votes.
func (n *node) Lease(ctx context.Context, req lease.Request) (lease.Reply, error) {
	reply, err := n.voter.Lease(ctx, req)
	if err != nil {
		return reply, err
	}
	var self cluster.NodeName
	if n.authority != nil {
		self = n.authority.self
	}
	v := n.voted.Load()
	next := v.After(n.now(), self, req, reply.Granted)
	if !reply.Granted {
		n.voted.CompareAndSwap(v, next)
		return reply, nil
	}
	n.voted.Store(next)
	// This daemon's own loop knows of it, and waits before it asks for another term.
	if req.Release && n.released != nil && req.Boot != n.boot {
		n.released()
	}
	return reply, nil
}

// late makes the node's vote what it is for a node that goes on now, and wanted to at due.
func (n *node) late(due time.Time, record cluster.LeaseVoters) {
	v := n.voted.Load()
	if next := v.Late(due, n.now(), record); next != v {
		n.voted.CompareAndSwap(v, next) // a vote that has just been given counts
	}
}

// vote returns the node's last vote, nil for none. A lease voter that has not voted yet counts from the
// first time it is asked.
func (n *node) vote(self cluster.NodeName, leaseVoters []cluster.NodeName, now time.Time) *lease.Vote {
	v := n.voted.Load()
	if next := v.Since(now, self, leaseVoters); next != v {
		n.voted.CompareAndSwap(v, next)
	}
	return n.voted.Load()
}

// handler is the node as the port serves it.
type handler struct{ n *node }

// Observe also returns what the daemon knows of the others, to a person.
func (h handler) Observe(ctx context.Context, from rpc.Caller) (cluster.Answer, error) {
	if h.n.known == nil || from.Role != rpc.RoleOperator && from.Role != rpc.RoleReadOnly {
		return h.n.Observe(ctx), nil
	}
	known := make(chan *cluster.Known, 1)
	go func() { known <- h.n.known(ctx) }()
	a := h.n.Observe(ctx)
	a.Known = <-known
	return a, nil
}

func (h handler) Execute(ctx context.Context, from rpc.Caller, e plan.Order) error {
	return wireError(h.n.ExecuteOrder(ctx, from, e))
}

func (h handler) Lease(ctx context.Context, from rpc.Caller, req lease.Request) (lease.Reply, error) {
	req.Entitled = from.Role == rpc.RoleOperator
	return h.n.Lease(ctx, req)
}

func (h handler) Standing(ctx context.Context, _ rpc.Caller) (lease.Standing, error) {
	return h.n.voter.Standing(ctx)
}

// wireError gives an error the kind by which the other side decides.
func wireError(err error) error {
	var stale *plan.StaleError
	var term *lease.StaleError
	var binary *etcdbin.NotFoundError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &stale), errors.As(err, &term):
		return &rpc.Error{Kind: rpc.Stale, Text: err.Error()}
	case errors.As(err, &binary):
		return &rpc.Error{Kind: rpc.Refused, Text: err.Error(), Hint: binary.Hint()}
	case errors.Is(err, apply.ErrPrecondition):
		return &rpc.Error{Kind: rpc.Refused, Text: err.Error()}
	}
	return err
}

// persist writes what the lease voter promises.
func persist(f *nodestate.File) func(lease.Durable) error {
	return func(d lease.Durable) error {
		return f.Update(nodestate.RecordGrant(d))
	}
}

// reload reads back what the lease voter has promised after a write that failed.
func reload(f *nodestate.File) func() (lease.Durable, error) {
	return func() (lease.Durable, error) {
		s, err := f.Settled()
		return s.Durable(), err
	}
}

// durable reads back what the lease voter has promised.
func durable(f *nodestate.File) lease.Durable {
	return f.State().Durable()
}
