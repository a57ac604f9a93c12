//go:build e2e

package machine

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// Machines that join at the same time take turns, and all get there.
func TestJoinsAtOnce(t *testing.T) {
	t.Parallel()
	for _, count := range []int{3, 5} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			t.Parallel()
			hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, count)
			a := hosts[0]
			a.ok("init")
			a.put("before", "anything")
			var joins []*running
			for _, h := range hosts[1:] {
				h.copyCA(a)
				joins = append(joins, h.beginsInTurn("join", a.clientURL()))
			}
			var names []string
			for _, h := range hosts {
				names = append(names, h.name)
			}
			for _, j := range joins {
				j.succeeds()
			}
			for _, h := range hosts {
				h.wantVoters(names...)
				wantKeys(map[string]string{"before": "anything"}, h)
			}
		})
	}
}

// Two commands on one machine: the second one says who is at work, whatever it
// is, and leaves the first alone. The first is interrupted, and undone.
func TestTwoCommandsAtOnce(t *testing.T) {
	t.Parallel()
	a, b := strange(t)
	good := b.binaries
	b.binaries = stub(t, v36, "exec sleep 1000")
	first := b.begin("join", a.clientURL())
	first.says("wait until etcd serves")
	pid := fmt.Sprint(first.cmd.Process.Pid)
	for _, args := range [][]string{
		{"join", a.clientURL()}, {"init"}, {"reset"}, {"join", "phase", "start", a.clientURL()},
	} {
		if r := b.run(args...); r.code == 0 || !strings.Contains(r.stderr, "another etcdadm runs on this machine") ||
			!strings.Contains(r.stderr, pid) || !strings.Contains(r.stderr, "hint: ") {
			t.Errorf("beside process %s: %s", pid, r)
		}
	}
	first.interrupted()
	b.ok("reset", "--endpoints", a.clientURL())
	a.alone()
	b.nothing()
	b.binaries = good
	b.wipe(b.path("bin"))
	b.ok("join", a.clientURL())
	b.wantVoters("a", "b")
}

// A join that waits is interrupted. Run again it goes on.
func TestInterruptedJoin(t *testing.T) {
	t.Parallel()
	a, b := strange(t)
	client := a.client(a)
	other := addLearner(t, client, "https://127.0.0.1:1")
	join := b.begin("join", a.clientURL())
	join.says("another member is joining")
	join.interrupted()
	b.nothing()
	if n := len(a.members()); n != 2 {
		t.Errorf("there are %d members", n)
	}
	// Without retry it is said at once.
	b.fails(3, []string{"learner-pending", "etcdadm remove"}, "join", "--retry=false", a.clientURL())
	join = b.begin("join", a.clientURL())
	join.says("another member is joining")
	removeID(t, client, other)
	if err := join.cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, join.said())
	}
	b.wantVoters("a", "b")
	wantKeys(map[string]string{"before": "anything"}, b)
}

// Interrupted while the learner is not ready: the same command goes on.
func TestInterruptedAtHealth(t *testing.T) {
	t.Parallel()
	a, b := strange(t)
	good := b.binaries
	b.binaries = stub(t, v36, "exec sleep 1000")
	join := b.begin("join", a.clientURL())
	join.says("wait until etcd serves")
	join.interrupted()
	if n := len(a.members()); n != 2 {
		t.Errorf("an interrupted join is to be continued, and there are %d members", n)
	}
	// The binary is made a good one, the stuck one ends.
	b.kill()
	b.binaries = good
	b.wipe(b.path("bin"))
	b.ok("join", a.clientURL())
	b.wantWhole("a", "b")
	wantKeys(map[string]string{"before": "anything"}, b)
}

// A gate is a proxy before a member's client port that does something at a
// certain connection.
type gate struct {
	inner string
	mu    sync.Mutex
	count int
	nth   int
	do    func()
}

// newGate makes a gate at the host's client URL, as soon as its etcd serves at
// the other port that it is given.
func newGate(t *testing.T, h *host) *gate {
	t.Helper()
	g := &gate{inner: testport.Address(t)}
	h.vars["ETCDADM_LISTEN_CLIENT_URLS"] = "https://" + g.inner
	var conns sync.WaitGroup
	t.Cleanup(conns.Wait)
	conns.Go(func() {
		if err := poll(commandTime, func() error {
			c, err := net.Dial("tcp", g.inner)
			if err == nil {
				c.Close()
			}
			return err
		}); err != nil {
			return
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", h.clientPort))
		if err != nil {
			return
		}
		conns.Go(func() { <-t.Context().Done(); l.Close() })
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			g.passes()
			conns.Go(func() { relay(c, g.inner) })
		}
	})
	return g
}

