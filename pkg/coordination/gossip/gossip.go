package gossip

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"google.golang.org/grpc"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/internal/nodepb"
)

// Options says who this node is and how it reaches others.
type Options struct {
	// Name is the name of this node, which Caller on other nodes must see.
	Name cluster.NodeName
	// Address is where others reach this node's server: an IP address and a
	// port. The address of a listener on all interfaces is no address.
	Address string
	// Server gets the service. New must be called before it serves.
	Server grpc.ServiceRegistrar
	// Dial returns a connection to a daemon, which must prove to be name; name
	// is empty where only an address is known. The connection stays Dial's: it
	// is not closed, and asked for again when a stream on it breaks.
	Dial func(ctx context.Context, address string, name cluster.NodeName) (grpc.ClientConnInterface, error)
	// Caller returns who calls, from the context of a served stream.
	Caller func(ctx context.Context) (cluster.NodeName, error)
	// Meta is asked once, by New, for what other nodes see as Peer.Meta: at
	// most 512 bytes. It may be nil.
	Meta func() []byte
	// OnConflict is called with a conflict when it begins. It must return at once
	// and may be nil.
	OnConflict func(Conflict)
	// Log gets what a person may want to read. It may be nil.
	Log func(format string, args ...any)
}

// A Conflict is one name in use at two addresses. It is seen for a moment, too,
// when a node comes back with another address before its old one is given up.
type Conflict struct {
	Name cluster.NodeName
	// Existing is the address that the name had first; Other wants it too.
	Existing, Other string
}

// Gossip is one node's part in the gossip. Its methods may be called from
// several goroutines.
type Gossip struct {
	o         Options
	table     *table
	transport *transport
	list      *memberlist.Memberlist
	// leaveLimit is defaultLeaveLimit, where no test has more time.
	leaveLimit time.Duration

	mu      sync.Mutex
	joining map[string]*attempt
}

// An attempt is a join in progress.
type attempt struct {
	done chan struct{}
	err  error
}

const (
	// joinLimit bounds one exchange with one node, from the dial on.
	joinLimit = 5 * time.Second
	// defaultLeaveLimit bounds the leave message where its context does not.
	defaultLeaveLimit = 3 * time.Second
)

// New registers the service and starts to gossip, with nobody yet: see Join.
// Values in ctx reach Dial, its end does not: Close ends the gossip, so that a
// node that is asked to stop can still say that it leaves.
func New(ctx context.Context, o Options) (*Gossip, error) {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.OnConflict == nil {
		o.OnConflict = func(Conflict) {}
	}
	if o.Meta == nil {
		o.Meta = func() []byte { return nil }
	}
	at, err := o.check()
	if err != nil {
		return nil, fmt.Errorf("start gossip: %w", err)
	}
	meta := o.Meta()
	if len(meta) > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("start gossip: %d bytes of metadata, at most %d are allowed", len(meta),
			memberlist.MetaMaxSize)
	}
	g := &Gossip{o: o, leaveLimit: defaultLeaveLimit, joining: make(map[string]*attempt)}
	g.table = newTable(o.Name, o.OnConflict)
	g.table.rejoin = func(name cluster.NodeName, address string) { g.attempt(string(name) + "/" + address) }
	g.transport = newTransport(context.WithoutCancel(ctx), o, at, g.table.seen)
	if g.list, err = memberlist.Create(g.config(meta)); err != nil {
		g.transport.close()
		return nil, fmt.Errorf("start gossip: %w", err)
	}
	// Streams are served only from here on: nobody reads them earlier.
	nodepb.RegisterGossipServer(o.Server, g.transport)
	return g, nil
}

func (o Options) check() (netip.AddrPort, error) {
	if err := o.Name.Validate(); err != nil {
		return netip.AddrPort{}, err
	}
	if o.Server == nil || o.Dial == nil || o.Caller == nil {
		return netip.AddrPort{}, errors.New("a server, a dial and a caller function are needed")
	}
	at, err := netip.ParseAddrPort(o.Address)
	switch {
	case err != nil:
		return at, fmt.Errorf("address %q is not an IP address and a port", o.Address)
	case at.Port() == 0 || at.Addr().IsUnspecified() || at.Addr().Zone() != "":
		return at, fmt.Errorf("address %q cannot be reached from other nodes", o.Address)
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), nil
}

