package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// PortClosed closes the peer ports of some nodes to a node: its member opens no
// connections to theirs, and its daemon's tries fail. Where theirs get through to it, etcd's
// messages go on, both ways. Half of the time they do not, and the messages end.
const PortClosed FaultKind = "peer ports closed"

// bothWays is the bit of a fault that closes the node's own port to the others, too.
const bothWays = 32

// portFaults makes a third of the faults of a seed such ones.
func portFaults(seed uint64, faults []Fault) []Fault {
	r := rand.New(rand.NewPCG(seed, 1<<56))
	for i := range faults {
		if r.IntN(3) == 0 {
			faults[i].Kind, faults[i].N = PortClosed, 1+r.IntN(2*bothWays-1)
		}
	}
	return faults
}

// A port is what a daemon knows of another member's peer port.
type port struct {
	up     time.Time // when a try last succeeded, or when the member was first heard of
	tried  bool
	broken bool
}

func (w *world) closePorts(n *node, f Fault) {
	w.network.portsTo = max(w.network.portsTo, w.step+f.N)
	for i, o := range w.nodes {
		if o == n || f.N>>(i%5)&1 == 0 {
			continue
		}
		w.network.ports[n.index()] |= 1 << o.index()
		if f.N&bothWays != 0 {
			w.network.ports[o.index()] |= 1 << n.index()
		}
	}
}

// opens reports whether a connection from a to the peer port of b comes about, if
// somebody listens there.
func (w *world) opens(a, b *node) bool {
	net, i, j := &w.network, a.index(), b.index()
	return a == b || a.side == b.side && (net.links[i]|net.ports[i])>>j&1 == 0
}

// tryPorts is what the daemon on n does about the peer ports of the members that its own
// one lists: it tries each as soon as it has heard of it.
func (w *world) tryPorts(n *node) {
	if !n.awake() {
		return
	}
	known := map[cluster.MemberID]port{}
	for _, m := range w.listed(n) {
		p, heard := n.ports[m.id]
		switch {
		case !heard:
			p.up = w.now
		case w.opens(n, m.host) && m.host.awake() && m.host.process == cluster.ProcessRunning && !m.host.etcd.stalls:
			p = port{up: w.now, tried: true}
		default:
			p.tried, p.broken = true, true
		}
		known[m.id] = p
	}
	n.ports = known
}

// listed are the members that have started, and the learners, but its own, as the member on n lists them; a
// learner lists none.
func (w *world) listed(n *node) []member {
	r := w.report(n)
	if r == nil || r.Learner {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(n.disk.members), func(m member) bool {
		return m.id == r.ID || m.name == "" && !m.learner
	})
}

// links is what the daemon on n reports of the peer ports.
func (w *world) links(n *node) (list []cluster.Link) {
	if !w.config.Ports {
		return nil
	}
	for _, m := range w.listed(n) {
		p := n.ports[m.id]
		link := cluster.Link{Member: m.id, Tried: p.tried}
		if p.broken {
			link.Why, link.Down = "connection refused", max(w.now.Sub(p.up), 1)
		}
		list = append(list, link)
	}
	return list
}
