package gossip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func member(name string, ip net.IP, port uint16) *memberlist.Node {
	return &memberlist.Node{
		Name: name, Addr: ip, Port: port, PMin: 1, PMax: memberlist.ProtocolVersionMax, PCur: memberlist.ProtocolVersionMax,
	}
}

// A proxy stands before a node and can freeze, so that the node hangs without
// its connections breaking.
type proxy struct {
	net.Listener
	mu     sync.Mutex
	thawed *sync.Cond
	frozen bool
	target string
	all    []net.Conn
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, frozen: true}
	p.thawed = sync.NewCond(&p.mu)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.freeze(false)
		p.mu.Lock()
		for _, c := range p.all {
			_ = c.Close()
		}
		p.mu.Unlock()
		running.Wait()
	})
	return p
}

// forward thaws the proxy, which is frozen at first.
func (p *proxy) forward(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.freeze(false)
}

func (p *proxy) freeze(frozen bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = frozen
	p.thawed.Broadcast()
}

func (p *proxy) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.frozen {
		p.thawed.Wait()
	}
}

func (p *proxy) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	p.wait()
	p.mu.Lock()
	up, err := net.Dial("tcp", p.target)
	if err == nil {
		p.all = append(p.all, c, up)
	}
	p.mu.Unlock()
	if err != nil {
		return
	}
	defer func() { _ = up.Close() }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.copy(up, c)
	}()
	p.copy(c, up)
	<-done
}

func (p *proxy) copy(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		p.wait()
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

func TestAHungNodeHoldsUpNobody(t *testing.T) {
	t.Parallel()
	front := newProxy(t)
	nodes := peerGroup(t, "a", "b")
	c := start(t, "c", setup{advertise: front.Addr().String()})
	front.forward(c.listening)
	join(t, c, nodes[0].address)
	await(t, "a b c", nodes[0], nodes[1], c)

	front.freeze(true)
	await(t, "a b -c", nodes...)
	// The others go on: a third node joins through a, which still has packets
	// for c that nobody takes, and will not before this is done.
	d := start(t, "d", setup{})
	join(t, d, nodes[0].address)
	await(t, "a b -c d", nodes...)
	// One that asks the hung node as well gets its answer from the other. An
	// exchange that is still under way is waited for by who asks again.
	eventually(t, func() string {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if n, err := d.Join(ctx, []string{front.Addr().String(), nodes[1].address}); n != 1 || err == nil {
			return fmt.Sprintf("join: %d, %v", n, err)
		}
		return ""
	})

	front.freeze(false)
	eventually(t, func() string {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = nodes[0].Join(ctx, []string{front.Addr().String()})
		if got := nodes[1].sees(); got != "a b c d" {
			return "b sees " + got
		}
		return ""
	})
}

func TestWritingNeverWaits(t *testing.T) {
	t.Parallel()
	front := newProxy(t)
	a := start(t, "a", setup{})
	testwait.InTime(t, "writing", 10*time.Second, func() {
		for range 10 * linkQueue {
			if _, err := a.transport.WriteTo(make([]byte, 1400), front.Addr().String()); err != nil {
				t.Fatal(err)
			}
		}
	})
	// The number of links is bounded, too.
	for port := range 2 * maxLinks {
		_, _ = a.transport.WriteToAddress(nil, memberlist.Address{Addr: "127.0.0.1:1", Name: string(rune('A' + port))})
	}
	a.transport.mu.Lock()
	defer a.transport.mu.Unlock()
	if n := len(a.transport.links); n > maxLinks {
		t.Errorf("%d links", n)
	}
}

func TestFlushedPacketsHaveArrived(t *testing.T) {
	t.Parallel()
	a, b := start(t, "a", setup{}), start(t, "b", setup{})
	const n = linkQueue / 2
	for range n {
		// memberlist complains of a message that it does not know.
		if _, err := a.transport.WriteTo([]byte{99}, b.address); err != nil {
			t.Fatal(err)
		}
	}
	a.transport.flush(t.Context())
	b.mu.Lock()
	defer b.mu.Unlock()
	// The last one may be in memberlist's hands.
	if got := strings.Count(strings.Join(b.logs, "\n"), "msg type (99) not supported"); got < n-1 {
		t.Errorf("%d of %d packets have arrived", got, n)
	}
}

func TestConnIsAConnection(t *testing.T) {
	t.Parallel()
	nodes := peerGroup(t, "a", "b")
	// memberlist closes a connection whose first byte it does not know, after
	// it has said so.
	c, err := nodes[0].transport.DialTimeout(nodes[1].address, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.RemoteAddr().String(); got != nodes[1].address {
		t.Errorf("the other end is %s", got)
	}
	if _, err := c.Write([]byte{99}); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); err != nil {
		t.Errorf("read %q, %v", b, err)
	}
	_ = c.Close()
	eventually(t, func() string {
		if !nodes[1].said("Received invalid msgType (99)") {
			return "b has not got the byte"
		}
		return ""
	})

	// Deadlines end a wait for an answer that does not come.
	if c, err = nodes[0].transport.DialTimeout(nodes[1].address, time.Minute); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err = c.Read(make([]byte, 1))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
}

func TestDialGivesUp(t *testing.T) {
	t.Parallel()
	front := newProxy(t)
	a := start(t, "a", setup{})
	testwait.InTime(t, "dialling", 20*time.Second, func() {
		_, err := a.transport.DialTimeout(front.Addr().String(), 100*time.Millisecond)
		if err == nil || !strings.Contains(err.Error(), "no connection within 100ms") {
			t.Errorf("%v", err)
		}
	})
}

func TestOneAttemptAtATime(t *testing.T) {
	t.Parallel()
	front := newProxy(t)
	a := start(t, "a", setup{})
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if n, err := a.Join(ctx, []string{front.Addr().String()}); n != 0 || err == nil {
			t.Errorf("%d, %v", n, err)
		}
		cancel()
	}
	first := a.attempt(front.Addr().String())
	if second := a.attempt(front.Addr().String()); second != first {
		t.Error("two attempts at the same node at the same time")
	}
}

func TestConflictsAreForgotten(t *testing.T) {
	t.Parallel()
	reported := 0
	tab := newTable("a", func(Conflict) { reported++ })
	tab.rejoin = func(cluster.NodeName, string) {}
	tab.alive(member("b", net.IPv4(10, 0, 0, 1).To4(), 1))
	c := Conflict{Name: "b", Existing: "10.0.0.1:1", Other: "10.0.0.2:1"}
	tab.conflict(c)
	tab.conflict(c)
	if reported != 1 {
		t.Errorf("reported %d times", reported)
	}
	if p := tab.list()[0]; p.Conflict != c.Other {
		t.Errorf("%+v", p)
	}
	tab.peers["b"].conflictAt = time.Now().Add(-2 * conflictTTL)
	if p := tab.list()[0]; p.Conflict != "" {
		t.Errorf("%+v", p)
	}
	tab.conflict(c)
	if reported != 2 {
		t.Error("a conflict that is back is not reported")
	}
}
