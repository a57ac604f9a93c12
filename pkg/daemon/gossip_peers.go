package daemon

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/discovery"
	"github.com/etcdadm/etcdadm/pkg/coordination/gossip"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/daemon/fleet"
	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A group of peers is the daemons that this one knows: gossip says who is alive,
// discovery whom to gossip with.
type peerGroup struct {
	d        *Daemon
	listener net.Listener
	gossip   *gossip.Gossip
	finder   *discovery.Finder
	nearby   *discovery.Nearby
	seeds    []discovery.Seed
}

func newPeerGroup(ctx context.Context, d *Daemon, l net.Listener) (*peerGroup, error) {
	c := &peerGroup{d: d, listener: l}
	var err error
	if c.seeds, err = discovery.ParseSeeds(d.c.Seeds, d.c.GRPCPort); err != nil {
		return nil, err
	}
	if d.c.ScanRange.IsValid() || d.c.Multicast {
		if c.nearby, err = newNearby(d); err != nil {
			return nil, err
		}
	}
	c.gossip, err = gossip.New(ctx, gossip.Options{
		Name: d.name, Address: d.node.address, Server: d.server, Dial: d.pool.Dial, Caller: caller,
		// A daemon that has started again is news, at once: its disk may be new.
		Meta: func() []byte { return []byte(d.node.boot) },
		OnConflict: func(x gossip.Conflict) {
			d.log.Warn("two daemons use the same name", "name", x.Name, "addresses", x.Existing+", "+x.Other)
		},
		Log: func(format string, args ...any) {
			d.log.Debug("gossip", "text", strings.TrimSpace(fmt.Sprintf(format, args...)))
		},
	})
	if err != nil {
		return nil, err
	}
	c.finder, err = discovery.New(discovery.Options{
		Self:       discovery.Record{Name: d.name, Address: d.node.address, Boot: d.node.boot},
		Seeds:      c.seeds,
		Directory:  directory{d, d.store},
		Sources:    c.sources(),
		Interval:   d.c.DiscoveryInterval,
		Join:       c.gossip.Join,
		Alive:      c.alive,
		Unanswered: d.node.neighbours.unanswered,
		SeedsDir:   d.c.SeedsDir,
		Port:       d.c.GRPCPort,
		Log:        func(format string, args ...any) { d.log.Warn("discovery", "text", fmt.Sprintf(format, args...)) },
	})
	return c, err
}

func caller(ctx context.Context) (cluster.NodeName, error) {
	c, ok := rpc.CallerFrom(ctx)
	if !ok || c.Name == "" || c.Role != rpc.RoleNode {
		return "", &rpc.Error{Kind: rpc.Refused, Text: "the caller is not a node"}
	}
	return c.Name, nil
}

// run looks for other daemons until ctx ends.
func (c *peerGroup) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { c.watch(ctx) })
	if c.d.c.Multicast {
		defer c.announce(ctx)()
	}
	c.finder.Run(ctx)
	wg.Wait()
}

// leaveTimeout bounds the time that others have to hear that this daemon goes, two rounds of gossip.
const leaveTimeout = 1200 * time.Millisecond

// close notifies the peers that the daemon leaves and ends the gossip; the port can stop after it.
func (c *peerGroup) close(ctx context.Context) {
	leave, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	// Nobody may be there to hear it.
	_ = c.gossip.Leave(leave)
	if err := c.gossip.Close(ctx); err != nil {
		c.d.log.Debug("gossip did not end", "error", err)
	}
}

// known returns the nodes that count: those that have shown themselves, and
// lease voters, which every disk has. A caller can make up any number of others.
func (c *peerGroup) known() []gossip.Peer {
	return known(c.gossip.Peers(), c.d.state.LeaseVoters().Names)
}

func known(peers []gossip.Peer, leaseVoters []cluster.NodeName) []gossip.Peer {
	return slices.DeleteFunc(peers, func(p gossip.Peer) bool { return !p.Proved && !slices.Contains(leaseVoters, p.Name) })
}

func (c *peerGroup) alive() []cluster.NodeName {
	var list []cluster.NodeName
	for _, p := range c.known() {
		if p.Alive {
			list = append(list, p.Name)
		}
	}
	return list
}

// peers returns every node that is known to exist: by gossip, or by a static
// list.
func (c *peerGroup) peers() []observe.Peer {
	var list []observe.Peer
	gone := c.d.node.voted.Load().Lapsed(c.d.now())
	for _, p := range c.known() {
		unreachable := !p.Alive || p.Name == gone && p.Name != c.d.name
		list = append(list, observe.Peer{Name: p.Name, Address: p.Address, Conflict: p.Conflict, Unreachable: unreachable})
	}
	for _, s := range c.seeds {
		known := slices.ContainsFunc(list, func(p observe.Peer) bool { return p.Name == s.Name })
		if s.Name != "" && !known {
			list = append(list, observe.Peer{Name: s.Name, Address: s.Address})
		}
	}
	return list
}

func (c *peerGroup) changed() <-chan struct{} { return c.gossip.Changed() }

// noLeaseLimit is how long no daemon may have the lease before that is said: longer
// than any daemon waits for those before it, in a cluster of usual size.
const noLeaseLimit = 20 * time.Second

