package etcdproc

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// takeUntilStopped takes a connection at each of the addresses, and returns on SIGTERM.
func takeUntilStopped(addresses string) (listeners []net.Listener, taken []net.Conn, err error) {
	stopping := make(chan os.Signal, 1)
	signal.Notify(stopping, syscall.SIGTERM)
	for address := range strings.SplitSeq(addresses, ",") {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, nil, err
		}
		fmt.Println("listens", address)
		c, err := l.Accept()
		if err != nil {
			return nil, nil, err
		}
		listeners, taken = append(listeners, l), append(taken, c)
	}
	fmt.Println("serves")
	<-stopping
	return listeners, taken, nil
}

// serve takes a connection at each of three addresses, two for clients and one for peers.
// On SIGTERM it closes the peers' listener, then the first one, and waits until its client
// has gone, as etcd does; serves the other client once and does the same with it; and
// serves the peer once. It complains if one of them has gone too early.
func serve(addresses string) error {
	listeners, taken, err := takeUntilStopped(addresses)
	if err != nil {
		return err
	}
	_ = listeners[len(listeners)-1].Close()
	for i, c := range taken {
		if i > 0 {
			if _, err := c.Read(make([]byte, 1)); err != nil {
				return fmt.Errorf("a request of client %d: %w", i, err)
			}
		}
		if i == len(taken)-1 {
			return nil
		}
		_ = listeners[i].Close()
		_, err := c.Read(make([]byte, 1))
		fmt.Println("a client has gone:", err)
	}
	return nil
}

// A process that ends when its clients have gone ends although they stay. None is cut off
// before its listener is closed, and no peer, and no connection of others at the same port.
func TestClientsKeepNoProcess(t *testing.T) {
	mayDestroy(t)
	for listens, client := range map[string]string{"127.0.0.1": "127.0.0.1", "::1": "::1", "::": "127.0.0.1"} {
		t.Run(listens, func(t *testing.T) {
			t.Parallel()
			mayListen(t, listens)
			first, second := testport.FreeOf(t, listens), testport.FreeOf(t, listens)
			addresses := []string{at(listens, first), at(listens, second), testport.Address(t)}
			s, out := supervise(t, Options{StopTimeout: testwait.Limit})
			cfg := does("serve:" + strings.Join(addresses, ","))
			cfg.ClientPorts = []uint16{uint16(second), uint16(first)}
			start(t, s, cfg)
			var others net.Conn
			if listens == "127.0.0.1" {
				_, others = connection(t, at("127.0.0.2", first))
			}
			var ends []net.Conn
			for i, to := range []string{at(client, first), at(client, second), addresses[2]} {
				testwait.Until(t, "it listens", func() bool { return out.has("listens " + addresses[i]) })
				ends = append(ends, connect(t, to))
			}
			testwait.Until(t, "it serves", func() bool { return out.has("serves") })
			stopped := make(chan error, 1)
			go func() { stopped <- s.Stop(t.Context()) }()
			awaitEnd(t, ends[0]) // the second is looked at first, and would have ended
			for i, c := range ends[1:] {
				if _, err := c.Write([]byte{0}); err != nil {
					t.Errorf("connection %d: %v", i+1, err)
				}
				awaitEnd(t, c)
			}
			if err := <-stopped; err != nil {
				t.Fatal(err)
			}
			if how := s.Status().LastExit; !strings.HasPrefix(how, "exit status 0") {
				t.Errorf("it ended with %q", how)
			}
			if slices.ContainsFunc(out.all(), func(line string) bool { return strings.HasPrefix(line, "complaint") }) ||
				!out.has("etcdadm: etcd waited for clients, whose connections were cut off: 2") {
				t.Errorf("it said %q", out.all())
			}
			if others != nil {
				if _, err := others.Write([]byte{0}); err != nil {
					t.Errorf("a connection of another process: %v", err)
				}
			}
		})
	}
}

// hold takes a connection at an address for clients and one at an address for peers. On
// SIGTERM it closes the clients' listener and waits until the client has gone, then it serves
// the peer once, and does the same with that.
func hold(addresses string) error {
	listeners, taken, err := takeUntilStopped(addresses)
	if err != nil {
		return err
	}
	for i, c := range taken {
		if i > 0 {
			if _, err := c.Read(make([]byte, 1)); err != nil {
				return fmt.Errorf("a request of the peer: %w", err)
			}
		}
		_ = listeners[i].Close()
		_, err := c.Read(make([]byte, 1))
		fmt.Println("one has gone:", err)
	}
	return nil
}

