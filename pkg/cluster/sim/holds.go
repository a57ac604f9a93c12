package sim

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// refute asks of each hold at the end of a quiet time whether what it says is so in
// the world. A hold is not accepted because another one beside it is true.
func (w *world) refute(holds []plan.Hold) {
	if h := w.untrue(holds); h != nil {
		w.violate("untrue", "the cause of this hold is over: %v (all: %v)", *h, holds)
	}
}

// untrue returns the first hold without a cause, nil if there is none.
func (w *world) untrue(holds []plan.Hold) *plan.Hold {
	for i := range holds {
		if !w.holdIsTrue(holds[i].Reason) {
			return &holds[i]
		}
	}
	return nil
}

// holdIsTrue reports whether the world has a cause for a hold that is left after
// all has been quiet for longer than every wait of the policy. What passes by
// itself, a grace time, a start, a learner that catches up, has passed by then.
func (w *world) holdIsTrue(r plan.Reason) bool {
	g := w.latest()
	led := g != nil && g.leader != 0
	away := func(n *node) bool { return !n.usable() }
	missing := slices.ContainsFunc(w.nodes, away)
	if w.sealedHeld(g, r) {
		return true
	}
	switch r {
	case plan.DiskHung, plan.NotServing:
		return slices.ContainsFunc(w.nodes, func(n *node) bool { return n.up && n.hangs() })
	case plan.DiskUnreadable:
		return slices.ContainsFunc(w.nodes, func(n *node) bool {
			// Data without a state file is set aside, but not on a disk that hangs.
			stray := n.disk.data && n.assigned == nil && n.hangs()
			return n.up && (n.disk.corrupt || n.disk.behind || stray)
		})
	case plan.SpecMissing:
		return w.store.specMissing
	case plan.BackupsGone:
		return w.store.emptied
	case plan.ClockSkew:
		return slices.ContainsFunc(w.store.backups, func(b cluster.Backup) bool { return b.At.After(w.now) })
	case plan.QuorumLost, plan.ClusterLost, plan.Bootstrap:
		return !led
	case plan.StoreNotShared:
		return w.unrecorded() || w.stagedElsewhere()
	case plan.NoSpare:
		return led && w.spares(g) == 0
	case plan.LeaseVotersLost, plan.NoCoordinator, plan.TakingOver:
		return !led || w.coordinatorImpossible()
	case plan.WaitingForNodes:
		// Where the newest incarnation has lost its state files, or the lease is of one that
		// the store has no record of, who takes no orders by it takes part in no restore.
		stateLost := slices.ContainsFunc(w.nodes, func(n *node) bool { return n.disk.data && n.assigned == nil })
		return missing || !led && (stateLost || w.claimUnrecorded())
	case plan.OperationFailed:
		return missing || slices.ContainsFunc(w.nodes, w.cannotBegin) || slices.ContainsFunc(w.nodes, w.obeysItself) ||
			w.coordinatesUnrecorded()
	case plan.NodeUnreachable, plan.LeaseVotersDiffer:
		return missing
	case plan.Restoring:
		return missing || !led || w.stagedElsewhere()
	case plan.Grace, plan.MemberStarting, plan.QuorumMargin:
		// A voter that cannot be replaced stays unhealthy.
		return led && w.spares(g) == 0
	}
	return w.versionHeld(r)
}

// spares counts the nodes that could take a new member of g.
func (w *world) spares(g *group) int {
	count := 0
	for _, n := range w.nodes {
		// Data of what the store has no record of, as after it went back, is not cleared.
		kept := w.config.RolledBack && n.disk.data && !w.recorded(n.disk.token)
		if n.usable() && g.memberOn(n) == nil && !kept {
			count++
		}
	}
	return count
}
