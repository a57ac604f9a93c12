package daemon

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/discovery"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// Daemons of the existing etcd-manager find others by the same discovery, at most one
// --discovery-poll-interval after these have come, and then call each every five seconds;
// where that fails, they try again after ten seconds at most.
const (
	firstCallTimeout = 15 * time.Second
	askInterval      = 5 * time.Second
	askTimeout       = 2 * time.Second
	maxNeighbour     = 64
)

// services are those by which the existing etcd-manager is known.
var services = []string{"/privateapi.ClusterService/", "/etcd.EtcdManagerService/"}

// Neighbours hears of the daemons of the existing etcd-manager. It answers them nothing:
// who does not answer is left out by their leader after a minute, and gets no orders. Nor
// does it call their services: an answer would make this node one of theirs.
type neighbours struct {
	// window is how long a daemon may take to be heard, and counts after it was heard last.
	window time.Duration
	now    func() time.Time
	began  time.Time

	mu sync.Mutex
	// heard is when each was heard last.
	heard map[string]time.Time
	// met are the addresses that answered the last question, unreachable the machines that
	// did not. complete says that each machine has been asked.
	met         map[string]bool
	unreachable []string
	complete    bool
}

func newNeighbours(window time.Duration, now func() time.Time) *neighbours {
	return &neighbours{window: window, now: now, began: now(), heard: map[string]time.Time{}}
}

// noteForeignCall notes a call of a service that is not served here.
func (n *neighbours) noteForeignCall(from rpc.Caller, address, method string) {
	known := slices.ContainsFunc(services, func(s string) bool { return strings.HasPrefix(method, s) })
	if !known {
		return
	}
	name := string(from.Name)
	if name == "" {
		name = address
	}
	n.note(name)
}

// note notes a daemon. Callers choose their names where there is no TLS, so these are
// bounded; one is enough to hold.
func (n *neighbours) note(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.heard[name]; known || len(n.heard) < maxNeighbour {
		n.heard[name] = n.now()
	}
}

// A probe is what a machine answers: where, and with what error.
type probe struct {
	address string
	err     error
}

// answers reports whether a daemon is there, of this kind or of the existing tool's.
func (g probe) answers() bool { return g.err == nil || errors.Is(g.err, rpc.ErrUnimplemented) }

// ask asks all machines at the same time. A daemon listens at one of the addresses of its
// machine, and a cloud does not say at which.
func (n *neighbours) ask(ctx context.Context, machines []discovery.Machine,
	hello func(ctx context.Context, address string) error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	probes := make([]probe, len(machines))
	var wg sync.WaitGroup
	for i, m := range machines {
		wg.Go(func() { probes[i] = n.probeMachine(ctx, m, hello) })
	}
	wg.Wait()
	var unreachable []string
	met := map[string]bool{}
	for i, g := range probes {
		switch {
		case !g.answers():
			unreachable = append(unreachable, strings.Join(machines[i].Addresses, " or "))
		case g.err != nil:
			n.note(g.address)
		}
		met[g.address] = g.answers()
	}
	slices.Sort(unreachable)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.met, n.unreachable, n.complete = met, slices.Compact(unreachable), true
}

// probeMachine asks a machine at the address that answered last, or at all of its addresses. A
// machine of a cloud may have dozens.
func (n *neighbours) probeMachine(ctx context.Context, m discovery.Machine,
	hello func(ctx context.Context, address string) error) probe {
	n.mu.Lock()
	met := n.met
	n.mu.Unlock()
	for _, address := range m.Addresses {
		if met[address] {
			if g := (probe{address, hello(ctx, address)}); g.answers() {
				return g
			}
		}
	}
	probes := make([]probe, len(m.Addresses))
	var wg sync.WaitGroup
	for i, address := range m.Addresses {
		wg.Go(func() { probes[i] = probe{address, hello(ctx, address)} })
	}
	wg.Wait()
	// One of the existing tool counts more than any other.
	best := probes[0]
	for _, g := range probes {
		if g.answers() && (!best.answers() || g.err != nil) {
			best = g
		}
	}
	return best
}

// unanswered returns the machines at which no daemon answered the last question.
func (n *neighbours) unanswered() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.unreachable)
}

// say returns what is known now.
func (n *neighbours) say() cluster.Neighbours {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	maps.DeleteFunc(n.heard, func(_ string, at time.Time) bool { return now.Sub(at) > n.window })
	return cluster.Neighbours{
		Existing:    slices.Sorted(maps.Keys(n.heard)),
		Unreachable: slices.Clone(n.unreachable),
		Listened:    n.complete && now.Sub(n.began) >= n.window,
	}
}

// meet asks at the machines of discovery until ctx ends.
func (d *Daemon) meet(ctx context.Context) {
	for {
		d.node.neighbours.ask(ctx, d.peerGroup.finder.Machines(), func(ctx context.Context, address string) error {
			_, err := d.pool.Hello(ctx, address)
			var refused *rpc.Error
			if errors.As(err, &refused) && refused.Kind == rpc.Refused {
				return nil // it is one of this kind
			}
			return err
		})
		if wait.For(ctx, askInterval) != nil {
			return
		}
	}
}

func (d *Daemon) listenFor() time.Duration {
	if d.c.ListenFor > 0 {
		return d.c.ListenFor
	}
	return d.c.DiscoveryInterval + firstCallTimeout
}
