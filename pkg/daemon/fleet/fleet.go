package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc/election"
	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/node/apply"
)

// Self is what a fleet reaches without the network: the node that it runs on.
// A person's command has none.
type Self interface {
	Observe(ctx context.Context) cluster.Answer
	Execute(ctx context.Context, e plan.Order) error
	Lease(ctx context.Context, req lease.Request) (lease.Reply, error)
}

// Options describe a fleet.
type Options struct {
	Cluster string
	// Name is the node that observes and acts; for a person a name of their own.
	Name cluster.NodeName
	Boot cluster.Token
	// Self is nil for a person.
	Self Self
	Pool *rpc.Pool
	View *StoreView
	// Records is the part of the store that operations write.
	Records apply.Records
	// EtcdTLS returns the configuration of a client of etcd, nil for plain text.
	EtcdTLS func() *tls.Config
	// Peers returns the nodes that are known to exist.
	Peers func() []observe.Peer
	// Store returns what the control store says; nil for what View says.
	Store func(ctx context.Context) observe.StoreAnswer
	// Heard is called with every answer of another node; nil ignores them.
	Heard func(node cluster.NodeName, a cluster.Answer)
	// Undrained hears of members that could not be drained, right before their removal; nil ignores it.
	Undrained func(node cluster.NodeName, why error)
	Now       func() time.Time
	// Fit and Progress are those of [newLease]; nil for always.
	Fit, Progress func() error
}

// A Fleet observes and acts.
type Fleet struct {
	o     Options
	lease *Lease
	since time.Time

	// storeRead says that the store has been read since the start.
	storeRead atomic.Bool
	// observing says that an observation of the own machine is under way, showing that one
	// for [Fleet.Show] is.
	observing, showing atomic.Bool

	mu        sync.Mutex
	addresses map[cluster.NodeName]string
}

// New returns a fleet. It connects to nothing yet.
func New(o Options) *Fleet {
	f := &Fleet{o: o, since: o.Now(), addresses: map[cluster.NodeName]string{}}
	f.lease = newLease(election.New(election.Options{
		Cluster: o.Cluster, Self: o.Name, Boot: o.Boot, Voters: voters{f}, Now: o.Now,
	}), o.Now, o.Fit, o.Progress)
	return f
}

// Lease returns the fleet's right to act.
func (f *Fleet) Lease() *Lease { return f.lease }

// Observe observes once.
func (f *Fleet) Observe(ctx context.Context, prev cluster.Observation) cluster.Observation {
	return f.took(observe.Collect(ctx, f.sources(&f.observing), prev))
}

// Show observes once for people only: nothing is learned for the lease or for orders. It
// may go on beside Observe, and takes nothing from it.
func (f *Fleet) Show(ctx context.Context, prev cluster.Observation) cluster.Observation {
	return f.withPause(observe.Collect(ctx, f.sources(&f.showing), prev))
}

// sources are what is asked; busy says that the own machine is being asked.
func (f *Fleet) sources(busy *atomic.Bool) observe.Sources {
	answer := f.o.Store
	if answer == nil {
		answer = f.o.View.Answer
	}
	return observe.Sources{
		Cluster: f.o.Cluster, Observer: f.o.Name, Since: f.since, Now: f.o.Now, Nonce: observe.NewToken,
		Peers: f.o.Peers, Store: answer, Probe: f.probe,
		Ask: func(ctx context.Context, p observe.Peer) (cluster.Answer, error) { return f.ask(ctx, p, busy) },
	}
}

// withPause has an observation without the store show a pause that nodes remember.
func (f *Fleet) withPause(obs cluster.Observation) cluster.Observation {
	if !f.storeRead.Load() && !obs.Store.Reachable {
		obs.Store.Requests = paused(obs.Nodes)
	}
	return obs
}

// took takes in an observation.
func (f *Fleet) took(obs cluster.Observation) cluster.Observation {
	f.learn(obs)
	if obs.Store.Reachable {
		f.storeRead.Store(true)
	}
	obs = f.withPause(obs)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range obs.Nodes {
		f.addresses[n.Name] = n.Address
	}
	return obs
}

// paused returns the pause that nodes remember, of those the last one: it holds
// until the store can be read.
func paused(nodes []cluster.Node) []cluster.Request {
	var last *cluster.Request
	for _, n := range nodes {
		if n.Reachable && n.Pause != nil && (last == nil || n.Pause.At.After(last.At)) {
			last = n.Pause
		}
	}
	if last == nil {
		return nil
	}
	return []cluster.Request{*last}
}

// learn takes in the terms that nodes have seen.
func (f *Fleet) learn(obs cluster.Observation) {
	for _, t := range observe.Terms(obs) {
		f.lease.session.Learn(cluster.LeaseVoters{}, t)
	}
}

func (f *Fleet) ask(ctx context.Context, p observe.Peer, busy *atomic.Bool) (cluster.Answer, error) {
	if f.o.Self != nil && p.Name == f.o.Name {
		return f.askSelf(ctx, busy)
	}
	a, err := f.o.Pool.Observe(ctx, rpc.Node{Name: p.Name, Address: p.Address}, f.o.Cluster)
	if err == nil && f.o.Heard != nil {
		f.o.Heard(p.Name, a)
	}
	return a, err
}

