// Package listen bounds the connections of a listener, in total and for each
// source address: a flood from one machine must leave room for the others.
package listen

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// Limits bound the connections to a listener. The zero values mean no bound.
type Limits struct {
	// Fresh is how many connections that have not proven who they are may be open,
	// FreshPerSource how many of them from one address. A connection beyond the
	// first takes the place of the oldest of the address that has most of them.
	Fresh, FreshPerSource int
	// Total and PerSource count all connections. One beyond these is closed.
	Total, PerSource int
	// Dropped, if not nil, is told of each connection that is closed for a bound,
	// and of its address.
	Dropped func(source string)
}

// A Limited is a listener whose connections are bounded in number, in total and
// for each source address, so that one machine cannot keep the others out.
// Whatever gets through is bounded in time by who serves it.
type Limited struct {
	net.Listener
	l Limits

	mu      sync.Mutex
	sources map[netip.Addr]*source
	fresh   int
	total   int
}

// A source is what one address has open: all of it, and the fresh ones, oldest
// first.
type source struct {
	open  int
	fresh []*Conn
}

// New returns l with the limits.
func New(l net.Listener, limits Limits) *Limited {
	return &Limited{Listener: l, l: limits, sources: map[netip.Addr]*source{}}
}

// Accept waits for a connection that is within the bounds.
func (l *Limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := &Conn{Conn: c, of: l, from: sourceOf(c), since: time.Now()}
		out, ok := l.admit(conn)
		if out != nil {
			l.drop(out)
		}
		if ok {
			return conn, nil
		}
		l.drop(c)
	}
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

func sourceOf(c net.Conn) netip.Addr {
	a, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	addr := a.Addr().Unmap().WithZone("")
	if addr.Is6() {
		// Whoever has one address of a network of 64 bits has all of them.
		if p, err := addr.Prefix(64); err == nil {
			addr = p.Addr()
		}
	}
	return addr
}

// admit counts a connection in, or says that there is no place for it. out is a
// fresh one that has to go for it.
func (l *Limited) admit(c *Conn) (out *Conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sources[c.from]
	if s == nil {
		s = &source{}
	}
	switch {
	case l.l.PerSource > 0 && s.open >= l.l.PerSource,
		l.l.Total > 0 && l.total >= l.l.Total,
		l.l.FreshPerSource > 0 && len(s.fresh) >= l.l.FreshPerSource:
		return nil, false
	case l.l.Fresh > 0 && l.fresh >= l.l.Fresh:
		if out = l.crowded(); out == nil {
			return nil, false
		}
		l.proved(out)
		out.out = true
	}
	l.sources[c.from] = s
	s.open++
	l.total++
	l.fresh++
	c.fresh = true
	s.fresh = append(s.fresh, c)
	return out, true
}

// crowded returns the oldest fresh connection of the address that has most.
func (l *Limited) crowded() *Conn {
	var most *source
	for _, s := range l.sources {
		if len(s.fresh) > 0 && (most == nil || len(s.fresh) > len(most.fresh) ||
			len(s.fresh) == len(most.fresh) && s.fresh[0].since.Before(most.fresh[0].since)) {
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
	s := l.sources[c.from]
	for i, x := range s.fresh {
		if x == c {
			s.fresh = append(s.fresh[:i], s.fresh[i+1:]...)
			break
		}
	}
}

// A Conn is one connection of a [Limited] listener. Who serves it calls Proved when the other
// end has shown who it is.
type Conn struct {
	net.Conn
	of    *Limited
	from  netip.Addr
	since time.Time

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
		c.of.proved(c)
		c.of.total--
		if s := c.of.sources[c.from]; s.open > 1 {
			s.open--
		} else {
			delete(c.of.sources, c.from)
		}
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}
