package listen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// serve accepts on a new listener at all addresses of 127.0.0.0/8, and holds the
// connections. Those that say "hello" have proven who they are.
func serve(t *testing.T, limits Limits) (address string, dropped *atomic.Int64) {
	t.Helper()
	raw, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dropped = new(atomic.Int64)
	limits.Dropped = func(string) { dropped.Add(1) }
	l := New(raw, limits)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 5)
				if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" || !c.(*Conn).Proved() {
					return
				}
				if _, err := c.Write([]byte("welcome")); err == nil {
					_, _ = io.Copy(io.Discard, c)
				}
			}()
		}
	}()
	t.Cleanup(func() {
		_ = raw.Close()
		<-ended
	})
	return raw.Addr().String(), dropped
}

// from connects from a source address.
func from(t *testing.T, source, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}, Timeout: 10 * time.Second}
	c, err := d.DialContext(t.Context(), "tcp4", to)
	if err != nil {
		t.Fatalf("from %s: %v", source, err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// greet proves who is there, and returns how that ended.
func greet(c net.Conn) error {
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := c.Write([]byte("hello")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, len("welcome")))
	return err
}

// closed waits for the other end to close.
func closed(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the connection is open: %v", err)
	}
}

func TestAFloodFromOneAddressLeavesRoomForOthers(t *testing.T) {
	address, dropped := serve(t, Limits{Fresh: 64, FreshPerSource: 4, Total: 128, PerSource: 32})
	known := from(t, "127.0.0.3", address)
	if err := greet(known); err != nil {
		t.Fatal(err)
	}
	for range 300 {
		// One that is closed at once may be so before the dialer has looked.
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}, Timeout: 10 * time.Second}
		if c, err := d.DialContext(t.Context(), "tcp4", address); err == nil {
			t.Cleanup(func() { _ = c.Close() })
		}
	}
	for range 20 {
		if err := greet(from(t, "127.0.0.3", address)); err != nil {
			t.Fatalf("another address is kept out: %v", err)
		}
	}
	if n := dropped.Load(); n != 296 {
		t.Errorf("%d connections were dropped", n)
	}
	_ = known.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := known.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("who was there before is thrown out: %v", err)
	}
}

func TestWhoHasProvenDoesNotCountAsFresh(t *testing.T) {
	address, dropped := serve(t, Limits{Fresh: 4, FreshPerSource: 2, Total: 128, PerSource: 10})
	for i := range 10 {
		if err := greet(from(t, "127.0.0.2", address)); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}, Timeout: 10 * time.Second}
	if c, err := d.DialContext(t.Context(), "tcp4", address); err == nil {
		if greet(c) == nil {
			t.Error("one address has more connections than it may")
		}
		_ = c.Close()
	}
	if err := greet(from(t, "127.0.0.3", address)); err != nil || dropped.Load() != 1 {
		t.Errorf("another address: %v, %d dropped", err, dropped.Load())
	}
}

// From many addresses, all places can be taken. Then the newest comes in, and the
// oldest of those who have most goes.
func TestAFloodFromManyAddressesLeavesRoom(t *testing.T) {
	address, dropped := serve(t, Limits{Fresh: 8, FreshPerSource: 4})
	var first net.Conn
	for _, source := range []string{"127.0.0.2", "127.0.0.3"} {
		for range 4 {
			if c := from(t, source, address); first == nil {
				first = c
			}
		}
	}
	if err := greet(from(t, "127.0.0.4", address)); err != nil {
		t.Fatalf("nobody comes in any more: %v", err)
	}
	closed(t, first)
	if dropped.Load() != 1 {
		t.Errorf("%d were dropped", dropped.Load())
	}
}

func TestAPlaceIsFreedWhenAConnectionEnds(t *testing.T) {
	address, _ := serve(t, Limits{Total: 2, PerSource: 2})
	for range 20 {
		c := from(t, "127.0.0.2", address)
		if err := greet(c); err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).CloseWrite()
		closed(t, c)
	}
}

