package gossip

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/internal/nodepb"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func TestFiveNodesFindEachOtherThroughOne(t *testing.T) {
	t.Parallel()
	nodes := peerGroup(t, "a", "b", "c", "d", "e")
	for _, n := range nodes {
		for i, p := range n.Peers() {
			if p.Address != nodes[i].address {
				t.Errorf("%s believes that %s is at %s, it is at %s", n.name, p.Name, p.Address, nodes[i].address)
			}
			eventually(t, func() string {
				if age := time.Since(n.peer(p.Name).LastSeen); age > 5*time.Second {
					return fmt.Sprintf("%s has seen %s %v ago", n.name, p.Name, age)
				}
				return ""
			})
		}
	}
	// Later it is probes that keep LastSeen young.
	mark := time.Now()
	eventually(t, func() string {
		if p := nodes[0].peer("e"); !p.LastSeen.After(mark) {
			return "a has heard nothing of e"
		}
		return ""
	})
}

func TestMetaTravels(t *testing.T) {
	t.Parallel()
	a, b := start(t, "a", setup{meta: "boot=1"}), start(t, "b", setup{meta: "boot=2"})
	join(t, b, "a="+a.address)
	await(t, "a b", a, b)
	if got := a.peer("b").Meta; string(got) != "boot=2" {
		t.Errorf("a has %q of b", got)
	}
	if got := b.peer("a").Meta; string(got) != "boot=1" {
		t.Errorf("b has %q of a", got)
	}
}

func TestChangedIsOneSignalForManyChanges(t *testing.T) {
	t.Parallel()
	a := start(t, "a", setup{})
	<-a.Changed() // a itself
	join(t, start(t, "b", setup{}), a.address)
	join(t, start(t, "c", setup{}), a.address)
	await(t, "a b c", a)
	select {
	case <-a.Changed():
	case <-time.After(testwait.Limit):
		t.Fatal("no signal")
	}
	select {
	case <-a.Changed():
		t.Fatal("a second signal without a change")
	default:
	}
}

func TestACrashIsNoticed(t *testing.T) {
	t.Parallel()
	nodes := peerGroup(t, "a", "b", "c")
	nodes[2].crash()
	took := await(t, "a b -c", nodes[:2]...)
	t.Logf("took %v", took)
	if p := nodes[0].peer("c"); p.Address != nodes[2].address || p.LastSeen.IsZero() {
		t.Errorf("the dead node is remembered as %+v", p)
	}
}

func TestLeavingIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	nodes := peerGroup(t, "a", "b", "c")
	if err := nodes[2].Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	// It still answers: no failure is detected.
	await(t, "a b -c", nodes[:2]...)
	nodes[2].crash()
}

func TestTwoNodesPartQuickly(t *testing.T) {
	t.Parallel()
	var nodes []*node
	eventually(t, func() string { // on a busy machine it may take longer once
		nodes = peerGroup(t, "a", "b")
		begin := time.Now()
		if err := nodes[1].Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 4*time.Second {
			return fmt.Sprintf("the leave message took %v", took)
		}
		return ""
	})
	// a has the message, and may still be about to read it. b still answers: no failure
	// is detected.
	await(t, "a -b", nodes[0])
	// A second one, and one with nobody there, do nothing.
	for _, n := range []*node{nodes[1], start(t, "lonely", setup{})} {
		if err := n.Leave(t.Context()); err != nil {
			t.Errorf("%s: %v", n.name, err)
		}
	}
}

func TestRestartAtTheSameAddress(t *testing.T) {
	t.Parallel()
	nodes := peerGroup(t, "a", "b", "c")
	for _, wait := range []bool{false, true} {
		nodes[2].crash()
		if wait {
			await(t, "a b -c", nodes[:2]...)
		}
		nodes[2] = start(t, "c", setup{listen: nodes[2].address, meta: fmt.Sprint(wait)})
		join(t, nodes[2], nodes[0].address)
		await(t, "a b c", nodes...)
		eventually(t, func() string {
			if got := string(nodes[1].peer("c").Meta); got != fmt.Sprint(wait) {
				return "b still has the old c's metadata"
			}
			return ""
		})
	}
	if c := append(nodes[0].reported(), nodes[1].reported()...); len(c) != 0 {
		t.Errorf("a restart is taken for a conflict: %v", c)
	}
}

func TestRestartAtAnotherAddress(t *testing.T) {
	t.Parallel()
	nodes := peerGroup(t, "a", "b", "c")
	nodes[2].crash()
	// The others do not know yet that c is gone: they see a conflict, and
	// accept the new address when the old one is dead.
	c := start(t, "c", setup{listen: "127.0.0.2:0"})
	join(t, c, nodes[0].address)
	for _, n := range nodes[:2] {
		eventually(t, func() string {
			if p := n.peer("c"); !p.Alive || p.Address != c.address || p.Conflict != "" {
				return fmt.Sprintf("%s has %+v, c is at %s", n.name, p, c.address)
			}
			return ""
		})
	}
}

