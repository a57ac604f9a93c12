package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A Net is a network of its own: each node lives in a network namespace, which
// a pair of virtual interfaces joins to a bridge. There are two bridges, and
// a node can be moved from one to the other: then it sees only those that are
// there too.
type Net struct {
	t      T
	id     string
	prefix string
	six    bool

	mu     sync.Mutex
	spaces []*space
}

// A space is the network namespace of one node.
type space struct {
	name, link, address string
}

// NetError says why there can be no such network here.
func NetError() error {
	id := fmt.Sprintf("ep%04x", rand.IntN(1<<16))
	if err := ip("netns add " + id); err != nil {
		return err
	}
	err := ip("link add " + id + " type bridge")
	if err == nil {
		err = ip("link del " + id)
	}
	return errors.Join(err, ip("netns del "+id))
}

// networks numbers the networks: two of one process never have one name.
var networks = from(rand.Uint32N(1 << 16))

// NewNet returns a network without nodes. It is deleted when t ends.
func NewNet(t T) *Net {
	t.Helper()
	return newNet(t, false)
}

// NewNet6 returns one whose nodes have addresses of IPv6 alone, besides those of loopback.
func NewNet6(t T) *Net {
	t.Helper()
	return newNet(t, true)
}

func newNet(t T, six bool) *Net {
	t.Helper()
	i := networks.Add(1)
	n := &Net{t: t, id: fmt.Sprintf("e%04x", i%(1<<16)), six: six}
	n.prefix = fmt.Sprintf("10.%d.%d.", 64+i/256%64, i%256)
	if six {
		n.prefix = fmt.Sprintf("fd00:e2e:%x::", i)
	}
	t.Cleanup(n.close)
	for _, side := range []string{"a", "b"} {
		n.ip("link add " + n.id + side + " type bridge")
		n.ip("link set " + n.id + side + " up")
	}
	return n
}

func ip(args string) error {
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", args, err, out)
	}
	return nil
}

func (n *Net) ip(args string) {
	n.t.Helper()
	if err := ip(args); err != nil {
		n.t.Fatalf("%v", err)
	}
}

// add makes one more namespace and joins it to the first bridge.
func (n *Net) add() *space {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	i := len(n.spaces)
	s := &space{name: fmt.Sprintf("%sn%d", n.id, i), link: fmt.Sprintf("%sv%d", n.id, i),
		address: fmt.Sprintf("%s%d", n.prefix, 10+i)}
	n.ip("netns add " + s.name)
	n.spaces = append(n.spaces, s)
	n.ip("link add " + s.link + " type veth peer name eth0 netns " + s.name)
	n.ip("link set " + s.link + " master " + n.id + "a up")
	prefix := "/24"
	if n.six { // nobody waits for an answer of who has the address already
		prefix = "/64 nodad"
	}
	for _, args := range []string{"link set lo up", "addr add " + s.address + prefix + " dev eth0", "link set eth0 up"} {
		n.ip("-n " + s.name + " " + args)
	}
	return s
}

// Free returns an address that no node has.
func (n *Net) Free() string { return n.prefix + "250" }

// Cut moves the nodes to the second bridge and all others to the first.
func (n *Net) Cut(nodes ...*Node) {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.spaces {
		bridge := n.id + "a"
		for _, node := range nodes {
			if node.space == s {
				bridge = n.id + "b"
			}
		}
		n.ip("link set " + s.link + " master " + bridge)
	}
}

// Close has a firewall on one node drop what another one sends to a port or gets from
// it, connections that are open too. The function that it returns opens it again.
func (n *Net) Close(at, from *Node, port int) (open func()) {
	n.t.Helper()
	rules := []string{
		fmt.Sprintf("INPUT -p tcp -s %s --dport %d -j DROP", from.space.address, port),
		fmt.Sprintf("OUTPUT -p tcp -d %s --sport %d -j DROP", from.space.address, port),
	}
	tables := " iptables -w "
	if n.six {
		tables = " ip6tables -w "
	}
	change := func(how string) {
		n.t.Helper()
		for _, rule := range rules {
			n.ip("netns exec " + at.space.name + tables + how + " " + rule)
		}
	}
	change("-A")
	return func() { n.t.Helper(); change("-D") }
}

// unplug takes a namespace off the network: nobody hears from it any more, or that it ends.
func (n *Net) unplug(s *space) {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ip("link set " + s.link + " down")
}

// Heal joins all nodes again.
func (n *Net) Heal() {
	n.t.Helper()
	n.Cut()
}

func (n *Net) close() {
	for _, s := range n.spaces {
		// Deleting one end of the pair deletes the other, while the kernel may
		// take its time with the namespace.
		if err := errors.Join(ip("link del "+s.link), ip("netns del "+s.name),
			os.RemoveAll("/etc/netns/"+s.name)); err != nil {
			n.t.Errorf("%v", err)
		}
	}
	for _, side := range []string{"a", "b"} {
		if err := ip("link del " + n.id + side); err != nil {
			n.t.Errorf("%v", err)
		}
	}
}

// dial connects from within the namespace: a socket belongs to the namespace
// in which it was made.
func (s *space) dial(ctx context.Context, addr string) (net.Conn, error) {
	return within(s, func() (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", addr) })
}

// listen listens within the namespace.
func (s *space) listen(addr string) (net.Listener, error) {
	return within(s, func() (net.Listener, error) { return net.Listen("tcp", addr) })
}

// within makes a socket in a namespace.
func within[T any](s *space, open func() (T, error)) (T, error) {
	type result struct {
		opened T
		err    error
	}
	got := make(chan result, 1)
	go func() {
		var none T
		// The thread is not unlocked, so it ends with the goroutine, and nobody
		// else gets a thread in another namespace.
		runtime.LockOSThread()
		fd, err := unix.Open("/run/netns/"+s.name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			got <- result{none, fmt.Errorf("open namespace %s: %w", s.name, err)}
			return
		}
		defer unix.Close(fd)
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			got <- result{none, fmt.Errorf("enter namespace %s: %w", s.name, err)}
			return
		}
		opened, err := open()
		got <- result{opened, err}
	}()
	r := <-got
	return r.opened, r.err
}
