package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A group is the raft group of one incarnation. There is one member list, the
// committed one; members that are cut off remember an older one on their disks.
type group struct {
	token   cluster.Token
	members []member // copied when changed
	commit  uint64   // acknowledged to clients
	// base is the revision that it was restored with, zero where it was not.
	base   cluster.Revision
	leader cluster.MemberID
	// ended says that another incarnation was restored in its place. It may run
	// on where nobody can reach it.
	ended bool
	// over is the incarnation that has ended it, forgotten that the store has gone back to
	// before that.
	over      cluster.Token
	forgotten bool
	// initialMembers are the members that the first start made, by name.
	initialMembers []member
	// ran are the members that have ever written to a disk.
	ran []cluster.MemberID
	// version is the cluster version, downgrade the one to which etcd lets the cluster be
	// downgraded, zero for none.
	version, downgrade etcdversion.Version
	// acked is the last write that a client has an answer to, sealed what it was restored from by
	// a sealed request, from what the members had to begin with.
	acked        uint64
	sealed, from *snapshot
}

// A member is an entry of the member list.
type member struct {
	id      cluster.MemberID
	name    cluster.NodeName // empty until it has started
	host    *node            // by its peer URL
	learner bool
	client  bool      // has published its client URLs
	healthy time.Time // when it was last well
	// since is when the last time in which it was well began, before when the one
	// before that ended, seen the last step in which it was well.
	since, before time.Time
	seen          int
}

func (w *world) group(token cluster.Token) *group {
	for _, g := range w.groups {
		if g.token == token {
			return g
		}
	}
	return nil
}

func (g *group) find(id cluster.MemberID) *member {
	for i := range g.members {
		if g.members[i].id == id {
			return &g.members[i]
		}
	}
	return nil
}

func (g *group) hasRun(id cluster.MemberID) bool { return slices.Contains(g.ran, id) }

func (g *group) voters() int {
	count := 0
	for _, m := range g.members {
		if !m.learner {
			count++
		}
	}
	return count
}

// runs reports whether m's process runs on m's own data.
func (g *group) runs(m *member) bool {
	n := m.host
	return n.awake() && n.process == cluster.ProcessRunning && n.disk.data && !n.disk.corrupt && !n.disk.behind &&
		n.disk.token == g.token && n.disk.id == m.id
}

// leaders returns the members of g that can lead it.
func (w *world) leaders(g *group) []*member {
	var list []*member
	for i := range g.members {
		if m := &g.members[i]; w.mayLead(g, m) {
			list = append(list, m)
		}
	}
	return list
}

// tick lets a moment pass in every group.
func (w *world) tick() {
	quorate := 0
	w.revive()
	for _, g := range w.groups {
		if w.tickGroup(g) && !g.ended {
			quorate++
		}
	}
	if quorate > 1 {
		w.violate("two-clusters", "%d incarnations have a quorum at once", quorate)
	}
	w.stage()
	for _, n := range w.nodes {
		w.tickNode(n)
	}
	if w.config.Ports {
		for _, n := range w.nodes {
			w.tryPorts(n)
		}
	}
}

// tickNode is what a daemon does by itself: it starts its own member on its
// own data.
func (w *world) tickNode(n *node) {
	if !n.usable() {
		return
	}
	if n.disk.data && n.process == cluster.ProcessRunning {
		n.disk.known = true
		if g := w.group(n.disk.token); g != nil {
			n.mark = ahead(n.mark, g.base+cluster.Revision(n.disk.index))
		}
		if n.assigned != nil {
			n.prepared = nil
		}
	}
	if n.assigned == nil || n.assigned.Stopped || !n.disk.data || n.disk.token != n.assigned.Token {
		if n.process == cluster.ProcessCrashing && !n.disk.data {
			n.process = cluster.ProcessStopped
		}
		return
	}
	switch g := w.group(n.disk.token); {
	case n.disk.corrupt, n.disk.behind:
		n.process = cluster.ProcessCrashing
	case g.find(n.disk.id) == nil && g.leader != 0 && w.hearsOf(g, n):
		n.process = cluster.ProcessCrashing // "the member has been permanently removed"
	default:
		w.boot(n)
	}
	w.settleChange(n)
}

// tickGroup elects, writes and replicates. It reports whether the group has a
// quorum.
func (w *world) tickGroup(g *group) bool {
	able := w.leaders(g)
	if len(able) == 0 {
		g.leader = 0
		return false
	}
	var best *member
	for _, m := range able {
		if m.id == g.leader {
			best = m
		}
	}
	for _, m := range able {
		if best == nil || best.id != g.leader && m.host.disk.index > best.host.disk.index {
			best = m
		}
	}
	if best.host.disk.index < g.commit {
		w.violate("data-lost", "incarnation %s has a quorum that knows %d of %d acknowledged writes", g.token,
			best.host.disk.index, g.commit)
	}
	g.leader = best.id
	g.commit += 1 + uint64(w.rand.IntN(8))
	w.replicate(g)
	if w.config.Versions {
		w.monitor(g)
	}
	if w.config.Sealed {
		w.acknowledge(g)
	}
	return true
}

// replicate brings the members that follow the leader up to date.
func (w *world) replicate(g *group) {
	changed := false
	for i := range g.members {
		m := &g.members[i]
		changed = changed || w.follows(g, m) && (!m.client || m.name == "")
	}
	if changed {
		g.members = slices.Clone(g.members)
	}
	for i := range g.members {
		m := &g.members[i]
		if !w.follows(g, m) {
			continue
		}
		if changed {
			m.name, m.client = m.host.name, true
		}
		d := &m.host.disk
		if !m.learner || d.index+20 > g.commit {
			d.index = g.commit
		} else if !m.host.slow {
			d.index += (g.commit-d.index)/2 + 1
		}
		w.written[m.id] = d.index
		m.well(w)
		d.members = g.members
		if w.config.Versions {
			w.follow(g, m)
		}
	}
	if changed {
		sortMembers(g.members)
	}
}

// well notes that m is well in this step.
func (m *member) well(w *world) {
	if m.seen < w.step-1 {
		m.since, m.before = w.now, m.healthy
	}
	m.healthy, m.seen = w.now, w.step
}

// lastWell is when m was last well for longer than a moment: what passes before
// anybody has observed is no reason to count again.
func (m *member) lastWell() time.Time {
	if m.since.Equal(m.healthy) && !m.before.IsZero() {
		return m.before
	}
	return m.healthy
}

func sortMembers(list []member) {
	slices.SortFunc(list, func(a, b member) int {
		if c := strings.Compare(string(a.name), string(b.name)); c != 0 {
			return c
		}
		return int(a.id) - int(b.id)
	})
}
