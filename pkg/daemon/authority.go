package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc/election"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// An authority finds out whether an order of another is to be obeyed: whether
// the caller has the lease that the order speaks of, and where an order needs
// none, whether the store says what it builds on.
type authority struct {
	self  cluster.NodeName
	voter *election.Voter
	// ask asks a node for its standing. others are the nodes that seem to be there.
	ask    func(ctx context.Context, node cluster.NodeName) (lease.Standing, error)
	others func() []cluster.NodeName
	// records reads the control store, or has what was read within age, and waits for
	// it as long as its context says.
	// published reads what the last coordinator wrote there of the lease voters.
	records   func(ctx context.Context, age time.Duration) (store.View, error)
	published func(ctx context.Context) (cluster.LeaseVoters, error)
	// hasData reports whether the node has data of a member.
	hasData func() bool
}

// maxAsked bounds whom one order makes a node ask.
const maxAsked = 64

// holds reports why the holder of an order with a term does not have the lease.
// It is asked for nothing where this node has given its vote, and that runs. spare
// says that the node has neither a member nor a promise: then it is no lease voter, and
// a record that it has kept may be so old that nobody named in it is left. The same goes for
// one that has promised to begin with a cluster and has no member: that may have begun
// without it, and moved on. But it may still begin, so the record counts, and beside it
// what the store says.
func (a *authority) holds(ctx context.Context, e plan.Order, spare, promised bool) error {
	claim := lease.Claim{Holder: e.Holder, Term: e.Term, LeaseVoters: e.LeaseVoters}
	own, err := a.voter.Standing(ctx)
	if err != nil {
		return err
	}
	if claim.Grants(own) {
		return nil
	}
	if spare {
		own.LeaseVoters = cluster.LeaseVoters{}
	}
	unknown := len(own.LeaseVoters.Names) == 0
	consult := unknown || own.LeaseVoters.Token != claim.LeaseVoters.Token
	evidence := a.evidence(ctx, claim, own, consult)
	err = claim.Proven(evidence)
	if err != nil && promised && !consult && !a.hasData() {
		err = claim.Proven(a.evidence(ctx, claim, own, true))
	}
	if err == nil && unknown && evidence.Newest == "" {
		err = a.harmless(e.Operation)
	}
	if err != nil {
		return &rpc.Error{
			Kind: rpc.Refused, Text: fmt.Sprintf("%s gave an order in term %d without the lease: %v", e.Holder, e.Term, err),
			Hint: "only the holder of the coordinator's lease gives orders: a lease voter's daemon, or a user with an " +
				"operator's certificate",
		}
	}
	return nil
}

// evidence is what this node, which stands so, finds out about a claim, also from the store,
// where that is to be consulted.
func (a *authority) evidence(ctx context.Context, c lease.Claim, own lease.Standing, consult bool) lease.Evidence {
	e := lease.Evidence{Own: own, Answers: map[cluster.NodeName]lease.Standing{a.self: own}}
	var others []cluster.NodeName
	if consult {
		a.consult(ctx, &e)
		// If others are the lease voters, they say so.
		others = a.others()
	}
	a.gather(ctx, c, &e, others)
	return e
}

// consultTimeout bounds how long an order waits for the store. What an order proves lasts
// less than [lease.DefaultTTL], and the nodes that confirm it are asked afterwards.
const consultTimeout = time.Second

// consult adds what the store says of the present incarnation, if it answers soon: the
// order is of somebody with a lease, which others can confirm. What a slow store said
// some seconds before does too: the order comes again and again meanwhile.
func (a *authority) consult(ctx context.Context, e *lease.Evidence) {
	ctx, cancel := context.WithTimeout(ctx, consultTimeout)
	defer cancel()
	view, err := a.records(ctx, recordsTimeout)
	if err != nil || view.IncarnationsErr != nil || len(view.Incarnations) == 0 {
		return
	}
	newest := view.Incarnations[len(view.Incarnations)-1]
	e.Newest, e.InitialMembers = newest.Token, cluster.InitialMemberNames(newest.Voters)
	if leaseVoters, err := a.published(ctx); err == nil && leaseVoters.Token == newest.Token {
		e.LeaseVoters = leaseVoters.Names
	}
}

// gather asks whom the claim calls for, and then those that the answers name.
func (a *authority) gather(ctx context.Context, c lease.Claim, e *lease.Evidence, others []cluster.NodeName) {
	asked := map[cluster.NodeName]bool{a.self: true}
	for range lease.AskRounds {
		var list []cluster.NodeName
		for _, n := range append(c.Ask(*e), others...) {
			if !asked[n] && len(asked) < maxAsked {
				asked[n] = true
				list = append(list, n)
			}
		}
		if len(list) == 0 {
			return
		}
		maps.Copy(e.Answers, a.standings(ctx, list))
	}
}

// harmless reports why a node does not carry out an order of lease voters on which
// neither a record of its own nor the store has a word: who gives it may have
// made them up, so data is not touched.
func (a *authority) harmless(op plan.Operation) error {
	if _, discards := op.(*plan.DataDiscard); discards || a.hasData() {
		return errors.New("this node has data but no lease voter record, and its store does not say who the lease voters are")
	}
	return nil
}

// standings asks the nodes, all at the same time, for as long as a lease voter may
// take to answer.
func (a *authority) standings(ctx context.Context, nodes []cluster.NodeName) map[cluster.NodeName]lease.Standing {
	ctx, cancel := context.WithTimeout(ctx, lease.CallTimeout)
	defer cancel()
	answers := map[cluster.NodeName]lease.Standing{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range nodes {
		if n == a.self {
			continue
		}
		wg.Go(func() {
			if s, err := a.ask(ctx, n); err == nil {
				mu.Lock()
				defer mu.Unlock()
				answers[n] = s
			}
		})
	}
	wg.Wait()
	return answers
}
