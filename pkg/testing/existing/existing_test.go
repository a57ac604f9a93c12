package existing

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// daemons is a group of stand-ins, and what the leaders among them did.
type daemons struct {
	t   *testing.T
	at  map[string]string
	all map[string]*Daemon

	mu  sync.Mutex
	did []Leader
}

func group(t *testing.T, names ...string) *daemons {
	g := &daemons{t: t, at: map[string]string{}, all: map[string]*Daemon{}}
	for _, name := range names {
		g.at[name] = testport.Address(t)
	}
	return g
}

func (g *daemons) start(names ...string) {
	g.t.Helper()
	for _, name := range names {
		d, err := Start(g.t.Context(), g.options(name))
		if err != nil {
			g.t.Fatal(err)
		}
		g.all[name] = d
		g.t.Cleanup(d.Stop)
	}
}

func (g *daemons) options(name string) Options {
	return Options{
		Name: name, Cluster: "etcd", Address: g.at[name], Discovery: func() map[string]string {
			g.mu.Lock()
			defer g.mu.Unlock()
			return maps.Clone(g.at)
		},
		PingEvery: 10 * time.Millisecond, Healthy: time.Second, Round: 20 * time.Millisecond,
		Act: func(_ context.Context, l Leader) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.did = append(g.did, l)
		},
	}
}

// acts waits until a leader acts from now on for just these, and returns its token.
func (g *daemons) acts(names ...string) (token string) {
	g.t.Helper()
	g.mu.Lock()
	before := len(g.did)
	g.mu.Unlock()
	testwait.Until(g.t, "a leader that acts", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, l := range g.did[before:] {
			if slices.Equal(l.Acknowledged, names) && l.d.o.Name == names[0] {
				token = l.Token
			}
		}
		return token != ""
	})
	return token
}

// instead serves at the address of a daemon, with pings answered and all else by this.
func (g *daemons) instead(name string, notified func() ([]byte, error)) {
	g.t.Helper()
	l, err := net.Listen("tcp", g.at[name])
	if err != nil {
		g.t.Fatal(err)
	}
	s := grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(func(_ any, ss grpc.ServerStream) error {
		var in []byte
		if err := ss.RecvMsg(&in); err != nil {
			return err
		}
		out, err := notified()
		if method, _ := grpc.MethodFromServerStream(ss); method == ping && err == nil {
			out = message(nil, 1, peerInfo(name, g.at[name]))
		}
		if err != nil {
			return err
		}
		return ss.SendMsg(&out)
	}))
	go func() { _ = s.Serve(l) }()
	g.t.Cleanup(s.Stop)
}

// The lowest of the healthy leads, for all of them. It stops to act when a lower one is
// there, and goes on when that is gone; with the same token as long as nobody is healthy
// who has not accepted it.
func TestTheLowestLeads(t *testing.T) {
	g := group(t, "a", "b", "c")
	g.start("b", "c")
	first := g.acts("b", "c")
	g.all["c"].Stop()
	if token := g.acts("b"); token != first {
		t.Error("a leader has another token since somebody is gone")
	}
	g.start("c")
	if token := g.acts("b", "c"); token != first {
		t.Error("a leader has another token since somebody is back")
	}
	g.start("a")
	g.acts("a", "b", "c")
	g.all["a"].Stop()
	if token := g.acts("b", "c"); token != first {
		t.Error("the leadership was given up when a lower one came")
	}
}

// A leader begins with a new token, and resigns when somebody is healthy who has not
// accepted it; it campaigns in the round after that, and acts in the one after that.
func TestALeadershipBeginsAndEnds(t *testing.T) {
	g := group(t, "a", "b")
	g.start("b")
	// Without rounds and pings of its own.
	d := &Daemon{
		o: g.options("a"), seen: map[string]time.Time{}, learned: map[string]string{}, conns: map[string]*grpc.ClientConn{},
	}
	t.Cleanup(func() {
		for _, c := range d.conns {
			_ = c.Close()
		}
	})
	tokens := map[string]bool{}
	for i, want := range []struct{ own, acts bool }{
		{true, false}, {true, true}, {false, false}, {true, false}, {true, true},
	} {
		if i == 2 {
			d.see("b")
		}
		g.mu.Lock()
		before := len(g.did)
		g.mu.Unlock()
		d.round(t.Context())
		g.mu.Lock()
		acts := slices.ContainsFunc(g.did[before:], func(l Leader) bool { return l.d == d })
		g.mu.Unlock()
		if (d.own != "") != want.own || acts != want.acts {
			t.Errorf("in round %d it leads: %t, and acts: %t", i+1, d.own != "", acts)
		}
		tokens[d.own] = true
	}
	delete(tokens, "")
	if len(tokens) != 2 {
		t.Errorf("there were %d tokens", len(tokens))
	}
}

