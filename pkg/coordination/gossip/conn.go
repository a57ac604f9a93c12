package gossip

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
)

// An addr is an address as memberlist logs it.
type addr string

func (a addr) Network() string { return "grpc" }
func (a addr) String() string  { return string(a) }

// A conn is a stream as memberlist wants it. Its deadlines are those of
// [net.Pipe]; two goroutines, in send and receive, move the bytes between the
// far end of the pipe and the stream.
type conn struct {
	net.Conn
	far  net.Conn
	peer addr

	mu    sync.Mutex
	cause error
}

func newConn(peer addr) *conn {
	near, far := net.Pipe()
	return &conn{Conn: near, far: far, peer: peer}
}

// RemoteAddr returns who is at the other end.
func (c *conn) RemoteAddr() net.Addr { return c.peer }

// Read reads. After the stream broke, its error says why.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.why(err)
}

// Write writes. After the stream broke, its error says why.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.why(err)
}

func (c *conn) why(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return c.cause
	}
	return err
}

// end ends the conn from the stream's side.
func (c *conn) end(cause error) {
	c.mu.Lock()
	if c.cause == nil && !errors.Is(cause, io.EOF) {
		c.cause = cause
	}
	c.mu.Unlock()
	_ = c.far.Close()
}

// send sends what is written until the conn is closed or the stream breaks.
func (c *conn) send(s stream) {
	buf := make([]byte, 8<<10)
	for {
		n, err := c.far.Read(buf)
		if err != nil {
			return
		}
		if transmit(s, bytes.Clone(buf[:n])) != nil {
			return // receive reports why, and ends the conn
		}
	}
}

// receive hands over what comes until the stream ends or the conn is closed.
func (c *conn) receive(s stream) {
	for {
		b, err := receive(s)
		if err != nil {
			c.end(err)
			return
		}
		if _, err := c.far.Write(b); err != nil {
			return
		}
	}
}
