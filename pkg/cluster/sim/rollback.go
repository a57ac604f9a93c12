package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// rollFaults makes many of the faults of a seed faults that put something back to what it
// was: the store, or a disk. Each disk is a loss that nobody can make good, so that there
// are few of them.
func rollFaults(seed uint64, faults []Fault) []Fault {
	r := rand.New(rand.NewPCG(seed, 1<<55))
	disks := r.IntN(4)
	for i := range faults {
		switch r.IntN(8) {
		case 0, 1:
			faults[i].Kind, faults[i].N = StoreBehind, 1+r.IntN(1000)
		case 2:
			if disks--; disks >= 0 {
				faults[i].Kind, faults[i].N = RolledBack, 1+r.IntN(1000)
			}
		}
	}
	return faults
}

// beginsAgain reports whether a member on n that has run, and may have lost its data since,
// would begin as one that has not, with an older image on n's disk.
func (w *world) beginsAgain(n *node, old image) bool {
	return slices.ContainsFunc(w.groups, func(g *group) bool {
		ran := slices.ContainsFunc(g.initialMembers, func(m member) bool { return m.host == n && g.hasRun(m.id) })
		return ran && (old.awaits(g.token) || n.image().awaits(g.token))
	})
}

// forget is what becomes of a restore whose record has gone. While nobody has begun with
// what it restored, what ran before is not at its end.
func (w *world) forget(before []cluster.Incarnation) {
	for _, i := range before {
		if i.Restored == nil || w.recorded(i.Token) {
			continue
		}
		for _, g := range w.groups {
			if g.over == i.Token {
				g.forgotten = true
			}
		}
	}
}

// revive has what ran go on where the restore that was to replace it is forgotten.
func (w *world) revive() {
	for _, g := range w.groups {
		w.reviveGroup(g)
	}
}

// reviveGroup has g go on if the restore that was to replace it is forgotten: no node has
// changed over to it, or a majority serves without those that have, and the restored one has
// let no client in. That one has ended then. The same goes for what was restored in place of
// that one.
func (w *world) reviveGroup(g *group) {
	if !g.forgotten || !g.ended {
		return
	}
	var later []*group
	for token := g.over; token != "" && len(later) <= len(w.groups); {
		if w.recorded(token) || w.remembered(token) || w.changedOver(token) && len(w.leaders(g)) == 0 {
			return
		}
		began := w.group(token)
		if began == nil {
			break
		}
		if w.opened(began) || len(w.leaders(began)) > 0 {
			return
		}
		later, token = append(later, began), began.over
	}
	w.logf("%s goes on: the record of what was to replace it has gone", g.token)
	g.ended, g.forgotten = false, false
	for _, began := range later {
		began.ended = true
	}
}

// overtaken reports whether another incarnation serves, which was bootstrapped while nothing
// heard of g. It never had a majority, so nothing in it was acknowledged.
func (w *world) overtaken(g *group) bool {
	return w.config.RolledBack && g.commit == 0 && slices.ContainsFunc(w.groups, func(o *group) bool {
		return o.commit > 0 && o.base == 0 && !o.ended
	})
}

// remembered reports whether a daemon goes by a record that it has read in a store that does
// not answer now.
func (w *world) remembered(token cluster.Token) bool {
	return slices.ContainsFunc(w.nodes, func(n *node) bool {
		return n.awake() && w.unreadable(n) && n.read != nil &&
			slices.ContainsFunc(n.read.Incarnations, func(i cluster.Incarnation) bool { return i.Token == token })
	})
}

// outdated reports whether one of two nodes has gone back to another record of the lease
// voters, and has the lease by that: with one that names it alone it asks nobody.
func (w *world) outdated(a, b *node) bool {
	return (a.wentBack || b.wentBack) && !slices.Equal(w.claim(a).Names, w.claim(b).Names)
}

// unmeet has a group forget a member on n that loses its disk before any other has run: nobody
// knows of what it wrote. A store that goes back to before the group's record does not have
// that it ran.
func (w *world) unmeet(n *node) {
	for _, g := range w.groups {
		if g.commit == 0 && n.disk.token == g.token && slices.Equal(g.ran, []cluster.MemberID{n.disk.id}) {
			g.ran = nil
		}
	}
}

// cannotBegin reports whether n has promised to begin with restored data that it has lost.
func (w *world) cannotBegin(n *node) bool {
	return n.up && !n.disk.data && n.prepared != nil && n.prepared.Backup != "" && n.restored != n.prepared.Token
}

// opened reports whether clients may have written to a restored incarnation.
func (w *world) opened(g *group) bool {
	return slices.ContainsFunc(w.nodes, func(n *node) bool {
		return n.disk.data && n.disk.token == g.token && n.assigned != nil && !n.assigned.Quarantined
	})
}