func TestTwoNodesOfOneName(t *testing.T) {
	t.Parallel()
	nodes := peerGroup(t, "a", "b")
	other := start(t, "b", setup{})
	join(t, other, nodes[0].address)
	want := Conflict{Name: "b", Existing: nodes[1].address, Other: other.address}
	await(t, "a b(!)", nodes[0])
	reportedOne := func(n *node) { // what is seen may not have been reported yet
		eventually(t, func() string {
			if len(n.reported()) == 0 {
				return string(n.name) + " has no report of a conflict"
			}
			return ""
		})
	}
	reportedOne(nodes[0])
	if c := nodes[0].reported(); len(c) != 1 || c[0] != want {
		t.Errorf("a has the report %+v, want %+v once", c, want)
	}
	if p := nodes[0].peer("b"); p.Address != nodes[1].address || p.Conflict != other.address || !p.Alive {
		t.Errorf("a has %+v", p)
	}
	await(t, "a b(!)", other)
	reportedOne(other)
	if c := other.reported(); len(c) != 1 || c[0].Existing != other.address || c[0].Other != nodes[1].address {
		t.Errorf("the second b has the report %+v", c)
	}
	// It is reported once, however often it is seen.
	join(t, other, nodes[0].address, nodes[1].address)
	if n := len(nodes[0].reported()); n != 1 {
		t.Errorf("a has %d reports", n)
	}
	await(t, "a b(!)", nodes[1])
}

func TestAFalseNameIsRefused(t *testing.T) {
	t.Parallel()
	nodes := peerGroup(t, "a", "b")
	liar := start(t, "b", setup{proof: "mallory"})
	for _, address := range []string{nodes[0].address, "b=" + nodes[1].address} {
		// On a busy machine an exchange may end before the answer.
		eventually(t, func() string {
			n, err := liar.Join(t.Context(), []string{address})
			if n != 0 {
				t.Fatalf("join %s: %d, %v", address, n, err)
			}
			if err == nil || !strings.Contains(err.Error(), `mallory says that it is "b"`) {
				return fmt.Sprintf("join %s: %v", address, err)
			}
			return ""
		})
	}
	// Packets take another way.
	to := nodes[0].transport.at.String()
	if _, err := liar.transport.WriteTo([]byte("hello"), to); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		// The refusal is seen by one of the next packets.
		_, _ = liar.transport.WriteTo([]byte("hello"), to)
		if !liar.said(`mallory says that it is "b"`) {
			return "the packet is not refused"
		}
		return ""
	})
	if got := nodes[0].sees(); got != "a b" {
		t.Errorf("a sees %q", got)
	}
	if nodes[0].said("not supported") {
		t.Error("the liar's packet has reached memberlist")
	}
}

