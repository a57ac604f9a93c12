package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// The network between the nodes. A partition has two sides. Apart from it there
// are pairs of nodes of which one does not get through to the other: a rule of a
// firewall, a route that is missing.
const (
	// OneWay stops the calls of a node to some others: its questions, its orders,
	// its requests for the lease. Theirs arrive, and etcd's members, of which each
	// dials the other, go on.
	OneWay FaultKind = "one-way partition"
	// CutOff stops all that is between a node and some others, who reach each other.
	CutOff FaultKind = "pairs cut off"
	// MessagesLate has messages of the lease come late.
	MessagesLate FaultKind = "messages late"
	// MessagesLost has a third of the messages of the lease get lost.
	MessagesLost FaultKind = "messages lost"
	// AllRestart ends all daemons, or all machines, at once.
	AllRestart FaultKind = "all restart"
)

var netKinds = []FaultKind{OneWay, OneWay, OneWay, CutOff, CutOff, MessagesLate, MessagesLate, MessagesLost, AllRestart}

// A network says which messages get through.
type network struct {
	// calls and links are, by the index of a node, a mask of the nodes that its
	// calls do not reach, and of those whose members it does not reach.
	calls, links [8]uint8
	// since is when a node was cut off from another last, healed when that ended.
	since, healed [8][8]time.Time
	to            int // the step at which the pairs are well again
	// ports is a mask of the nodes whose peer ports are closed to a node, up to a step.
	ports         [8]uint8
	portsTo       int
	lateTo, lossy int // the steps up to which messages are late, and get lost
	rand          *rand.Rand
	late          []lateRequest
}

// A lateRequest is one of the lease's that arrives after who sent it has given up.
type lateRequest struct {
	to  *node
	req lease.Request
	due time.Time
}

// otherFaults makes some of the faults of a third of the seeds faults of the kinds
// given. It draws from numbers of its own, so that the other histories stay what
// they were.
func otherFaults(seed, stream uint64, faults []Fault, kinds []FaultKind) []Fault {
	r := rand.New(rand.NewPCG(seed, stream))
	if r.IntN(3) != 0 {
		return faults
	}
	for i := range faults {
		if r.IntN(5) == 0 {
			faults[i].Kind = kinds[r.IntN(len(kinds))]
		}
	}
	return faults
}

func (n *node) index() int { return slices.Index(names, n.name) }

// reaches reports whether a call of a to b is answered.
func (w *world) reaches(a, b *node) bool {
	return a.awake() && b.awake() && a.side == b.side && (a == b || w.network.calls[a.index()]>>b.index()&1 == 0)
}

// linked reports whether the members on a and b reach each other.
func (w *world) linked(a, b *node) bool {
	return w.opens(a, b) || w.opens(b, a)
}

// serves reports whether by reaches a member of g that follows its leader.
func (w *world) serves(g *group, by *node) bool {
	for i := range g.members {
		if m := &g.members[i]; w.follows(g, m) && w.reaches(by, m.host) {
			return true
		}
	}
	return false
}

func (w *world) injectNetwork(n *node, f Fault) {
	net := &w.network
	switch f.Kind {
	case PortClosed:
		w.closePorts(n, f)
	case MessagesLate:
		net.lateTo = w.step + f.N
	case MessagesLost:
		net.lossy = w.step + f.N
	case AllRestart:
		for _, n := range w.nodes {
			if f.N%2 == 0 && n.up {
				n.runDaemon(w)
			} else if n.up {
				n.shutdown()
				n.until = w.step + f.N%5
			}
		}
		w.lastActor = nil
	case OneWay, CutOff:
		net.to = max(net.to, w.step+2*f.N)
		for i := range w.nodes {
			if o := w.nodes[i]; o != n && f.N>>(i%5)&1 == 1 {
				w.cut(n, o, f.Kind == CutOff)
			}
		}
	}
}

