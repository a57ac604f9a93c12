package daemon

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/lease"
	"github.com/etcdadm/etcdadm/pkg/rpc"
	"github.com/etcdadm/etcdadm/pkg/rpc/election"
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
	// records reads the control store.
	records func(ctx context.Context) (store.View, error)
}

// maxAsked bounds whom one order makes a node ask.
const maxAsked = 64

// holds reports why the holder of an order with a term does not have the lease.
// It is asked for nothing where this node has given its vote, and that runs.
func (a *authority) holds(ctx context.Context, e rpc.Execution) error {
	claim := lease.Claim{Holder: e.Holder, Term: e.Term, Electors: e.Electors}
	own, err := a.voter.Standing(ctx)
	if err != nil {
		return err
	}
	if claim.Grants(own) {
		return nil
	}
	ask := claim.Ask(own.Electors)
	if len(own.Electors.Names) == 0 {
		// A node that knows no electors asks everybody: if others are the electors,
		// they say so.
		ask = append(ask, a.others()...)
		slices.Sort(ask)
		ask = slices.Compact(ask)
	}
	var newest cluster.Token
	if len(own.Electors.Names) > 0 && own.Electors.Token != claim.Electors.Token {
		view, err := a.records(ctx)
		if err == nil && view.IncarnationsErr == nil && len(view.Incarnations) > 0 {
			newest = view.Incarnations[len(view.Incarnations)-1].Token
		}
	}
	answers := a.standings(ctx, ask[:min(len(ask), maxAsked)])
	answers[a.self] = own
	if err := claim.Proven(own.Electors, newest, answers); err != nil {
		return &rpc.Error{
			Kind: rpc.Refused, Text: fmt.Sprintf("%s gave an order in term %d without the lease: %v", e.Holder, e.Term, err),
			Hint: "only who holds the coordinator's lease gives orders: an elector's daemon, or a person with an operator's certificate",
		}
	}
	return nil
}

// standings asks the nodes, all at the same time, for as long as an elector may
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

// A recordsCache reads the store at most once in a while: who may send orders
// must not make this node send requests without end.
type recordsCache struct {
	read func(ctx context.Context) (store.View, error)
	now  func() time.Time

	mu   sync.Mutex
	at   time.Time
	view store.View
	err  error
}

const (
	recordsEvery   = 500 * time.Millisecond
	recordsTimeout = 3 * time.Second
)

func (c *recordsCache) get(ctx context.Context) (store.View, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() && c.now().Sub(c.at) < recordsEvery {
		return c.view, c.err
	}
	ctx, cancel := context.WithTimeout(ctx, recordsTimeout)
	defer cancel()
	c.view, c.err = c.read(ctx)
	c.at = c.now()
	return c.view, c.err
}