// config returns the tuning. A node that dies is noticed by the first of its
// peers to probe it: after about half an interval, and then one interval
// without an answer and one of suspicion. That is 5 to 8 seconds, for a few
// hundred bytes a second. Who coordinates does not wait for it: a lease that
// runs out shows it sooner.
func (g *Gossip) config(meta []byte) *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.Name = string(g.o.Name)
	c.Transport = g.transport
	c.ProtocolVersion = memberlist.ProtocolVersionMax
	c.Logger = log.New(logWriter{g.o.Log}, "", 0)
	d := &delegate{table: g.table, meta: meta}
	c.Delegate, c.Events, c.Conflict, c.Alive = d, d, d, d

	c.ProbeInterval = 2 * time.Second
	c.ProbeTimeout = 500 * time.Millisecond
	c.SuspicionMult = 1
	c.IndirectChecks = 2
	// A node in trouble probes at half the speed, not at an eighth.
	c.AwarenessMaxMultiplier = 2
	// Packets and streams share one connection: where packets do not pass, a
	// stream would not either.
	c.DisableTcpPings = true
	c.TCPTimeout = joinLimit
	c.PushPullInterval = pushPullInterval
	c.QueueCheckInterval = time.Hour
	// News travels with probes, too. What there is mostly is none: the timer would be most of what wakes
	// an idle daemon.
	c.GossipInterval = 500 * time.Millisecond
	// A dead node's name may come back with another address at once: zero would
	// mean never.
	c.DeadNodeReclaimTime = time.Nanosecond
	// The connection is encrypted, or meant not to be.
	c.EnableCompression = false
	return c
}

// Join exchanges news with the daemons at addrs, all at the same time, and
// returns how many answered. An address is host:port or name=host:port; a host
// that is a DNS name is looked up, and one of its addresses has to answer. The
// error has the reasons of those that did not; it is nil when all answered.
func (g *Gossip) Join(ctx context.Context, addrs []string) (int, error) {
	errs := make([]error, len(addrs))
	var all sync.WaitGroup
	for i, a := range addrs {
		all.Go(func() {
			if err := g.join(ctx, a); err != nil {
				errs[i] = fmt.Errorf("join %s: %w", a, err)
			}
		})
	}
	all.Wait()
	n := 0
	for _, err := range errs {
		if err == nil {
			n++
		}
	}
	return n, errors.Join(errs...)
}

func (g *Gossip) join(ctx context.Context, address string) error {
	name, hostPort, named := strings.Cut(address, "=")
	if !named {
		name, hostPort = "", address
	}
	targets, err := resolve(ctx, hostPort)
	if err != nil {
		return err
	}
	var reasons []error
	for _, target := range targets {
		if name != "" {
			target = name + "/" + target
		}
		if err = g.exchange(ctx, target); err == nil {
			return nil
		}
		reasons = append(reasons, err)
	}
	return errors.Join(reasons...)
}

// exchange waits for one attempt, no longer than ctx.
func (g *Gossip) exchange(ctx context.Context, target string) error {
	a := g.attempt(target)
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// attempt begins to join a target, [name/]ip:port, or returns the attempt that
// has begun: a target that hangs is not asked twice.
func (g *Gossip) attempt(target string) *attempt {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.joining[target]; a != nil {
		return a
	}
	a := &attempt{done: make(chan struct{})}
	started := g.transport.start(func() {
		defer close(a.done)
		if _, err := g.list.Join([]string{target}); err != nil {
			a.err = reason(err, target)
		} else if name, _, named := strings.Cut(target, "/"); named {
			g.table.seen(cluster.NodeName(name)) // Dial has made sure of the name
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.joining, target)
	})
	if !started {
		a.err = errClosed
		close(a.done)
		return a
	}
	g.joining[target] = a
	return a
}

// reason returns the one reason in memberlist's list of them, without what it
// says of the target.
func reason(err error, target string) error {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	_, address, named := strings.Cut(target, "/")
	if !named {
		address = target
	}
	return errors.New(strings.TrimPrefix(err.Error(), "failed to join "+address+": "))
}

// resolve returns the addresses, ip:port, that host:port stands for.
func resolve(ctx context.Context, hostPort string) ([]string, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("port %q is not a number from 1 to 65535", port)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []string{net.JoinHostPort(ip.Unmap().String(), port)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var targets []string
	for _, ip := range ips {
		targets = append(targets, net.JoinHostPort(ip.Unmap().String(), port))
	}
	return targets, nil
}

// Peers returns every node that is alive or was lately, this one too, by name.
func (g *Gossip) Peers() []Peer { return g.table.list() }

// Changed returns a channel that gets a value after Peers changed: one, however
// many changes there were since the last was taken. LastSeen is no change.
func (g *Gossip) Changed() <-chan struct{} { return g.table.changed }

// Leave notifies the others that this node goes, so that they need not find out,
// and waits until they have heard it, or for ctx. The node goes on to answer
// until Close.
func (g *Gossip) Leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.leaveLimit)
	defer cancel()
	left := make(chan error, 1)
	if !g.transport.start(func() {
		err := g.list.Leave(g.leaveLimit)
		// memberlist has only handed its packets over by now.
		g.transport.flush(ctx)
		left <- err
	}) {
		return fmt.Errorf("leave gossip: %w", errClosed)
	}
	select {
	case err := <-left:
		if err != nil {
			return fmt.Errorf("leave gossip: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("leave gossip: %w", ctx.Err())
	}
}

// Close ends the gossip without a leave message and waits for its goroutines, or
// for ctx. A probe that memberlist has begun ends by itself, without effect,
// within two seconds. The server may be stopped gracefully only after Close:
// packet streams do not end before.
func (g *Gossip) Close(ctx context.Context) error {
	if err := g.list.Shutdown(); err != nil {
		return fmt.Errorf("close gossip: %w", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.transport.running.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close gossip: %w", ctx.Err())
	}
}
