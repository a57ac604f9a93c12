package sim

import (
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// justify asks whether the holds at the end of a quiet time are true in the
// world, and whether they are the ones to be expected.
func (w *world) justify(holds []plan.Hold) {
	if w.config.Sealed {
		w.justifyClosed(holds)
	}
	says := func(reasons ...plan.Reason) bool {
		return slices.ContainsFunc(holds, func(h plan.Hold) bool { return slices.Contains(reasons, h.Reason) })
	}
	usable := 0
	for _, n := range w.nodes {
		if n.usable() {
			usable++
		}
	}
	g := w.latest()
	switch {
	case usable == 0:
	case w.waitsForHung():
		if g != nil && g.leader != 0 || !says(plan.NoCoordinator) {
			w.violate("stuck", "all wait for a node whose disk hangs, but it says %v", holds)
		}
	case w.coordinatorImpossible():
		if g != nil && g.leader != 0 {
			w.violate("stuck", "etcd serves, nobody can coordinate it, and what an operator can do does not help: %v", holds)
		} else if !says(plan.NoCoordinator) && !(w.unrecorded() && says(plan.QuorumLost, plan.ClusterLost)) &&
			!(w.config.RolledBack && w.store.created.IsZero() && says(plan.Bootstrap)) &&
			!(w.dataLost() && says(plan.ClusterLost)) {
			w.violate("stuck", "no majority of lease voters can be had, but it says %v", holds)
		}
	case g == nil:
		w.justifyNotBootstrapped(usable, says, holds)
	case w.startable(g) < cluster.Quorum(g.voters()):
		if !says(plan.QuorumLost, plan.Bootstrap, plan.Restoring, plan.ClusterLost, plan.WaitingForNodes, plan.NoCoordinator,
			plan.DiskHung) && !(w.store.specMissing && says(plan.SpecMissing)) {
			w.violate("stuck", "the quorum is lost, but it says %v", holds)
		}
	case slices.ContainsFunc(holds, func(h plan.Hold) bool { return w.versionHeld(h.Reason) }):
	case usable < w.spec.MemberCount:
		if !says(plan.NoSpare) {
			w.violate("stuck", "there are %d nodes for %d members, but it says %v", usable, w.spec.MemberCount, holds)
		}
	case says(plan.StoreNotShared) && w.unrecorded():
	case says(plan.OperationFailed) && slices.ContainsFunc(w.nodes, w.obeysItself):
	case usable < len(w.nodes) && says(plan.Restoring):
		// Who is gone may serve clients of what was restored from: nobody knows.
	default:
		w.violate("stuck", "%d nodes can run %d members, but it says %v", usable, w.spec.MemberCount, holds)
	}
}

// operatorHelps does what a hold asks a person to do, once. It reports whether
// there was anything.
func (w *world) operatorHelps(holds []plan.Hold) bool {
	if w.helpWithVersions(holds) || w.turnOff(holds) || w.stopForGood(holds) {
		return true
	}
	asks := slices.ContainsFunc(holds, func(h plan.Hold) bool {
		return h.Reason == plan.LeaseVotersLost || h.Reason == plan.TakingOver
	})
	if !asks || w.helped {
		return false
	}
	r := cluster.Request{Name: "help", Kind: cluster.RequestLeaseVoters, At: w.now}
	for _, n := range w.nodes {
		if !n.up {
			r.Lost = append(r.Lost, n.name)
		}
	}
	w.helped = true
	w.store.requests = append(slices.Clone(w.store.requests), r)
	w.logf("the operator recovers the lease voters without %v", r.Lost)
	return true
}

// turnOff turns off the machines whose disks hang forever, where a hold asks for that: what
// they have granted is forgotten only with them.
func (w *world) turnOff(holds []plan.Hold) bool {
	asks := slices.ContainsFunc(holds, func(h plan.Hold) bool {
		return h.Reason == plan.LeaseVotersLost && strings.Contains(h.Text, "turn it off if its disk is gone for good")
	})
	off := false
	for _, n := range w.nodes {
		if asks && n.up && n.hangs() && n.hungTo == hungForever {
			n.shutdown()
			n.gone, off = true, true
			w.logf("the operator turns %s off", n.name)
		}
	}
	return off
}

// latest returns the group that is, or would be, the cluster.
func (w *world) latest() *group {
	for _, g := range w.groups {
		if g.leader != 0 && !g.ended {
			return g
		}
	}
	if n := len(w.store.incarnations); n > 0 {
		if g := w.group(w.store.incarnations[n-1].Token); g != nil {
			return g
		}
	} else if len(w.groups) > 0 {
		return w.groups[len(w.groups)-1]
	}
	return nil
}

// startable counts the voters of g that run, or can.
func (w *world) startable(g *group) int {
	count := 0
	for i := range g.members {
		m := &g.members[i]
		n := m.host
		own := n.disk.data && n.disk.token == g.token && n.disk.id == m.id && n.assigned != nil &&
			n.assigned.Token == g.token && !n.disk.corrupt && !n.disk.behind
		promised := !n.disk.data && !g.hasRun(m.id) && n.prepared != nil && n.prepared.Token == g.token &&
			w.recorded(g.token) && (n.prepared.Backup == "" || n.restored == g.token)
		if !m.learner && n.usable() && (own || promised) {
			count++
		}
	}
	return count
}

// coordinatorImpossible reports whether a majority of the newest lease voters'
// record has lost it or is gone. Where a restored incarnation does not come up,
// who has the lease of the one before it goes on to coordinate.
func (w *world) coordinatorImpossible() bool {
	by := w.coordinator()
	obs := w.observe(by)
	if w.electable(by, &obs) {
		return false
	}
	old := w.claim(by)
	g := w.group(old.Token)
	// What is observed may be an older record than that of the lease: who has the newer
	// one may be spares by now.
	kept := w.holds(by) && g != nil && g.ended && obs.Leader == 0
	obs.LeaseVoters = old
	return !kept || !w.electable(by, &obs)
}

// dataLost reports whether no node that is there has data, or what a restore is to begin
// with: a coordinator could do nothing about that.
func (w *world) dataLost() bool {
	return !slices.ContainsFunc(w.nodes, func(n *node) bool { return n.up && (n.disk.data || n.staged != nil) })
}

func (w *world) justifyNotBootstrapped(usable int, says func(...plan.Reason) bool, holds []plan.Hold) {
	want := w.spec.MemberCount
	evidence := !w.store.created.IsZero() || len(w.store.backups) > 0 || len(w.store.incarnations) > 0
	oneShort := usable == want-1 && usable > 0 && cluster.Quorum(usable) == cluster.Quorum(want)
	assigned := slices.ContainsFunc(w.nodes, func(n *node) bool { return n.up && n.assigned != nil })
	switch {
	case w.store.specMissing:
		// Who is gone may serve clients of what was restored: nobody knows.
		waits := usable < len(w.nodes) && says(plan.Restoring)
		if !says(plan.SpecMissing, plan.ClusterLost, plan.QuorumLost, plan.NoCoordinator) && !waits {
			w.violate("stuck", "there is no spec, but it says %v", holds)
		}
	case w.unrecorded():
		if !says(plan.ClusterLost, plan.QuorumLost, plan.Restoring, plan.NoCoordinator) {
			w.violate("stuck", "only restored data shows a cluster, but it says %v", holds)
		}
	case assigned:
		// By the record in the store a bootstrap is under way where there is no marker.
		begun := len(w.store.incarnations) > 0 && w.store.created.IsZero()
		if !says(plan.QuorumLost, plan.ClusterLost, plan.Restoring) && !(begun && says(plan.Bootstrap)) {
			w.violate("stuck", "only state files show a cluster, but it says %v", holds)
		}
	case slices.ContainsFunc(w.nodes, w.cannotBegin) && says(plan.Restoring):
	case evidence:
		// By the record a bootstrap is under way, on nodes of which one's disk hangs.
		hung := len(w.store.backups) == 0 && w.store.created.IsZero() && says(plan.DiskHung)
		if !says(plan.ClusterLost, plan.NoCoordinator) && !hung {
			w.violate("stuck", "only the store shows a cluster, but it says %v", holds)
		}
	case usable < len(w.nodes):
		if !says(plan.WaitingForNodes) {
			w.violate("stuck", "%d of %d nodes are left to bootstrap %d members, but it says %v", usable, len(w.nodes),
				want, holds)
		}
	case usable >= want || oneShort:
		w.violate("stuck", "%d nodes could bootstrap %d members, but it says %v", usable, want, holds)
	}
}
