package gossip

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// proofKey stands for a certificate: what a caller proves, whatever it says.
const proofKey = "test-proof"

// A node is a gossiping daemon with a real server.
type node struct {
	*Gossip
	t       *testing.T
	name    cluster.NodeName
	address string
	// listening is where the server is, address what others are given.
	listening string
	server    *grpc.Server

	mu        sync.Mutex
	conns     map[string]*grpc.ClientConn
	conflicts []Conflict
	logs      []string
	ended     bool
}

type setup struct {
	listen    string           // an address to listen on, 127.0.0.1:0 if empty
	advertise string           // the address to be known by, if another
	proof     cluster.NodeName // the name that it can prove, if another
	meta      string
}

func start(t *testing.T, name cluster.NodeName, s setup) *node {
	t.Helper()
	if s.listen == "" {
		s.listen = "127.0.0.1:0"
	}
	if s.proof == "" {
		s.proof = name
	}
	l, err := net.Listen("tcp", s.listen)
	if err != nil {
		t.Skipf("this machine cannot listen on %s: %v", s.listen, err)
	}
	n := &node{t: t, name: name, address: l.Addr().String(), listening: l.Addr().String(), server: grpc.NewServer(),
		conns: map[string]*grpc.ClientConn{}}
	if s.advertise != "" {
		n.address = s.advertise
	}
	n.Gossip, err = New(t.Context(), Options{
		Name: name, Address: n.address, Server: n.server,
		Dial: func(_ context.Context, address string, _ cluster.NodeName) (grpc.ClientConnInterface, error) {
			return n.dial(address, s.proof)
		},
		Caller: caller,
		Meta:   func() []byte { return []byte(s.meta) },
		OnConflict: func(c Conflict) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.conflicts = append(n.conflicts, c)
		},
		Log: func(format string, args ...any) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.logs = append(n.logs, time.Now().Format("05.000 ")+string(name)+": "+fmt.Sprintf(format, args...))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.leaveLimit = testwait.Limit
	served := make(chan error, 1)
	go func() { served <- n.server.Serve(l) }()
	t.Cleanup(func() {
		n.crash()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("serve %s: %v", name, err)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if t.Failed() {
			t.Log(strings.Join(n.logs, "\n"))
		}
	})
	return n
}

func caller(ctx context.Context) (cluster.NodeName, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if v := md.Get(proofKey); len(v) == 1 {
		return cluster.NodeName(v[0]), nil
	}
	return "", errors.New("no proof")
}

func (n *node) dial(address string, proof cluster.NodeName) (grpc.ClientConnInterface, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if cc := n.conns[address]; cc != nil {
		return cc, nil
	}
	prove := func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
		o ...grpc.CallOption) (grpc.ClientStream, error) {
		return open(metadata.AppendToOutgoingContext(ctx, proofKey, string(proof)), d, cc, method, o...)
	}
	cc, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStreamInterceptor(prove),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: 5 * time.Second, Backoff: backoff.Config{
				BaseDelay: 50 * time.Millisecond, Multiplier: 1, MaxDelay: 50 * time.Millisecond,
			},
		}))
	if err == nil {
		n.conns[address] = cc
	}
	return cc, err
}

// crash ends the node without a leave message, as kill -9 does.
func (n *node) crash() {
	if n.ended {
		return
	}
	n.ended = true
	n.server.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), testwait.Limit)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		n.t.Errorf("close %s: %v", n.name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, cc := range n.conns {
		_ = cc.Close()
	}
}

// sees describes who is alive, with conflicts, and who is not: "a b(!) -c".
func (n *node) sees() string {
	var words []string
	for _, p := range n.Peers() {
		w := string(p.Name)
		if !p.Alive {
			w = "-" + w
		}
		if p.Conflict != "" {
			w += "(!)"
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

func (n *node) peer(name cluster.NodeName) Peer {
	for _, p := range n.Peers() {
		if p.Name == name {
			return p
		}
	}
	return Peer{}
}

func (n *node) said(text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Contains(strings.Join(n.logs, "\n"), text)
}

func (n *node) reported() []Conflict {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.conflicts
}

// join joins all of them. On a busy machine an exchange may not end in its time, and
// is tried again, as daemons do.
func join(t *testing.T, n *node, addrs ...string) {
	t.Helper()
	eventually(t, func() string {
		ctx, cancel := context.WithTimeout(t.Context(), joinLimit)
		defer cancel()
		if count, err := n.Join(ctx, addrs); count != len(addrs) || err != nil {
			return fmt.Sprintf("join %v: %d, %v", addrs, count, err)
		}
		return ""
	})
}

// peerGroup starts nodes that know each other.
func peerGroup(t *testing.T, names ...cluster.NodeName) []*node {
	t.Helper()
	var nodes []*node
	var words []string
	for i, name := range names {
		n := start(t, name, setup{})
		if i > 0 {
			join(t, n, nodes[0].address)
		}
		nodes = append(nodes, n)
		words = append(words, string(name))
	}
	await(t, strings.Join(words, " "), nodes...)
	eventually(t, func() string { return unproved(nodes) })
	return nodes
}

// unproved says which node has not shown itself to which, "" for none.
func unproved(nodes []*node) string {
	for _, n := range nodes {
		for _, p := range n.Peers() {
			if !p.Proved {
				return string(p.Name) + " has not shown itself to " + string(n.name)
			}
		}
	}
	return ""
}

// await waits until all nodes see the same, and returns how long it took.
func await(t *testing.T, want string, nodes ...*node) time.Duration {
	t.Helper()
	begin := time.Now()
	for _, n := range nodes {
		eventually(t, func() string {
			if got := n.sees(); got != want {
				return fmt.Sprintf("%s sees %q, want %q", n.name, got, want)
			}
			return ""
		})
	}
	return time.Since(begin)
}

// eventually waits until f has nothing to complain about.
func eventually(t *testing.T, f func() string) {
	t.Helper()
	testwait.For(t, "gossip", func(context.Context) error {
		if complaint := f(); complaint != "" {
			return errors.New(complaint)
		}
		return nil
	})
}

// leftovers returns the goroutines of gossip and of what it uses.
func leftovers() string {
	buf := make([]byte, 1<<20)
	var left []string
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "memberlist.") || strings.Contains(g, "gossip.(*") ||
			strings.Contains(g, "google.golang.org/grpc") {
			left = append(left, g)
		}
	}
	return strings.Join(left, "\n\n")
}

// TestMain finds what any test has left behind. memberlist's last probe may
// take two seconds to end.
func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait more than they work.
	_ = flag.Set("test.parallel", "16")
	code := m.Run()
	deadline := time.Now().Add(testwait.Limit)
	for left := leftovers(); code == 0 && left != ""; left = leftovers() {
		if time.Now().After(deadline) {
			fmt.Println("goroutines are left:\n" + left)
			code = 1
		}
		time.Sleep(10 * time.Millisecond)
	}
	os.Exit(code)
}