// changedOver reports whether a node has given up what it ran for an incarnation.
func (w *world) changedOver(token cluster.Token) bool {
	return slices.ContainsFunc(w.nodes, func(n *node) bool {
		return n.restored == token || n.disk.data && n.disk.token == token ||
			n.prepared != nil && n.prepared.Token == token || n.assigned != nil && n.assigned.Token == token
	})
}

// seesDataOf reports whether a node that answers by has the data of an incarnation, and has
// set data aside since a request was queued. What began on an empty disk does not show when.
func (w *world) seesDataOf(by *node, token cluster.Token, request string) bool {
	return slices.ContainsFunc(w.nodes, func(n *node) bool {
		since := slices.ContainsFunc(n.setAside, func(s cluster.SetAside) bool { return s.At.After(w.queued(request)) })
		return since && w.reaches(by, n) && (n.restored == token || n.disk.data && n.disk.token == token)
	})
}

// queued is when a request in the store was queued.
func (w *world) queued(request string) time.Time {
	for _, r := range w.store.requests {
		if r.Name == request {
			return r.At
		}
	}
	return w.now
}

// unrecorded reports whether a node has changed over to an incarnation that the store has
// no record of, as after the store went back.
func (w *world) unrecorded() bool {
	return w.config.RolledBack && slices.ContainsFunc(w.nodes, func(n *node) bool {
		promised := n.prepared != nil && n.prepared.Backup != "" && !w.recorded(n.prepared.Token)
		return n.up && (promised || n.disk.data && !w.recorded(n.disk.token))
	})
}

// stagedElsewhere reports whether a node has staged an incarnation to which another has changed
// over, or had before it was gone for good, by a record that the store does not have: clients are
// let in to nobody before a person has said which of them goes on.
func (w *world) stagedElsewhere() bool {
	return w.config.RolledBack && slices.ContainsFunc(w.nodes, func(n *node) bool {
		return n.up && n.staged != nil && !w.recorded(n.staged.Token) &&
			(w.changedOver(n.staged.Token) || w.goneWith(n.staged.Token))
	})
}

// goneWith reports whether a machine that is gone for good had changed over to an incarnation.
func (w *world) goneWith(token cluster.Token) bool {
	return slices.ContainsFunc(w.nodes, func(n *node) bool { return n.gone && slices.Contains(n.switched, token) })
}

// coordinatesUnrecorded reports whether who has the lease has it of an incarnation that the store
// has no record of: a node without a record of its own refuses what it orders.
func (w *world) coordinatesUnrecorded() bool {
	return len(w.holders()) > 0 && w.claimUnrecorded()
}

// obeysItself reports whether n has gone back to being the only lease voter, while others are:
// what they order it refuses, as it knows of none of them.
func (w *world) obeysItself(n *node) bool {
	own := n.leaseVoters()
	return n.up && n.wentBack && slices.Equal(own.Names, []cluster.NodeName{n.name}) && !w.holds(n) &&
		len(w.holders()) > 0 && !slices.Contains(w.claim(w.holders()[0]).Names, n.name)
}

// claimUnrecorded reports the same of who would ask for the lease, where nobody has it.
func (w *world) claimUnrecorded() bool {
	c := w.claim(w.coordinator())
	return w.config.RolledBack && len(c.Names) > 0 && !w.recorded(c.Token)
}

// stopForGood stops members by hand whose etcd will never run again, where a hold names them
// and asks for that. It reports whether there were any.
func (w *world) stopForGood(holds []plan.Hold) bool {
	stopped := false
	for _, h := range holds {
		_, text, found := strings.Cut(h.Text, "lets no client in, but ")
		named, _, _ := strings.Cut(text, " may let clients in")
		for name := range strings.SplitSeq(named, ", ") {
			n := w.node(cluster.NodeName(name))
			if !found || n == nil || !n.usable() || n.assigned == nil || n.process == cluster.ProcessRunning {
				continue
			}
			obs := w.observe(n)
			seen := obs.Nodes[slices.IndexFunc(obs.Nodes, func(o cluster.Node) bool { return o.Name == n.name })]
			op := &plan.MemberStop{
				Node: n.name, ExpectToken: cmp.Or(seen.Disk.Token, n.assigned.Token), ExpectMemberID: seen.Disk.MemberID,
			}
			if err := plan.Check(w.spec, obs, op); err != nil {
				w.violate("stuck", "what this hold asks for is refused: %v: %v", err, h)
				return false
			}
			w.logf("the operator stops the member on %s", n.name)
			a := *n.assigned
			a.Stopped = true
			n.assigned, n.process, stopped = &a, cluster.ProcessStopped, true
		}
	}
	return stopped
}