func (g *gate) passes() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count++; g.count == g.nth {
		g.do()
	}
}

// at has f done with the nth connection from now on.
func (g *gate) at(nth int, f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nth, g.do = g.count+nth, f
}

func relay(c net.Conn, to string) {
	defer c.Close()
	up, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer up.Close()
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(up, c)
		_ = up.(*net.TCPConn).CloseWrite()
		close(done)
	}()
	_, _ = io.Copy(c, up)
	c.Close()
	<-done
}

// Somebody else changes the member list while a machine joins: at the time of
// one of its connections, so that it is also between its observation and its change.
func TestMemberListChangesMeanwhile(t *testing.T) {
	t.Parallel()
	for nth := 1; nth <= 7; nth++ {
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			t.Parallel()
			hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 2)
			a, b := hosts[0], hosts[1]
			g := newGate(t, a)
			a.ok("init")
			a.put("before", "anything")
			b.copyCA(a)
			direct := a.client(a)
			direct.SetEndpoints("https://" + g.inner)
			var begun atomic.Bool
			done := make(chan uint64, 1)
			g.at(nth, func() {
				begun.Store(true)
				var id uint64
				ctx, cancel := context.WithTimeout(t.Context(), askTime) // etcd drops one of two changes, and does not answer
				defer cancel()
				if r, err := direct.MemberAddAsLearner(ctx, []string{"https://127.0.0.1:1"}); err == nil {
					id = r.Member.ID
				}
				done <- id // 0 where b is the learner already
			})
			r := b.run("join", "--membership-timeout=60s", a.clientURL())
			if !begun.Load() {
				t.Skipf("the join makes fewer than %d connections", nth)
			}
			if other := <-done; other != 0 {
				removeID(t, direct, other)
			}
			if r.code != 0 {
				if r.code != 3 && r.code != 4 {
					t.Errorf("another member is being added meanwhile: %s", r)
				}
				b.ok("join", a.clientURL())
			}
			b.wantWhole("a", "b")
			wantKeys(map[string]string{"before": "anything"}, b)
		})
	}
}

// Somebody else removes the member while it joins. It does not come back by
// itself as what it was.
func TestRemovedWhileItJoins(t *testing.T) {
	t.Parallel()
	a, b := strange(t)
	b.program = crashing(t)
	s := scene{h: b, args: []string{"join", a.clientURL()}}
	if !s.crash("join.etcdctl.after") {
		t.Fatal("b has joined")
	}
	for _, m := range a.members() {
		if m.IsLearner {
			a.ok("remove", "--force", fmt.Sprintf("%x", m.ID))
		}
	}
	r := b.run("join", "--membership-timeout=90s", a.clientURL())
	if r.code != 0 && r.code != 3 {
		t.Errorf("a member that was removed meanwhile: %s", r)
	}
	if r.code != 0 {
		b.ok("join", "--set-aside-data", a.clientURL())
	}
	b.wantWhole("a", "b")
	wantKeys(map[string]string{"before": "anything"}, b)
}

// Resets of all machines, each run once, at the same time. Each hands the leadership to
// one that is leaving, too, and may get it back; the last one is the cluster.
func TestAllResetAtOnce(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	found(hosts...)
	var all sync.WaitGroup
	for _, h := range hosts {
		all.Go(func() {
			if r := h.run("reset"); r.code != 0 {
				t.Errorf("%s: %s", h.name, r)
			}
		})
	}
	all.Wait()
	for _, h := range hosts {
		h.nothing()
	}
}

// Resets at the same time: the last one stays, it is the cluster.
func TestResetsAtOnce(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	found(hosts...)
	a := hosts[0]
	a.put("before", "anything")
	results := make([]result, 3)
	var all sync.WaitGroup
	for i, h := range hosts[1:] {
		all.Go(func() { results[i] = h.run("reset", "--endpoints", a.clientURL()) })
	}
	all.Wait()
	for i, h := range hosts[1:] {
		switch r := results[i]; r.code {
		case 0:
		case 4, 5: // the other one was faster
			h.ok("reset", "--endpoints", a.clientURL())
		default:
			t.Errorf("%s", r)
		}
		h.nothing()
	}
	a.alone()
}