func TestSourcesOfAConnection(t *testing.T) {
	for _, tc := range []struct {
		text, from, network string
		own                 bool
	}{
		{"10.0.0.1:5", "10.0.0.1", "invalid IP", false},
		{"10.0.0.9:5", "10.0.0.9", "invalid IP", true},
		{"127.0.0.3:5", "127.0.0.3", "invalid IP", true},
		{"[::1]:5", "::1", "::", true},
		{"[::ffff:10.0.0.1]:5", "10.0.0.1", "invalid IP", false},
		{"[2001:db8:0:1:2:3:4:5]:6", "2001:db8:0:1:2:3:4:5", "2001:db8:0:1::", false},
		{"[fe80::1%lo]:6", "fe80::1", "fe80::", false},
		{"pipe", "invalid IP", "invalid IP", false},
	} {
		from, network, own := sourceOf(&named{addr: addr(tc.text)})
		if from.String() != tc.from || network.String() != tc.network || own != tc.own {
			t.Errorf("%s is from %s in %s, own %t", tc.text, from, network, own)
		}
	}
}

// connect has a listener take a connection from an address.
func connect(l *Limited, from string) (*Conn, bool) { return l.take(&named{addr: addr(from)}) }

// One machine may have all addresses of a network of 64 bits, or share it with the
// others.
func TestAMachineDoesNotShutOutTheOthersOfItsNetwork(t *testing.T) {
	l := New(nil, Limits{Fresh: 256, FreshPerSource: 16, Total: 1024, PerSource: 128})
	for i := range 400 {
		if _, ok := connect(l, fmt.Sprintf("[2001:db8::bad]:%d", i+1)); !ok {
			t.Fatalf("connection %d is refused", i)
		}
	}
	peer, ok := connect(l, "[2001:db8::1]:1")
	if !ok || !peer.Proved() {
		t.Fatal("another address of the network is shut out")
	}
	// With as many addresses as it likes, it has half of the places.
	for i := range 4000 {
		connect(l, fmt.Sprintf("[2001:db8::bad:%x]:1", i))
	}
	if n := l.fresh; n != 128 {
		t.Errorf("one network has %d fresh connections", n)
	}
	if peer, ok = connect(l, "[2001:db8::2]:1"); !ok || !peer.Proved() {
		t.Error("another address of the network is shut out")
	}
	if peer.Conn.(*named).closed || !l.alone(t) {
		t.Error("a peer has been dropped")
	}
}

// alone closes every connection, and reports whether nothing is counted any more.
func (l *Limited) alone(t *testing.T) bool {
	t.Helper()
	for _, s := range l.sources {
		for _, c := range slices.Clone(s.fresh) {
			_ = c.Close()
		}
	}
	return l.fresh == 0 && l.total == 2 && len(l.sources) == 2 && len(l.networks) == 1
}

func TestTheOldestOfAnAddressGoes(t *testing.T) {
	l := New(nil, Limits{Fresh: 256, FreshPerSource: 2})
	var all []*Conn
	for i := range 3 {
		c, ok := connect(l, fmt.Sprintf("10.0.0.1:%d", i+1))
		if !ok {
			t.Fatalf("connection %d is refused", i)
		}
		all = append(all, c)
	}
	for i, gone := range []bool{true, false, false} {
		if all[i].Conn.(*named).closed != gone || all[i].Proved() == gone {
			t.Errorf("connection %d is closed: %t", i, !gone)
		}
	}
}

// Those that probe from the machine itself find a place, however many others
// there are.
func TestPlacesOfTheMachineItself(t *testing.T) {
	l := New(nil, Limits{Total: 128, PerSource: 32, Reserved: 16})
	for a := range 8 {
		for p := range 32 {
			connect(l, fmt.Sprintf("10.0.1.%d:%d", a, p+1))
		}
	}
	for i := range 16 {
		from := fmt.Sprintf("10.0.0.9:%d", i+1)
		if i%2 == 0 {
			from = fmt.Sprintf("127.0.0.1:%d", i+1)
		}
		if _, ok := connect(l, from); !ok {
			t.Errorf("%s is refused", from)
		}
	}
	if _, ok := connect(l, "127.0.0.1:99"); ok || l.total != 128 {
		t.Errorf("%d connections are taken", l.total)
	}
}

// A named connection is to 10.0.0.9.
type named struct {
	net.Conn
	addr   addr
	closed bool
}

func (n *named) RemoteAddr() net.Addr { return n.addr }
func (n *named) LocalAddr() net.Addr  { return addr("10.0.0.9:1") }
func (n *named) Close() error         { n.closed = true; return nil }

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

func TestTheEndOfTheListenerIsReportedOn(t *testing.T) {
	raw, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Close()
	if _, err := New(raw, Limits{}).Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("it says %v", err)
	}
}