// A peer that does not know the service any more fails the leader's rounds until it has
// not answered for long enough; then the leader goes on without it, and has not resigned.
func TestAPeerWithoutTheService(t *testing.T) {
	g := group(t, "a", "b", "c")
	g.start("a", "b", "c")
	token := g.acts("a", "b", "c")
	g.all["b"].Stop()
	_, failed := g.all["a"].Rounds()
	g.instead("b", func() ([]byte, error) { return nil, status.Error(codes.Unimplemented, "none") })
	if now := g.acts("a", "c"); now != token {
		t.Error("the leader has resigned")
	}
	if _, now := g.all["a"].Rounds(); now == failed {
		t.Error("no round failed")
	}
}

// A peer that answers pings and accepts nobody blocks the leader. Whom it names is
// pinged.
func TestAPeerThatAcceptsNobody(t *testing.T) {
	g := group(t, "a", "b", "z")
	z := g.at["z"]
	delete(g.at, "z")
	pinged := make(chan struct{})
	(&daemons{t: t, at: map[string]string{"z": z}}).instead("z", sync.OnceValues(func() ([]byte, error) {
		close(pinged)
		return nil, nil
	}))
	g.instead("b", func() ([]byte, error) {
		return message(nil, 2, message(nil, 3, peerInfo("z", z))), nil
	})
	g.start("a")
	<-pinged
	testwait.Until(t, "rounds that fail", func() bool { _, failed := g.all["a"].Rounds(); return failed > 5 })
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.did {
		if len(l.Acknowledged) > 1 {
			t.Errorf("it has acted for %v", l.Acknowledged)
		}
	}
}

// One that does not answer a ping delays none of the others. When it has another address it
// is pinged there.
func TestAPingThatHangs(t *testing.T) {
	g := group(t, "a", "b", "hangs")
	l, err := net.Listen("tcp", g.at["hangs"])
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g.start("a", "b")
	g.acts("a", "b")
	elsewhere := testport.Address(t)
	g.mu.Lock()
	g.at["hangs"] = elsewhere
	g.mu.Unlock()
	g.start("hangs")
	g.acts("a", "b", "hangs")
}

// What a daemon accepts: the last one that knows of all who are healthy, whoever it is; and
// calls of that one alone.
func TestWhoIsAccepted(t *testing.T) {
	d := &Daemon{
		o:    Options{Name: "b", Cluster: "etcd", Healthy: time.Hour, Discovery: func() map[string]string { return nil }},
		seen: map[string]time.Time{"a": time.Now(), "old": time.Now().Add(-2 * time.Hour)}, learned: map[string]string{},
	}
	view := func(token string, names ...string) []byte {
		b := text(message(nil, 1, peerInfo("z", "z:1")), 2, token)
		for _, name := range names {
			b = message(b, 3, peerInfo(name, name+":1"))
		}
		return b
	}
	header := func(token, cluster string) []byte { return text(text(nil, 1, token), 2, cluster) }
	if d.led(header("", "etcd")) == nil {
		t.Error("a call without a token is served before anybody leads")
	}
	no := d.notified(view("1", "b", "c"))
	if field(no, 1) != nil || d.token != "" {
		t.Error("a leader is accepted who does not know of a")
	}
	if names := d.merge(field(no, 2)); !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("it names %q", names)
	}
	if d.peers()["c"] != "c:1" {
		t.Errorf("c is not learned: %v", d.peers())
	}
	for _, token := range []string{"2", "3"} {
		if field(d.notified(view(token, "b", "a")), 1) == nil {
			t.Fatalf("%s is not accepted", token)
		}
	}
	if d.led(header("2", "etcd")) == nil || d.led(header("3", "other")) == nil || d.led(header("3", "etcd")) != nil {
		t.Error("not just the calls of the last leader are served")
	}
}