func (w *world) cut(a, b *node, both bool) {
	net, i, j := &w.network, a.index(), b.index()
	stop := func(i, j int) {
		if net.calls[i]>>j&1 == 0 { // otherwise it has been so for longer
			net.calls[i] |= 1 << j
			net.since[i][j] = w.now
		}
	}
	stop(i, j)
	if both {
		stop(j, i)
		net.links[i] |= 1 << j
		net.links[j] |= 1 << i
	}
}

// healNetwork ends what has lasted long enough.
func (w *world) healNetwork() {
	if net := &w.network; w.quiet || w.step >= net.to {
		for i := range net.calls {
			for j := range net.healed[i] {
				if net.calls[i]>>j&1 == 1 {
					net.healed[i][j] = w.now
				}
			}
		}
		net.calls, net.links = [8]uint8{}, [8]uint8{}
	}
	if net := &w.network; w.quiet || w.step >= net.portsTo {
		net.ports = [8]uint8{}
	}
}

// unreachableFor is how long calls of by to n have not got through, zero where they do.
// They do not count as having done so where n was well for so short a time after it that
// nobody may have seen it.
func (w *world) unreachableFor(by, n *node, well time.Time) time.Duration {
	since, healed := w.network.since[by.index()][n.index()], w.network.healed[by.index()][n.index()]
	unseen := !healed.IsZero() && well.Sub(healed) < observeInterval
	if w.reaches(by, n) && !unseen || since.IsZero() {
		return 0
	}
	return w.now.Sub(since)
}

func (w *world) dice() *rand.Rand {
	if w.network.rand == nil {
		w.network.rand = rand.New(rand.NewPCG(w.seed, 1<<61))
	}
	return w.network.rand
}

// lost reports whether a message gets lost. It draws from a source of its own, so
// that the rest of the step does not depend on how many there are.
func (w *world) lost() bool {
	if w.quiet {
		return false
	}
	if w.step < w.network.lossy {
		return w.dice().IntN(3) == 0
	}
	return w.dice().IntN(50) == 0
}

// delay reports whether a request of the lease arrives late, and keeps it.
func (w *world) delay(to *node, req lease.Request) bool {
	if w.quiet || w.step >= w.network.lateTo || w.dice().IntN(3) != 0 {
		return false
	}
	due := w.now.Add(time.Duration(w.dice().IntN(20_000)) * time.Millisecond)
	w.network.late = append(w.network.late, lateRequest{to: to, req: req, due: due})
	return true
}

// deliver has the late requests arrive that are due. Nobody waits for the answers.
func (w *world) deliver() {
	w.network.late = slices.DeleteFunc(w.network.late, func(l lateRequest) bool {
		if l.due.After(w.now) {
			return false
		}
		if l.to.usable() {
			w.logf("late: %s asks %s for term %d", l.req.Holder, l.to.name, l.req.Term)
			w.decide(l.to, l.req)
		}
		return true
	})
}

// follows reports whether m follows the leader of g, or is it.
func (w *world) follows(g *group, m *member) bool {
	if g.leader == 0 || !g.commits(m) {
		return false
	}
	leader := g.find(g.leader)
	return leader != nil && g.commits(leader) && w.linked(m.host, leader.host)
}

// follows reports whether the member on n follows the leader of g.
func (w *world) reports(g *group, n *node) bool {
	m := g.memberOn(n)
	return m != nil && w.follows(g, m)
}

// hearsOf reports whether a process on n that is no member hears of the leader of g.
func (w *world) hearsOf(g *group, n *node) bool {
	leader := g.find(g.leader)
	return leader != nil && n.awake() && leader.host.awake() && w.linked(n, leader.host)
}

// mayLead reports whether m can lead g: a majority of the voters is linked to it
// and knows no more than it does.
func (w *world) mayLead(g *group, m *member) bool {
	if m.learner || !g.commits(m) {
		return false
	}
	votes := 0
	for i := range g.members {
		o := &g.members[i]
		if !o.learner && g.commits(o) && w.linked(m.host, o.host) && o.host.disk.index <= m.host.disk.index {
			votes++
		}
	}
	return votes >= cluster.Quorum(g.voters())
}
