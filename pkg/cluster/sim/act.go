package sim

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// An outcome is what came of one daemon's acting.
type outcome struct {
	op    plan.Operation
	holds []plan.Hold
	acted bool
}

// actAll lets each daemon act that has the lease, or should try for it, one after the
// other: who comes later knows what its node has granted meanwhile. Who does neither
// forgets what it has seen. It returns the outcome that says most: what was done,
// or else what a coordinator says.
func (w *world) actAll() outcome {
	w.holders() // there is one at most
	best, most := outcome{holds: []plan.Hold{{Reason: plan.NoCoordinator, Text: "nobody asks for the lease"}}}, 0
	for _, n := range w.order() {
		if !n.awake() {
			continue
		}
		if !w.holds(n) && !w.campaigns(n) {
			n.memory = nil
			continue
		}
		if t := w.act(n); t.reports() > most {
			best, most = t, t.reports()
		}
	}
	if w.quiet && !slices.ContainsFunc(w.nodes, (*node).usable) { // every node is gone forever
		return w.act(w.nodes[0])
	}
	return best
}

// led reports whether the daemon might act.
func (o outcome) led() bool {
	return !slices.ContainsFunc(o.holds, func(h plan.Hold) bool { return h.Reason == plan.NoCoordinator })
}

func (o outcome) reports() int {
	switch {
	case o.acted && !upkeep(o.op):
		return 4
	case o.acted:
		return 3
	case o.led():
		return 2
	}
	return 1
}

// order returns the nodes in the order in which they come to ask for the lease: by
// name, as those that wait for others wait less where their names are lower, unless one
// is late.
func (w *world) order() []*node {
	list := slices.Clone(w.nodes)
	if !w.quiet && !slices.ContainsFunc(list, func(n *node) bool { return n.awake() && w.holds(n) }) && w.chance(10) {
		i := w.rand.IntN(len(list))
		list = slices.Insert(slices.Delete(list, i, i+1), 0, w.nodes[i])
	}
	return list
}

// campaigns reports whether the daemon on n should try for the lease. One whose disk
// hangs does not, whatever else it knows.
func (w *world) campaigns(n *node) bool {
	if !n.usable() {
		return false
	}
	now, record := n.mono(w.now), n.leaseVoters().Names
	n.vote = n.vote.Since(now, n.name, record)
	return lease.ShouldCampaign(n.name, w.alive(n), record, n.vote, now)
}

// waitsForHung reports whether nobody asks for the lease because the lowest node that
// lives has a disk that hangs. Before there are lease voters, nothing shows that to the others,
// and there is no vote since which they wait.
func (w *world) waitsForHung() bool {
	return !slices.ContainsFunc(w.nodes, func(n *node) bool {
		return n.usable() && (n.vote != nil || w.campaigns(n) || !w.node(w.alive(n)[0]).hangs())
	})
}

// alive returns the nodes that n takes for alive: gossip asks through others where
// it gets no answer itself.
func (w *world) alive(n *node) []cluster.NodeName {
	found := []*node{n}
	for i := 0; i < len(found); i++ {
		for _, o := range w.nodes {
			if w.reaches(found[i], o) && !slices.Contains(found, o) {
				found = append(found, o)
			}
		}
	}
	list := make([]cluster.NodeName, len(found))
	for i, o := range found {
		list[i] = o.name
	}
	slices.Sort(list)
	return list
}

// coordinator returns the node that has the lease, or else one that can ask for it.
func (w *world) coordinator() *node {
	if held := w.holders(); len(held) > 0 {
		return held[0]
	}
	if i := slices.IndexFunc(w.nodes, (*node).usable); i >= 0 {
		return w.nodes[i]
	}
	return w.nodes[0]
}

// heldByAnother reports whether a lease voter shows that another has the lease: by
// then neither acts nor says anything.
func (w *world) heldByAnother(by *node, obs *cluster.Observation) bool {
	return slices.ContainsFunc(obs.LeaseVoters.Names, func(name cluster.NodeName) bool {
		n := w.node(name)
		if n == nil || !w.reaches(by, n) {
			return false
		}
		s := n.grantor.Standing(n.mono(w.now))
		return s.Holder != "" && s.Holder != by.name && s.Remaining > 0
	})
}

// decide has the grantor on n answer a request, and notes the vote.
func (w *world) decide(n *node, req lease.Request) lease.Reply {
	now := n.mono(w.now)
	var reply lease.Reply
	n.grantor, reply = n.grantor.Decide(now, req)
	n.vote = n.vote.After(now, n.name, req, reply.Granted)
	return reply
}
