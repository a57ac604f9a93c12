package sim

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// start starts n's member. A daemon holds the operation to what is on its own
// disk; one that trusts does as it is ordered, and so does etcd.
func (w *world) start(n *node, op *plan.MemberStart, leaseVoters cluster.LeaseVoters) error {
	if n.disk.data && (n.disk.token != op.Token || n.assigned == nil) || n.assigned != nil &&
		n.assigned.Token != op.Token {
		return errRefuse
	}
	if !n.disk.data && !w.config.Trusting && !n.mayBegin(op) {
		return errRefuse
	}
	if n.disk.data && !w.config.Trusting && n.assigned != nil && n.assigned.Version != op.Version {
		return errRefuse
	}
	var fresh disk
	if !n.disk.data {
		var ok bool
		if fresh, ok = w.firstData(n, op); !ok {
			return errRefuse
		}
	}
	if err := n.joinLeaseVoters(op, leaseVoters); err != nil {
		return err
	}
	restored := n.prepared != nil && n.prepared.Backup != "" && op.Mode == plan.StartNew && !n.disk.data
	n.assign(op)
	if restored {
		n.assigned.Quarantined, n.restored = true, ""
	}
	if !n.disk.data {
		n.disk = fresh
		n.disk.joining = op.Mode == plan.StartJoin
		g := w.group(op.Token)
		if !g.hasRun(fresh.id) {
			g.ran = append(g.ran, fresh.id)
		}
	}
	if op.Mode != plan.StartNew {
		n.prepared = nil
	}
	w.boot(n)
	if n.disk.corrupt || n.disk.behind {
		n.process = cluster.ProcessCrashing
	}
	return nil
}

// halfStart is a start that is cut off after the assignment was written.
func (w *world) halfStart(n *node, op *plan.MemberStart, leaseVoters cluster.LeaseVoters) {
	if n.disk.data || n.assigned != nil || !n.mayBegin(op) || n.joinLeaseVoters(op, leaseVoters) != nil {
		return
	}
	n.assign(op)
	if op.Mode != plan.StartNew {
		n.prepared = nil
	}
}

func (n *node) assign(op *plan.MemberStart) {
	a := cluster.Assigned{Token: op.Token, Version: op.Version}
	if n.assigned != nil {
		a.Quarantined = n.assigned.Quarantined
	}
	n.assigned = &a
}

// joinLeaseVoters has n take the record of who gives the order.
func (n *node) joinLeaseVoters(op *plan.MemberStart, record cluster.LeaseVoters) error {
	if op.Mode == plan.StartNew || record.Token != op.Token || len(record.Names) == 0 {
		return nil
	}
	d, err := n.grantor.Durable.Join(n.name, record)
	if err == nil {
		n.grantor.Durable = d
	}
	return err
}

// mayBegin reports whether n may start op on an empty disk.
func (n *node) mayBegin(op *plan.MemberStart) bool {
	switch op.Mode {
	case plan.StartNew:
		return n.prepared != nil && n.prepared.Token == op.Token && (n.prepared.Backup == "" || n.restored == op.Token)
	case plan.StartJoin:
		return n.assigned == nil
	}
	return false
}

// firstData is what etcd writes when it starts on an empty disk. It starts
// whatever it is ordered to: that a voter which has run before does so is the
// worst that can happen.
func (w *world) firstData(n *node, op *plan.MemberStart) (disk, bool) {
	g := w.group(op.Token)
	if g == nil {
		if op.Mode != plan.StartNew {
			return disk{}, false
		}
		g = w.bootstrap(op)
	}
	m := g.memberOn(n)
	if op.Mode == plan.StartNew && m == nil {
		i := slices.IndexFunc(g.initialMembers, func(f member) bool { return f.host == n })
		if i < 0 {
			return disk{}, false
		}
		// It does no harm, since nobody lets it vote. But a leader could have known.
		// Only who gave an order that comes late could not.
		if !w.arriving && g.leader != 0 && w.hearsOf(g, n) {
			w.violate("void-place", "%s starts as an initial member after its place was taken away", n.name)
		}
		m = &g.initialMembers[i]
	}
	if m == nil {
		return disk{}, false
	}
	if g.hasRun(m.id) {
		if m.learner {
			return disk{}, false // "tocommit is out of range"
		}
		w.violate("fresh-disk", "voter %s (%s) starts on a disk that has lost its data", n.name, m.id)
	}
	d := disk{data: true, token: op.Token, id: m.id, members: g.members}
	if leader := g.find(g.leader); leader != nil {
		live := leader.host.disk.content
		live.snapshot()
		d.v2content = live.v2content // the snapshot that it sends has what is there now
	}
	if g.from != nil && g.from.storage.AtLeast(3, 6) {
		d.storage = g.from.storage
	}
	return d, true
}

func (g *group) memberOn(n *node) *member {
	for i := range g.members {
		if g.members[i].host == n {
			return &g.members[i]
		}
	}
	return nil
}

// bootstrap makes the group of a new incarnation. One that is started after a restore
// of a later one was decided has come to its end before.
func (w *world) bootstrap(op *plan.MemberStart) *group {
	g := &group{token: op.Token}
	for _, s := range slices.Concat(w.apart, []*store{w.shared}) {
		recorded, ended := false, false
		for _, i := range s.incarnations {
			recorded = recorded || i.Token == op.Token
			ended = i.Token != op.Token && (ended || recorded && i.Restored != nil)
			if i.Token == op.Token && i.Restored != nil {
				g.base = i.Restored.Revision
				g.from = s.snapshotOf(i.Restored.Backup)
			}
		}
		g.ended = g.ended || ended
	}
	for _, s := range op.Peers {
		if host := w.node(s.Name); host != nil {
			g.members = append(g.members, member{id: w.nextMember, name: s.Name, host: host, healthy: w.now})
			w.nextMember++
		}
	}
	g.initialMembers = slices.Clone(g.members)
	w.groups = append(w.groups, g)
	return g
}
