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
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// Daemons of the existing etcd-manager find others by the same discovery, at most one
// --discovery-poll-interval after these have come, and then call each every five seconds;
// where that fails, they try again after ten seconds at most.
const (
	callsAfter   = 15 * time.Second
	askEvery     = 5 * time.Second
	askTimeout   = 2 * time.Second
	maxNeighbour = 64
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
	// asked says what came of the last question, by address: nil where one of this kind
	// answered. complete says that each address has been asked.
	asked    map[string]error
	complete bool
}

func newNeighbours(window time.Duration, now func() time.Time) *neighbours {
	return &neighbours{window: window, now: now, began: now(), heard: map[string]time.Time{}}
}

// strange notes a call of a service that is not served here.
func (n *neighbours) strange(from rpc.Caller, address, method string) {
	known := slices.ContainsFunc(services, func(s string) bool { return strings.HasPrefix(method, s) })
	if !known {
		return
	}
	name := string(from.Name)
	if name == "" {
		name = address
	}
	n.hear(name)
}

// hear notes a daemon. Callers choose their names where there is no TLS, so these are
// bounded; one is enough to hold.
func (n *neighbours) hear(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.heard[name]; known || len(n.heard) < maxNeighbour {
		n.heard[name] = n.now()
	}
}

// ask asks all addresses at the same time.
func (n *neighbours) ask(ctx context.Context, addresses []string,
	hello func(ctx context.Context, address string) error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers := make([]error, len(addresses))
	var wg sync.WaitGroup
	for i, address := range addresses {
		wg.Go(func() { answers[i] = hello(ctx, address) })
	}
	wg.Wait()
	asked := map[string]error{}
	for i, address := range addresses {
		if errors.Is(answers[i], rpc.ErrUnimplemented) {
			n.hear(address)
		}
		asked[address] = answers[i]
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked, n.complete = asked, true
}

// say returns what is known now.
func (n *neighbours) say() cluster.Neighbours {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	maps.DeleteFunc(n.heard, func(_ string, at time.Time) bool { return now.Sub(at) > n.window })
	s := cluster.Neighbours{
		Existing: slices.Sorted(maps.Keys(n.heard)), Listened: n.complete && now.Sub(n.began) >= n.window,
	}
	for address, err := range n.asked {
		if err != nil && !errors.Is(err, rpc.ErrUnimplemented) {
			s.Unreachable = append(s.Unreachable, address)
		}
	}
	slices.Sort(s.Unreachable)
	return s
}

// meet asks at the addresses of discovery until ctx ends.
func (d *Daemon) meet(ctx context.Context) {
	for {
		var addresses []string
		for _, s := range d.peerGroup.finder.Machines() {
			addresses = append(addresses, s.Address)
		}
		slices.Sort(addresses)
		d.node.neighbours.ask(ctx, slices.Compact(addresses), func(ctx context.Context, address string) error {
			_, err := d.pool.Hello(ctx, address)
			var refused *rpc.Error
			if errors.As(err, &refused) && refused.Kind == rpc.Refused {
				return nil // it is one of this kind
			}
			return err
		})
		if wait.For(ctx, askEvery) != nil {
			return
		}
	}
}

func (d *Daemon) listenFor() time.Duration {
	if d.c.ListenFor > 0 {
		return d.c.ListenFor
	}
	return d.c.DiscoveryInterval + callsAfter
}
