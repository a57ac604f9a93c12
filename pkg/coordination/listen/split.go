package listen

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// helloByte is the first byte of a connection with TLS. No request in plain HTTP
// begins with it.
const helloByte = 0x16

// Split divides the connections of l into those that begin with TLS and the others,
// by their first byte. One that sends nothing within wait is closed. Both listeners
// end when either is closed, and l with them.
func Split(l net.Listener, wait time.Duration) (plain, tls net.Listener) {
	s := &split{l: l, wait: wait, ended: make(chan struct{})}
	p := &side{s, make(chan net.Conn)}
	t := &side{s, make(chan net.Conn)}
	go s.run(p, t)
	return p, t
}

// A split is what the two listeners have in common.
type split struct {
	l    net.Listener
	wait time.Duration

	once  sync.Once
	ended chan struct{}
	// err is why no connection comes any more, set before ended is closed.
	err error
}

// A side is one of the two listeners.
type side struct {
	*split
	conns chan net.Conn
}

func (s *split) end(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.ended)
		_ = s.l.Close()
	})
}

func (s *split) run(plain, tls *side) {
	for {
		c, err := s.l.Accept()
		if temporary := (interface{ Temporary() bool })(nil); errors.As(err, &temporary) && temporary.Temporary() {
			select {
			case <-time.After(acceptPause):
			case <-s.ended:
			}
			continue
		}
		if err != nil {
			s.end(err)
			return
		}
		go s.sort(c, plain, tls)
	}
}

// acceptPause is the time between two tries to accept a connection where the machine
// has no file descriptor left.
const acceptPause = 100 * time.Millisecond

// sort reads the first byte of a connection and hands it to its side.
func (s *split) sort(c net.Conn, plain, tls *side) {
	begun := &begunConn{Conn: c}
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-s.ended:
			_ = c.Close()
		case <-stop:
		}
	}()
	_ = c.SetReadDeadline(time.Now().Add(s.wait))
	if _, err := io.ReadFull(c, begun.first[:]); err != nil {
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	to := plain
	if begun.first[0] == helloByte {
		to = tls
	}
	select {
	case to.conns <- begun:
	case <-s.ended:
		_ = c.Close()
	}
}

// Accept returns the next connection of this side.
func (s *side) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.ended:
		return nil, s.err
	}
}

// Close ends both sides.
func (s *side) Close() error {
	s.end(net.ErrClosed)
	return nil
}

// Addr returns the address of both.
func (s *side) Addr() net.Addr { return s.l.Addr() }

// A begunConn is a connection of which the first byte has been read.
type begunConn struct {
	net.Conn
	first [1]byte
	given bool
}

// Read returns the first byte, then what follows.
func (c *begunConn) Read(b []byte) (int, error) {
	if c.given || len(b) == 0 {
		return c.Conn.Read(b)
	}
	c.given = true
	return copy(b, c.first[:]), nil
}