// A process that waits for its peers, too, ends although they stay. None is cut off before
// its listener is closed, and they do not count as clients.
func TestPeersKeepNoProcess(t *testing.T) {
	t.Parallel()
	mayDestroy(t)
	addresses := []string{testport.Address(t), testport.Address(t)}
	s, out := supervise(t, Options{StopTimeout: testwait.Limit})
	cfg := does("hold:" + strings.Join(addresses, ","))
	cfg.ClientPorts, cfg.PeerPorts = []uint16{portOf(t, addresses[0])}, []uint16{portOf(t, addresses[1])}
	start(t, s, cfg)
	var ends []net.Conn
	for _, a := range addresses {
		testwait.Until(t, "it listens", func() bool { return out.has("listens " + a) })
		ends = append(ends, connect(t, a))
	}
	testwait.Until(t, "it serves", func() bool { return out.has("serves") })
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(t.Context()) }()
	awaitEnd(t, ends[0])
	if _, err := ends[1].Write([]byte{0}); err != nil {
		t.Error(err)
	}
	awaitEnd(t, ends[1])
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if how := s.Status().LastExit; !strings.HasPrefix(how, "exit status 0") {
		t.Errorf("it ended with %q", how)
	}
	if slices.ContainsFunc(out.all(), func(line string) bool { return strings.HasPrefix(line, "complaint") }) ||
		!out.has("etcdadm: etcd waited for clients, whose connections were cut off: 1") {
		t.Errorf("it said %q", out.all())
	}
}

func portOf(t *testing.T, address string) uint16 {
	t.Helper()
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return a.Port()
}

// A client has clientsTimeout from when its listener was closed, a peer until the next time
// that nobody listens. A listener that was not seen once begins that again.
func TestHowLongOthersStay(t *testing.T) {
	t.Parallel()
	mayDestroy(t)
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	client, atClients := connection(t, at("127.0.0.1", 0))
	peer, atPeers := connection(t, at("127.0.0.1", 0))
	c := cutter{
		process: self, closed: map[netip.AddrPort]time.Time{},
		clients: []uint16{addrPort(atClients.LocalAddr()).Port()}, peers: []uint16{addrPort(atPeers.LocalAddr()).Port()},
	}
	now := time.Now()
	round := func(after time.Duration, cut int) {
		t.Helper()
		now = now.Add(after)
		if _, err := c.round(now); err != nil {
			t.Fatal(err)
		}
		if c.cut != cut {
			t.Errorf("%d clients are cut off, want %d", c.cut, cut)
		}
	}
	round(0, 0)
	again, err := net.Listen("tcp", atClients.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	both, err := net.Listen("tcp", atPeers.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	round(time.Hour, 0)
	_, _ = again.Close(), both.Close()
	round(time.Hour, 0)
	for _, end := range []net.Conn{client, peer} {
		if _, err := end.Write([]byte{1}); err != nil {
			t.Errorf("it was cut off early: %v", err)
		}
	}
	for _, end := range []net.Conn{atClients, atPeers} {
		if _, err := io.ReadFull(end, make([]byte, 1)); err != nil {
			t.Errorf("it was cut off early: %v", err)
		}
	}
	round(clientsTimeout-1, 0)
	awaitEnd(t, peer)
	round(1, 1)
	awaitEnd(t, client)
}

func TestClientsStayWhereTheRightToCutThemOffIsMissing(t *testing.T) {
	t.Parallel()
	mayDestroy(t)
	client, server := connection(t, at("127.0.0.1", 0))
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread has lost a right, and ends with the goroutine
		if err := dropNetAdmin(); err != nil {
			said <- err.Error()
			return
		}
		said <- cutOff(t.Context(), self, []uint16{addrPort(server.LocalAddr()).Port()}, nil)
	}()
	want := fmt.Sprintf("etcdadm: clients that etcd waits for are not cut off: end the connection from %s: %v",
		client.LocalAddr(), unix.EPERM)
	if got := <-said; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if _, err := client.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(server, make([]byte, 1)); err != nil {
		t.Errorf("the connection ended: %v", err)
	}
}

// dropNetAdmin takes CAP_NET_ADMIN from the thread.
func dropNetAdmin() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return err
	}
	sets[0].Effective &^= 1 << unix.CAP_NET_ADMIN
	return unix.Capset(&header, &sets[0])
}

// mayDestroy skips the test where connections cannot be ended: without the right to, or
// with a kernel that does not know how to.
func mayDestroy(t *testing.T) {
	t.Helper()
	client, server := connection(t, at("127.0.0.1", 0))
	list, err := tcpSockets(unix.AF_INET, addrPort(client.LocalAddr()).Port())
	for _, s := range list {
		if s.remote() == addrPort(server.LocalAddr()) && s.state == unix.BPF_TCP_ESTABLISHED {
			err = s.destroy()
		}
	}
	for _, reason := range []error{
		unix.EPERM, unix.EACCES, unix.EOPNOTSUPP, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT, unix.ENOENT,
	} {
		if errors.Is(err, reason) {
			t.Skipf("connections cannot be ended here: %v", err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, client)
}

// mayListen skips the test where this machine does not have the address.
func mayListen(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", at(address, 0))
	if err != nil {
		t.Skipf("this machine has not the address %s: %v", address, err)
	}
	_ = l.Close()
}

func at(address string, port int) string { return net.JoinHostPort(address, fmt.Sprint(port)) }

func addrPort(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }

// connect opens a connection that stays until the test ends, or the other end does.
func connect(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// connection opens a connection of this process with itself, whose listener is closed.
func connection(t *testing.T, address string) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client = connect(t, l.Addr().String())
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return client, server
}

// awaitEnd waits until the other end of a connection has closed it, or another process has.
func awaitEnd(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(testwait.Limit)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the connection does not end: %v", err)
	}
}
