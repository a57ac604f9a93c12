package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/listen"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

func (d *Daemon) openPort(ctx context.Context) error {
	listener, err := net.Listen("tcp", d.c.Listen())
	if err != nil && d.state.State().Assigned == nil {
		return fmt.Errorf("%w (is another daemon running here, or --grpc-port taken?)", err)
	}
	if err != nil {
		if listener, err = d.listen(ctx, "grpc", d.c.Listen()); err != nil {
			return err
		}
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	d.node.address = net.JoinHostPort(d.c.Address, port)
	o := rpc.ServerOptions{Name: d.name, Cluster: d.c.ClusterName, Handler: handler{d.node}, Panicked: d.panicked,
		Strange: d.node.neighbours.noteForeignCall}
	p := rpc.PoolOptions{Self: d.name}
	if !d.c.Insecure {
		o.TLS, o.Identify, o.Marks = d.keys.server.ServerTLS(), identify, d.marks
		p.ClientTLS, p.NameOf = d.clientTLS, certs.ServerNode
	}
	d.server, err = rpc.NewServer(o)
	if err != nil {
		_ = listener.Close()
		return err
	}
	d.pool = rpc.NewPool(p)
	d.onClose(func(context.Context) { _ = d.pool.Close() })
	d.peerGroup, err = newPeerGroup(ctx, d, listener)
	return err
}

// marks are those of the incarnations that this node has a part in, see [rpc.Mark].
func (d *Daemon) marks() (list []string) {
	st := d.state.State()
	if st.Assigned == nil {
		return nil // what it prepares may be in no record yet
	}
	add := func(token cluster.Token) {
		if token != "" {
			list = append(list, rpc.Mark(d.c.ClusterName, token))
		}
	}
	add(st.Assigned.Token)
	if st.Prepared != nil {
		add(st.Prepared.Token)
	}
	if st.Staged != nil {
		add(st.Staged.Token)
	}
	return list
}

func (d *Daemon) clientTLS(node cluster.NodeName) *tls.Config {
	if node == "" {
		return d.keys.client.AnyNodeTLS()
	}
	return d.keys.client.ClientTLS(certs.ManagerServerName(node))
}

// callerRoles are the roles of certificates as the port knows them.
var callerRoles = map[certs.Role]rpc.Role{
	certs.Node: rpc.RoleNode, certs.Operator: rpc.RoleOperator, certs.ReadOnly: rpc.RoleReadOnly,
}

func identify(s tls.ConnectionState) (rpc.Caller, error) {
	o, err := certs.PeerOwner(s)
	return rpc.Caller{Name: o.Name, Role: callerRoles[o.Role], Authenticated: true}, err
}

// askStanding asks another node to whom it has given its vote. The node must
// prove its name, so it does not matter who said where it listens.
func (d *Daemon) askStanding(ctx context.Context, name cluster.NodeName) (lease.Standing, error) {
	address := d.addressOf(ctx, name)
	if address == "" {
		return lease.Standing{}, fmt.Errorf("the address of node %s is unknown", name)
	}
	n := rpc.Node{Name: name, Address: address}
	s, err := d.pool.Standing(ctx, n, d.c.ClusterName)
	if !errors.Is(err, rpc.ErrUnimplemented) {
		return s, err
	}
	// An observation is slower: the node asks its etcd.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), olderTimeout)
	defer cancel()
	r, err := d.pool.Observe(ctx, n, d.c.ClusterName)
	return standingOf(r.Node), err
}

// olderTimeout is how long a node of an older version may take to report its vote.
const olderTimeout = 2 * time.Second

// standingOf is what a node of a version that does not serve Standing lets know
// by its observation: to whom it gave its last vote, but not whether that runs.
// Until all nodes are upgraded that has to do.
func standingOf(n cluster.Node) lease.Standing {
	s := lease.Standing{Seen: n.Lease.Term, LeaseVoters: n.LeaseVoters}
	if n.Lease.Holder != "" && !n.Lease.Released {
		s.Term, s.Holder, s.Remaining = n.Lease.Term, n.Lease.Holder, lease.DefaultTTL
	}
	return s
}

// addressOf returns where a node listens: as gossip or the seeds say, or as the
// node has written it into the store, empty for nowhere.
func (d *Daemon) addressOf(ctx context.Context, name cluster.NodeName) string {
	for _, p := range d.peerGroup.peers() {
		if p.Name == name {
			return p.Address
		}
	}
	short, cancel := context.WithTimeout(ctx, recordsTimeout)
	defer cancel()
	view, err := d.records(short, recordsInterval)
	if err != nil {
		view, _ = d.view.Heard()
	}
	for _, n := range view.Nodes {
		if n.Name == name {
			return n.Address
		}
	}
	return ""
}

func (d *Daemon) panicked(method string, value any, stack []byte) {
	d.log.Error("a request ended in a panic", "method", method, "value", value, "stack", string(stack))
}

// portPause is the time between two tries to open a port that is taken.
const portPause = 2 * time.Second

// portLimits are the bounds of the port. Without TLS nobody proves anything, and
// every connection stays fresh.
func (d *Daemon) portLimits() listen.Limits {
	l := rpc.PortLimits
	if d.c.Insecure {
		l.Fresh, l.FreshPerSource = 0, 0
	}
	l.Dropped = func(source string) {
		d.nums.dropped("grpc")
		d.log.Debug("connection dropped", "port", "grpc", "source", source)
	}
	return l
}

// listen opens a port, and keeps trying while it is taken: etcd runs meanwhile,
// and a member is worth more than this daemon's port.
func (d *Daemon) listen(ctx context.Context, what, address string) (net.Listener, error) {
	for said := false; ; said = true {
		l, err := net.Listen("tcp", address)
		if err == nil {
			return l, nil
		}
		if !said {
			d.log.Error("a port cannot be opened; etcd keeps running, and opening is retried", "port", what, "error", err)
		}
		if err := wait.For(ctx, portPause); err != nil {
			return nil, err
		}
	}
}

// serveMetrics serves the metrics port at one address until ctx ends.
func (d *Daemon) serveMetrics(ctx context.Context, address string) {
	l, err := d.listen(ctx, "metrics", address)
	if err != nil {
		return
	}
	page, config := d.page()
	w := web{alive: d.alive, ready: d.ready, page: page, tls: config, log: d.log}
	if err := d.nums.serve(ctx, l, w); err != nil {
		d.log.Error("metrics are no longer served", "error", err)
	}
}