// missing reports whether nobody has had this lease voter's vote for too long. A
// pause is no reason for concern, nor is a node that others have made no lease voter:
// own is the record on its disk, which it keeps where the change did not reach it,
// heard the newest that any answer named.
func missing(self cluster.NodeName, own, heard cluster.LeaseVoters, v *lease.Vote, paused bool, now time.Time) bool {
	former := lease.Newer(heard, own) && !slices.Contains(heard.Names, self)
	return v != nil && !paused && !former && now.Sub(v.At) > noLeaseLimit
}

// untilMissing is how long it takes at least until missing can report another thing: a vote that is
// renewed all the time is checked rarely.
func untilMissing(v *lease.Vote, said bool, now time.Time) time.Duration {
	least := time.Second
	if v == nil || said {
		return least
	}
	return max(least, noLeaseLimit-now.Sub(v.At))
}

// watch says when nobody coordinates, as far as this lease voter can see.
func (c *peerGroup) watch(ctx context.Context) {
	said, again := false, false
	for {
		pause := untilMissing(c.d.node.voted.Load(), said, c.d.now())
		due := c.d.now().Add(pause)
		if wait.For(ctx, pause) != nil {
			return
		}
		c.d.late(due)
		v := c.d.node.voted.Load()
		now := missing(c.d.name, c.d.state.LeaseVoters(), c.d.fleet.Lease().LeaseVoters(), v, c.d.state.State().Pause != nil,
			c.d.now())
		if now && !said && !again {
			// A daemon that stood still finds that first, and hears of a coordinator then.
			again = true
			continue
		}
		again = false
		switch {
		case now && !said:
			c.d.log.Error("no daemon coordinates: nobody asks for this lease voter's vote", "since", v.At.Format(time.RFC3339),
				"alive", c.alive())
		case !now && said:
			c.d.log.Info("a daemon coordinates again")
		}
		if now != said {
			c.d.nums.noteMissing(now)
		}
		said = now
	}
}

// late takes in that this daemon goes on now, and wanted to at due: see [lease.Vote.Late].
func (d *Daemon) late(due time.Time) { d.node.late(due, d.state.LeaseVoters()) }

// candidate says whether this daemon should try for the lease.
func (c *peerGroup) candidate() bool {
	names, now := c.d.state.LeaseVoters().Names, c.d.now()
	return lease.ShouldCampaign(c.d.name, c.alive(), names, c.d.node.vote(c.d.name, names, now), now)
}

// quiet returns for how long this daemon is no candidate. That ends early when the lease is
// released, which wakes the loop.
func (d *Daemon) quiet() time.Duration { return d.node.voted.Load().Quiet(d.name, d.now()) }

// early returns the lease voters to ask for the lease before an observation: those that this
// node knows, if it is one of them, and the daemons are not paused. The record of a spare is of
// the past: what has ended there would cost those who go on a term each time it campaigned.
func (d *Daemon) early() cluster.LeaseVoters {
	e, s := d.state.LeaseVoters(), d.state.State()
	spare := s.Assigned == nil && s.Prepared == nil
	if spare || !slices.Contains(e.Names, d.name) || s.Pause != nil {
		return cluster.LeaseVoters{}
	}
	return e
}

// directory is the control store as a source of nodes.
type directory struct {
	d *Daemon
	s *store.Store
}

// Nodes returns the records of all nodes. Where a poll takes longer than one may wait
// here, they are those of the last one. The spec and the requests are remembered: a node
// that coordinates only later shall know the spec, and the pause, without the store.
func (d directory) Nodes(ctx context.Context) ([]discovery.Record, error) {
	view, err := d.d.records(ctx, recordsInterval)
	if err != nil {
		var began time.Time
		if view, began = d.d.view.Heard(); d.d.now().Sub(began) > maxRecordsAge {
			return nil, err
		}
	}
	if view.Spec != nil {
		d.d.remember(view.Spec.Over(cluster.Spec{}))
	}
	d.d.rememberPause(cluster.Store{Requests: fleet.Requests(view)})
	var list []discovery.Record
	for _, n := range view.Nodes {
		if d.d.stranger(n) {
			continue
		}
		list = append(list, discovery.Record{Name: n.Name, Address: n.Address, Boot: n.Boot, At: n.At})
	}
	return list, nil
}

// Publish writes this node's record.
func (d directory) Publish(ctx context.Context, r discovery.Record) error {
	return d.s.PutNode(ctx, store.NodeRecord{
		Name: r.Name, Address: r.Address, Boot: r.Boot, At: r.At, Cluster: d.d.c.ClusterName,
	})
}

// stranger reports whether a record in this store is of a node of another cluster, and logs it once.
func (d *Daemon) stranger(n store.NodeRecord) bool {
	if n.Cluster == "" || n.Cluster == d.c.ClusterName {
		return false
	}
	if _, reported := d.strangers.LoadOrStore(n.Name, true); !reported {
		d.log.Error("this store is that of another cluster, too: give each cluster a store of its own with --backup-store",
			"cluster", n.Cluster, "node", n.Name, "address", n.Address, "written", n.At)
	}
	return true
}
