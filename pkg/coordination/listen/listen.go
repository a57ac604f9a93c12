// Package listen bounds the connections of a listener, in total and for each
// source address: a flood from one machine must leave room for the others.
package listen

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Limits bound the connections to a listener. The zero values mean no bound.
type Limits struct {
	// Fresh is how many connections that have not proven who they are may be open,
	// FreshPerSource how many of them from one address. A connection beyond the
	// first takes the place of the oldest of the address that has most of them, one
	// beyond the second that of the oldest of its own address.
	//
	// A network of 64 bits, of which one machine may have every address and many
	// machines one each, may have half of Fresh and half of Total.
	Fresh, FreshPerSource int
	// Total and PerSource count all connections. One beyond these is closed.
	Total, PerSource int
	// Reserved is how many of Total only this machine's own addresses may take.
	Reserved int
	// Dropped, if not nil, is called for each connection that is closed for a bound,
	// and of its address.
	Dropped func(source string)
}

// A Limited is a listener whose connections are bounded in number, in total and
// for each source address, so that one machine cannot keep the others out.
// Whatever gets through is bounded in time by who serves it.
type Limited struct {
	net.Listener
	l Limits

	mu sync.Mutex
	// sources are by address, networks by the first address of 64 bits of IPv6.
	sources, networks map[netip.Addr]*source
	fresh             int
	// total counts all, own those from this machine's addresses.
	total, own int
}

// A source is what one address, or one network, has open: all of it, and the fresh
// ones, oldest first.
type source struct {
	open  int
	fresh []*Conn
}

// New returns l with the limits.
func New(l net.Listener, limits Limits) *Limited {
	return &Limited{Listener: l, l: limits, sources: map[netip.Addr]*source{}, networks: map[netip.Addr]*source{}}
}

// Accept waits for a connection that is within the bounds.
func (l *Limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if conn, ok := l.take(c); ok {
			return conn, nil
		}
	}
}

// take counts c in, and closes what has to go for it, or c itself.
func (l *Limited) take(c net.Conn) (*Conn, bool) {
	conn := &Conn{Conn: c, of: l, since: time.Now()}
	conn.from, conn.network, conn.own = sourceOf(c)
	out, ok := l.admit(conn)
	if out != nil {
		l.drop(out)
	}
	if !ok {
		l.drop(c)
	}
	return conn, ok
}

// drop closes a connection without waiting for what was sent on it.
func (l *Limited) drop(c net.Conn) {
	if l.l.Dropped != nil {
		l.l.Dropped(c.RemoteAddr().String())
	}
	raw := c
	if limited, ok := c.(*Conn); ok {
		raw = limited.Conn
	}
	if tcp, ok := raw.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// sourceOf returns the address from which a connection comes, the network of 64
// bits that it belongs to, not valid for IPv4, and whether it is this machine's own.
func sourceOf(c net.Conn) (from, network netip.Addr, own bool) {
	from = addrOf(c.RemoteAddr())
	own = from.IsLoopback() || from.IsValid() && from == addrOf(c.LocalAddr())
	if p, err := from.Prefix(64); err == nil && from.Is6() {
		network = p.Addr()
	}
	return from, network, own
}

func addrOf(a net.Addr) netip.Addr {
	p, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr().Unmap().WithZone("")
}

// admit counts a connection in, or says that there is no place for it. out is a
// fresh one that has to go for it.
func (l *Limited) admit(c *Conn) (out *Conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, n := l.sources[c.from], l.networks[c.network]
	if s == nil {
		s = &source{}
	}
	if n == nil {
		n = &source{}
	}
	switch {
	case full(s.open, l.l.PerSource), c.network.IsValid() && full(n.open, half(l.l.Total)), full(l.total, l.l.Total),
		!c.own && l.l.Total > 0 && l.total-l.own >= l.l.Total-l.l.Reserved:
		return nil, false
	case full(len(s.fresh), l.l.FreshPerSource):
		out = s.fresh[0]
	case c.network.IsValid() && full(len(n.fresh), half(l.l.Fresh)):
		out = l.oldestOfMost(c.network)
	case full(l.fresh, l.l.Fresh):
		out = l.oldestOfMost(netip.Addr{})
	}
	if out != nil {
		l.proved(out)
		out.out = true
	}
	l.sources[c.from] = s
	s.add(c)
	if c.network.IsValid() {
		l.networks[c.network] = n
		n.add(c)
	}
	l.total++
	l.fresh++
	if c.own {
		l.own++
	}
	c.fresh = true
	return out, true
}

// full reports whether there are as many as the limit allows, 0 for no limit.
func full(n, limit int) bool { return limit > 0 && n >= limit }

// half is a network's share of a limit.
func half(limit int) int { return (limit + 1) / 2 }

func (s *source) add(c *Conn) {
	s.open++
	s.fresh = append(s.fresh, c)
}

func (s *source) proved(c *Conn) {
	if i := slices.Index(s.fresh, c); i >= 0 {
		s.fresh = slices.Delete(s.fresh, i, i+1)
	}
}

// oldestOfMost returns the oldest fresh connection of the address that has most, of
// those in a network if that is valid.
func (l *Limited) oldestOfMost(network netip.Addr) *Conn {
	var most *source
	for _, s := range l.sources {
		if len(s.fresh) == 0 || network.IsValid() && s.fresh[0].network != network {
			continue
		}
		if most == nil || len(s.fresh) > len(most.fresh) ||
			len(s.fresh) == len(most.fresh) && s.fresh[0].since.Before(most.fresh[0].since) {
			most = s
		}
	}
	if most == nil {
		return nil
	}
	return most.fresh[0]
}

// proved takes a connection out of the fresh ones. The mutex is held.
func (l *Limited) proved(c *Conn) {
	if !c.fresh {
		return
	}
	c.fresh = false
	l.fresh--
	l.sources[c.from].proved(c)
	if n := l.networks[c.network]; n != nil {
		n.proved(c)
	}
}

// gone frees the place of a connection. The mutex is held.
func (l *Limited) gone(c *Conn) {
	l.proved(c)
	l.total--
	if c.own {
		l.own--
	}
	leave(l.sources, c.from)
	if c.network.IsValid() {
		leave(l.networks, c.network)
	}
}

func leave(sources map[netip.Addr]*source, a netip.Addr) {
	if s := sources[a]; s.open > 1 {
		s.open--
	} else {
		delete(sources, a)
	}
}

// A Conn is one connection of a [Limited] listener. Who serves it calls Proved when the other
// end has shown who it is.
type Conn struct {
	net.Conn
	of *Limited
	// from is the address of the other end, network the 64 bits of one of IPv6, and
	// own says that it is this machine's.
	from, network netip.Addr
	own           bool
	since         time.Time

	// These belong to the listener's mutex. out says that it has to go.
	fresh, out, gone bool
}

// Proved counts the connection as one whose other end is known. It reports
// whether it may go on: its place may have been given to another.
func (c *Conn) Proved() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.proved(c)
	return !c.out
}

// Close ends the connection and frees its place.
func (c *Conn) Close() error {
	c.of.mu.Lock()
	if !c.gone {
		c.gone = true
		c.of.gone(c)
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}
