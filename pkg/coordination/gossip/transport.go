package gossip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/internal/nodepb"
)

var errClosed = errors.New("the gossip is closed")

const (
	// maxLinks bounds the streams that news about many nodes can cause.
	maxLinks = 128
	// streamTimeout bounds one of memberlist's connections; the longest exchanges
	// two states.
	streamTimeout = 30 * time.Second
	// lingerTimeout is how long a closed connection waits for the other end.
	lingerTimeout = time.Second
)

// A transport carries memberlist's packets and connections. It is a
// [memberlist.NodeAwareTransport].
type transport struct {
	nodepb.UnimplementedGossipServer

	o    Options
	at   netip.AddrPort
	seen func(cluster.NodeName)

	packetCh chan *memberlist.Packet
	streamCh chan net.Conn

	ctx    context.Context
	cancel context.CancelFunc

	// running counts the goroutines; it grows only through start or from a
	// goroutine that it counts.
	running sync.WaitGroup
	mu      sync.Mutex
	closed  bool
	links   map[memberlist.Address]*link
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

func newTransport(ctx context.Context, o Options, at netip.AddrPort, seen func(cluster.NodeName)) *transport {
	t := &transport{
		o: o, at: at, seen: seen,
		packetCh: make(chan *memberlist.Packet),
		streamCh: make(chan net.Conn),
		links:    make(map[memberlist.Address]*link),
	}
	t.ctx, t.cancel = context.WithCancel(ctx)
	return t
}

// start runs f in a goroutine that Close waits for; after Close it does not.
func (t *transport) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.running.Go(f)
	return true
}

func (t *transport) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.cancel()
}

// Shutdown makes everything end, and waits for nothing.
func (t *transport) Shutdown() error {
	t.close()
	return nil
}

// FinalAdvertiseAddr returns the configured address. IPv4 has four bytes:
// memberlist compares them.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.at.Addr().AsSlice(), int(t.at.Port()), nil
}

// PacketCh returns the packets that came.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packetCh }

// StreamCh returns the connections that came.
func (t *transport) StreamCh() <-chan net.Conn { return t.streamCh }

// WriteTo sends a packet to whoever is at an address.
func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress leaves a packet to the link with a node. It never waits: what
// a slow node does not take is lost, as it would be in a network.
func (t *transport) WriteToAddress(b []byte, to memberlist.Address) (time.Time, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return time.Time{}, errClosed
	}
	l := t.links[to]
	if l == nil && len(t.links) < maxLinks {
		l = newLink(t, to)
		t.links[to] = l
		t.running.Go(l.run)
	}
	if l != nil {
		select {
		case l.queue <- bytes.Clone(b):
		default:
		}
	}
	return time.Now(), nil
}

// forget takes an idle link out of use, unless it has just got work.
func (t *transport) forget(l *link) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(l.queue) > 0 {
		return false
	}
	delete(t.links, l.to)
	return true
}

// flush waits until the packets written so far have arrived where they can, or
// for ctx.
func (t *transport) flush(ctx context.Context) {
	t.mu.Lock()
	links := t.links
	t.links = make(map[memberlist.Address]*link)
	t.mu.Unlock()
	for _, l := range links {
		close(l.last)
	}
	for _, l := range links {
		select {
		case <-l.done:
		case <-ctx.Done():
			return
		}
	}
}

// A frames is the caller's end of a stream.
type frames = grpc.BidiStreamingClient[wrapperspb.BytesValue, wrapperspb.BytesValue]

// open opens a stream to a node by one of the methods of [nodepb.GossipClient]. The
// stream lives as long as ctx.
func (t *transport) open(ctx context.Context, to memberlist.Address,
	method func(nodepb.GossipClient, context.Context, ...grpc.CallOption) (frames, error)) (frames, error) {
	cc, err := t.o.Dial(ctx, to.Addr, cluster.NodeName(to.Name))
	if err != nil {
		return nil, err
	}
	ctx = metadata.AppendToOutgoingContext(ctx, NameKey, string(t.o.Name))
	return method(nodepb.NewGossipClient(cc), ctx, grpc.CallContentSubtype(frameCodec))
}

// DialTimeout connects to whoever is at an address.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout connects to a node.
func (t *transport) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(t.ctx, streamTimeout)
	limit := time.AfterFunc(timeout, cancel)
	stream, err := t.open(ctx, to, nodepb.GossipClient.Stream)
	if !limit.Stop() && t.ctx.Err() == nil {
		err = fmt.Errorf("no connection within %v", timeout)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	c := newConn(addr(to.Addr))
	if !t.start(func() {
		defer cancel()
		defer context.AfterFunc(ctx, func() { c.end(ctx.Err()) })()
		received := make(chan struct{})
		t.running.Go(func() {
			defer close(received)
			c.receive(stream)
		})
		c.send(stream)
		if stream.CloseSend() == nil {
			defer time.AfterFunc(lingerTimeout, cancel).Stop()
			<-received
		}
	}) {
		cancel()
		return nil, errClosed
	}
	return c, nil
}

// receivePackets hands over the packets of one stream until it ends.
func (t *transport) receivePackets(s nodepb.Gossip_PacketsServer, from cluster.NodeName) error {
	for {
		b, err := receive(s)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		t.seen(from)
		select {
		case t.packetCh <- &memberlist.Packet{Buf: b, From: addr(from), Timestamp: time.Now()}:
		case <-t.ctx.Done():
			return errClosed
		}
	}
}
