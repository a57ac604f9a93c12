package daemon

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/discovery"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// hostsInterval is how often the hosts file is compared with what is known: it is the
// container's own, and new with each container.
const hostsInterval = 500 * time.Millisecond

// addressTimeout is how long a cloud may take to say where machines are before the member starts.
const addressTimeout = 2 * time.Second

// A hostsFile is the node's own hosts file. Members find each other by its names, so
// nobody else is needed to write it: neither a lease, nor the answer of another
// daemon.
type hostsFile struct {
	d *Daemon
	// mu is held while it is written: by its own goroutine, and before a member starts.
	mu      sync.Mutex
	failing string
	// first is where machines are by flags and cloud, asked before the member starts.
	first []cluster.NodeAddress
}

// ask asks where the other machines are, where the disk does not know: what it remembers was
// written on another machine, or by the existing tool, which remembers nothing. A member that
// cannot resolve its peers' names when it starts tries again five seconds later.
func (h *hostsFile) ask(ctx context.Context) {
	d, s := h.d, h.d.state.State()
	own := cluster.HostEntry{Address: d.c.Address, Name: d.c.host(d.name)}
	if d.c.HostsFile == "" || s.Assigned == nil || slices.Contains(s.Hosts, own) {
		return
	}
	seeds, err := discovery.ParseSeeds(d.c.Seeds, d.c.GRPCPort)
	if err == nil && d.c.Lookup != nil {
		ctx, cancel := context.WithTimeout(ctx, addressTimeout)
		defer cancel()
		var machines []discovery.Seed
		machines, err = d.c.Lookup(ctx)
		seeds = append(machines, seeds...)
	}
	if err != nil {
		d.log.Warn("the member starts before its peers' addresses are known", "error", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, seed := range seeds {
		if seed.Name != "" {
			h.first = append(h.first, cluster.NodeAddress{Node: seed.Name, Address: seed.Address})
		}
	}
}

// write makes the file say what is known now. What it says is remembered on the
// data volume: the next container begins with it.
func (h *hostsFile) write(ctx context.Context) {
	d := h.d
	if d.c.HostsFile == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := d.state.State()
	entries := h.known(s).Entries()
	_, err := hostfs.WriteHosts(ctx, d.c.HostsFile, hostfs.HostsKey(d.c.ClusterName), entries)
	if err == nil && !slices.Equal(entries, s.Hosts) {
		err = d.state.Update(nodestate.Found(entries))
	}
	switch {
	case err == nil && h.failing != "":
		h.failing = ""
		d.log.Info("the hosts file can be written again", "file", d.c.HostsFile)
	case err != nil && ctx.Err() == nil && err.Error() != h.failing:
		h.failing = err.Error()
		d.log.Error("the hosts file cannot be written; members do not find each other by name", "file", d.c.HostsFile,
			"error", err)
	}
}

// known is what the file is written from. Live nodes have proved who and where they
// are; the cloud knows better where a machine is than who heard of it last.
func (h *hostsFile) known(s nodestate.State) cluster.Hosts {
	d := h.d
	known := cluster.Hosts{
		Suffix: d.c.DNSSuffix, Before: s.Hosts, Keep: s.LeaseVoters.Names,
		Members: slices.Concat(s.Voters, s.Peers),
	}
	alive := []cluster.NodeAddress{{Node: d.name, Address: d.c.Address}}
	var machines, gone, others []cluster.NodeAddress
	if g := d.peerGroup; g != nil {
		for _, p := range g.known() {
			w := cluster.NodeAddress{Node: p.Name, Address: p.Address}
			if p.Alive {
				alive = append(alive, w)
			} else {
				gone = append(gone, w)
			}
		}
		machines, others = g.finder.Known()
	}
	if len(machines) == 0 { // nobody has been asked since
		machines = h.first
	}
	known.Sources = [][]cluster.NodeAddress{alive, machines, gone, others}
	return known
}

// run keeps the file right until ctx ends.
func (h *hostsFile) run(ctx context.Context) {
	if h.d.c.HostsFile == "" {
		return
	}
	for range wait.Every(ctx, hostsInterval) {
		h.write(ctx)
	}
}
