package listen

import (
	"bufio"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// Each connection comes to its side whole, also while another says nothing; that one is
// closed in the end.
func TestSplit(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	plain, tls := Split(l, time.Minute)
	dial := func(text string) net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		return c
	}
	unreachable := dial("")
	for _, tc := range []struct {
		side net.Listener
		text string
	}{{plain, "GET /\n"}, {tls, "\x16\x03\x01\n"}, {plain, "\n"}} {
		dial(tc.text)
		c, err := tc.side.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := bufio.NewReader(c).ReadString('\n'); err != nil || got != tc.text {
			t.Errorf("%q came as %q: %v", tc.text, got, err)
		}
		_ = c.Close()
	}
	if err := tls.Close(); err != nil {
		t.Fatal(err)
	}
	for _, side := range []net.Listener{plain, tls} {
		if _, err := side.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a closed side: %v", err)
		}
	}
	_, _ = io.ReadAll(unreachable) // it ends, in whatever way
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the port is still open")
	}
}

// A connection that says nothing does not keep its place.
func TestSplitClosesWhatSaysNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	plain, _ := Split(l, time.Millisecond)
	defer func() { _ = plain.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("it is open: %d, %v", n, err)
	}
}
