package plan

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// Unfenced reports whether op may be carried out by a daemon that does not hold
// the coordinator's lease: because the record in the store has decided already
// and nothing is left to disagree about, or because an operator has declared so
// many lease voters to be gone for good that no majority of them can ever grant a
// lease again. In the latter case the create-only-if-absent of the record
// decides between two daemons, as it does when a cluster is bootstrapped; and each
// node holds the recovery of the lease voters to what etcd's quorum reports to it. So it does
// with a cluster that is taken over from the existing etcd-manager, in which nobody could
// hold a lease yet; such a one each daemon backs up by itself.
func Unfenced(obs cluster.Observation, op Operation) bool {
	switch op := op.(type) {
	case *RestoreSwitch:
		rec := newestRecord(obs)
		return rec != nil && rec.Token == op.Token && slices.ContainsFunc(obs.Nodes, func(n cluster.Node) bool {
			return n.Name == op.Node && n.Staged != nil && n.Staged.Token == op.Token
		})
	case *RestoreStage:
		return leaseVotersLost(obs)
	case *IncarnationCreate:
		return op.Backup != "" && leaseVotersLost(obs) || op.Backup == "" && newView(cluster.Spec{}, obs).unclaimed()
	case *LeaseVotersAdopt:
		return newView(cluster.Spec{}, obs).unclaimed()
	case *LeaseVotersRecover:
		return newView(cluster.Spec{}, obs).declaredLost() != nil
	case *BackupTake:
		return op.Node == obs.Observer && newView(cluster.Spec{}, obs).unclaimed()
	case *RequestClose:
		return op.Outcome == OutcomeRefused && leaseVotersLost(obs)
	}
	return false
}

func newestRecord(obs cluster.Observation) *cluster.Incarnation {
	if n := len(obs.Store.Incarnations); n > 0 {
		return &obs.Store.Incarnations[n-1]
	}
	return nil
}

// leaseVotersLost reports whether the oldest restore that is queued declares a
// majority of the lease voters to be gone, and nothing contradicts it.
func leaseVotersLost(obs cluster.Observation) bool {
	l := newView(cluster.Spec{}, obs)
	r, _ := l.restoreRequest()
	if r == nil || obs.Leader != 0 {
		return false
	}
	lost := r.Lost
	for _, n := range obs.Nodes {
		// Each known node answers, or is declared to be gone; not both, not neither.
		if n.Reachable == slices.Contains(lost, n.Name) {
			return false
		}
	}
	return cluster.Lost(obs.LeaseVoters.Names, lost)
}