// askSelf checks the own machine, and gives up when ctx ends: a disk that
// hangs makes this node unreachable, as it would be for others, and stops no observation.
func (f *Fleet) askSelf(ctx context.Context, busy *atomic.Bool) (cluster.Answer, error) {
	if !busy.CompareAndSwap(false, true) {
		return cluster.Answer{}, errors.New("the last observation of this machine has not ended; its disk may hang")
	}
	answers := make(chan cluster.Answer, 1)
	go func() {
		defer busy.Store(false)
		answers <- f.o.Self.Observe(ctx)
	}()
	select {
	case a := <-answers:
		return a, nil
	case <-ctx.Done():
		return cluster.Answer{}, fmt.Errorf("check this machine: %w", context.Cause(ctx))
	}
}

// probe asks a member whose daemon is unreachable. The connection is made for the
// one question: it is needed rarely.
func (f *Fleet) probe(ctx context.Context, clientURLs []string, host string) (cluster.Report, error) {
	// The client tries until its context ends, also where nobody listens: each
	// observation would take that long, the first one of a new coordinator too.
	if err := listening(ctx, clientURLs[0]); err != nil {
		return cluster.Report{}, err
	}
	// Of one URL: a read that another member answers says nothing about this one.
	c, err := f.etcd(clientURLs[:1], host)
	if err != nil {
		return cluster.Report{}, err
	}
	defer func() { _ = c.Close() }()
	return c.Report(ctx)
}

// listening reports why no connection to a client URL can be made.
func listening(ctx context.Context, clientURL string) error {
	u, err := url.Parse(clientURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return err // for etcd's client to judge
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return fmt.Errorf("ask the member: %w", err)
	}
	return conn.Close()
}

// etcd returns a client of members, whose certificates are of host where that is not empty.
func (f *Fleet) etcd(clientURLs []string, host string) (*etcdclient.Client, error) {
	o := etcdclient.Options{Endpoints: clientURLs, ServerName: host}
	if f.o.EtcdTLS != nil {
		o.TLS = f.o.EtcdTLS()
	}
	return etcdclient.Open(o)
}

// address returns where a node listens, from the last observation.
func (f *Fleet) address(name cluster.NodeName) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.addresses[name]; a != "" {
		return a, nil
	}
	for _, p := range f.o.Peers() { // there has been no observation yet
		if p.Name == name && p.Address != "" {
			return p.Address, nil
		}
	}
	return "", fmt.Errorf("the address of node %s is unknown", name)
}

// Coordinator returns what carries operations out under the fleet's lease.
func (f *Fleet) Coordinator() *apply.Coordinator {
	return &apply.Coordinator{
		Self: f.o.Name, Fence: f.lease, Execute: f.execute, Records: f.o.Records, Now: f.o.Now,
		Etcd:      func(urls []string) (apply.Etcd, error) { return f.etcd(urls, "") },
		Undrained: f.o.Undrained,
	}
}

// execute has op's node carry it out, in the name of the term. Id names the order.
func (f *Fleet) execute(ctx context.Context, op plan.Operation, term cluster.Term, id string) error {
	node, _ := plan.Target(op)
	order := plan.Order{
		Operation: op, Term: term, Holder: f.o.Name, LeaseVoters: f.lease.LeaseVoters(), ID: id,
	}
	if f.o.Self != nil && node == f.o.Name {
		return f.executeHere(ctx, order)
	}
	address, err := f.address(node)
	if err != nil {
		return err
	}
	err = f.o.Pool.Execute(ctx, rpc.Node{Name: node, Address: address}, f.o.Cluster, order)
	if rpc.KindOf(err) == rpc.Invalid {
		// Both sides know the same orders unless their versions differ.
		return &rpc.Error{
			Kind: rpc.Invalid, Text: fmt.Sprintf(
				"order not understood by node %s, which may run another version of etcd-manager: %v", node, err),
			Hint: "upgrade the older nodes; the order will be retried",
		}
	}
	return err
}

// executeHere has the own node carry an order out, and gives up when ctx ends, as
// with any other node: a disk that hangs must not hold up the loop.
func (f *Fleet) executeHere(ctx context.Context, e plan.Order) error {
	done := make(chan error, 1)
	go func() { done <- f.o.Self.Execute(ctx, e) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("order this node: %w", context.Cause(ctx))
	}
}

// voters reaches the lease voters.
type voters struct{ f *Fleet }

// Lease asks one lease voter.
func (v voters) Lease(ctx context.Context, node cluster.NodeName, req lease.Request) (lease.Reply, error) {
	if v.f.o.Self != nil && node == v.f.o.Name {
		return v.f.o.Self.Lease(ctx, req)
	}
	address, err := v.f.address(node)
	if err != nil {
		return lease.Reply{}, err
	}
	return v.f.o.Pool.Lease(ctx, rpc.Node{Name: node, Address: address}, req)
}