func TestANamelessCallerIsRefused(t *testing.T) {
	t.Parallel()
	a := start(t, "a", setup{})
	cc, err := a.dial(a.address, "b")
	if err != nil {
		t.Fatal(err)
	}
	packets, err := nodepb.NewGossipClient(cc).Packets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := nodepb.NewGossipClient(cc).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []frames{packets, stream} {
		if _, err := receive(s); err == nil || !strings.Contains(err.Error(), "b does not say its name") {
			t.Errorf("it received %v", err)
		}
	}
	other, err := grpc.NewClient("passthrough:///"+a.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	s, err := nodepb.NewGossipClient(other).Packets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := receive(s); err == nil || !strings.Contains(err.Error(), "no proof") {
		t.Errorf("a caller without proof: %v", err)
	}
}

func TestImpossibleNodesAreIgnored(t *testing.T) {
	t.Parallel()
	d := &delegate{table: newTable("x", nil)}
	for name, n := range map[string]struct {
		name string
		ip   net.IP
		port uint16
		ok   bool
	}{
		"good":         {"b", net.IPv4(10, 0, 0, 1).To4(), 3996, true},
		"IPv6":         {"b", net.ParseIP("fd00::1"), 3996, true},
		"bad name":     {"b/../c", net.IPv4(10, 0, 0, 1), 3996, false},
		"no address":   {"b", nil, 3996, false},
		"any address":  {"b", net.IPv4zero.To4(), 3996, false},
		"no port":      {"b", net.IPv4(10, 0, 0, 1), 0, false},
		"half address": {"b", net.IP{10, 0}, 1, false},
	} {
		if err := d.NotifyAlive(member(n.name, n.ip, n.port)); (err == nil) != n.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// One caller reports many nodes that are not there. They are bounded in number,
// known as such, wake nobody, and keep no real node out.
func TestMadeUpNamesAreBounded(t *testing.T) {
	t.Parallel()
	tab := newTable("x", nil)
	asked := map[cluster.NodeName]bool{}
	tab.rejoin = func(name cluster.NodeName, _ string) { asked[name] = true }
	d := &delegate{table: tab}
	hear := func(name string) error {
		n := member(name, net.IPv4(10, 0, 0, 1).To4(), 3996)
		err := d.NotifyAlive(n)
		if err == nil {
			d.NotifyJoin(n)
		}
		return err
	}
	for i := range 10 * maxStrangers {
		if err := hear(fmt.Sprintf("0%06d", i)); (err == nil) != (i < maxStrangers) {
			t.Fatalf("name %d: %v", i, err)
		}
	}
	select {
	case <-tab.changed:
		t.Error("a made-up name wakes the daemon")
	default:
	}
	if list := tab.list(); len(list) != maxStrangers || list[0].Proved || !asked[list[0].Name] {
		t.Fatalf("%d names are known, the first is %+v, asked to show itself: %t", len(list), list[0], asked[list[0].Name])
	}
	tab.seen("b") // it has called
	if err := hear("b"); err != nil {
		t.Errorf("a node that has shown itself: %v", err)
	}
	if p := tab.list()[maxStrangers]; p.Name != "b" || !p.Proved {
		t.Errorf("it is %+v", p)
	}
	select {
	case <-tab.changed:
	default:
		t.Error("a node that has shown itself wakes nobody")
	}
	// A name that was made up is forgotten when no node answers to it; b is not.
	d.NotifyLeave(member("0000000", nil, 0))
	d.NotifyLeave(member("b", nil, 0))
	if list := tab.list(); len(list) != maxStrangers || list[len(list)-1].Name != "b" || list[len(list)-1].Alive {
		t.Errorf("known are %d, the last is %+v", len(list), list[len(list)-1])
	}
	if err := hear("0000999"); err != nil {
		t.Errorf("where there is room again: %v", err)
	}
}

func TestOtherAddressFamilies(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"[::1]:0", "127.0.0.2:0"} {
		t.Run(listen, func(t *testing.T) {
			t.Parallel()
			a, b := start(t, "a", setup{listen: listen}), start(t, "b", setup{listen: listen})
			join(t, b, a.address)
			await(t, "a b", a, b)
			if p := a.peer("b"); p.Address != b.address {
				t.Errorf("a believes that b is at %s, it is at %s", p.Address, b.address)
			}
			b.crash()
			await(t, "a -b", a)
		})
	}
}

func TestJoinByHostName(t *testing.T) {
	t.Parallel()
	a, b := start(t, "a", setup{}), start(t, "b", setup{})
	_, port, _ := net.SplitHostPort(a.address)
	join(t, b, "localhost:"+port)
	await(t, "a b", a, b)
}

func TestJoinSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	a := start(t, "a", setup{})
	gone := start(t, "gone", setup{})
	gone.crash()
	for address, want := range map[string]string{
		"host-without-port":       "missing port",
		"127.0.0.1:none":          "not a number",
		"127.0.0.1:0":             "not a number",
		"no-such-host.invalid:80": "no-such-host.invalid",
		gone.address:              "Error while dialing",
	} {
		var err error
		eventually(t, func() string { // within the time of an exchange
			var n int
			n, err = a.Join(t.Context(), []string{address})
			if n != 0 || err == nil || !strings.HasPrefix(err.Error(), "join "+address) {
				t.Fatalf("join %s: %d, %v", address, n, err)
			}
			if !strings.Contains(err.Error(), want) {
				return err.Error()
			}
			return ""
		})
		if err != nil && (strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "failed to")) {
			t.Errorf("join %s: memberlist's words are left: %v", address, err)
		}
	}
}

func TestJoinCountsThoseThatAnswer(t *testing.T) {
	t.Parallel()
	a, b := start(t, "a", setup{}), start(t, "b", setup{})
	gone := start(t, "gone", setup{})
	gone.crash()
	eventually(t, func() string {
		if n, err := a.Join(t.Context(), []string{gone.address, b.address}); n != 1 || err == nil {
			return fmt.Sprintf("%d, %v", n, err)
		}
		return ""
	})
	await(t, "a b", a, b)
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	good := Options{
		Name: "a", Address: "127.0.0.1:3996", Server: grpc.NewServer(), Caller: caller,
		Dial: func(context.Context, string, cluster.NodeName) (grpc.ClientConnInterface, error) { return nil, nil },
	}
	for want, change := range map[string]func(*Options){
		"node name is empty":        func(o *Options) { o.Name = "" },
		"are needed":                func(o *Options) { o.Dial = nil },
		"not an IP address":         func(o *Options) { o.Address = "localhost:3996" },
		"cannot be reached":         func(o *Options) { o.Address = "0.0.0.0:3996" },
		`"[::]:3996" cannot be rea`: func(o *Options) { o.Address = "[::]:3996" },
		`"10.0.0.1:0" cannot be re`: func(o *Options) { o.Address = "10.0.0.1:0" },
		"fe80::1%eth0":              func(o *Options) { o.Address = "[fe80::1%eth0]:3996" },
		"513 bytes of metadata":     func(o *Options) { o.Meta = func() []byte { return bytes.Repeat([]byte{1}, 513) } },
	} {
		o := good
		change(&o)
		if _, err := New(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
