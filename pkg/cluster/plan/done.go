package plan

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// Done reports whether obs shows that op has nothing left to do. It is false
// where obs does not show it.
func Done(obs cluster.Observation, op Operation) bool {
	l := newView(cluster.Spec{}, obs)
	switch op := op.(type) {
	case *MemberPrepare:
		n := l.node(op.Node)
		return n != nil && n.Prepared != nil && n.Prepared.Token == op.Token && n.Prepared.Version == op.Version
	case *IncarnationCreate:
		return slices.ContainsFunc(obs.Store.Incarnations, func(i cluster.Incarnation) bool {
			return i.Number == op.Number && i.Token == op.Token
		})
	case *IncarnationMark:
		return !obs.Store.Created.IsZero() && l.takenOver() == nil
	case *SpecWrite:
		return op.Request == "" && obs.Store.Reachable && !obs.Store.SpecMissing
	case *MemberStart:
		n := l.node(op.Node)
		return n != nil && n.Assigned != nil && n.Assigned.Token == op.Token && n.Assigned.Version == op.Version &&
			!n.Assigned.Stopped && n.Process.State == cluster.ProcessRunning && n.LeaseVoters.Token == op.Token
	case *MemberStop:
		n := l.node(op.Node)
		return n != nil && n.Process.State == cluster.ProcessStopped && (n.Assigned == nil || n.Assigned.Stopped)
	case *MemberChangeVersion:
		n := l.node(op.Node)
		return n != nil && n.Assigned != nil && n.Assigned.Version == op.To && n.Change == nil &&
			n.Process.State == cluster.ProcessRunning
	case *MemberForceSnapshot:
		n := l.node(op.Node)
		return n != nil && (n.OldLog.State == cluster.HazardAbsent || noV2Log(*n))
	case *MemberDrain:
		return false // it lasts for seconds
	case *DowngradeEnable:
		return doneDowngrade(obs, op)
	case *DowngradeCancel:
		return obs.Downgrade.IsZero()
	case *AddLearner:
		return slices.ContainsFunc(obs.Members, func(m cluster.Member) bool { return overlap(m.PeerURLs, op.PeerURLs) })
	case *Promote:
		return slices.ContainsFunc(l.voters, func(m cluster.Member) bool { return m.Name == op.Name })
	case *Remove:
		return len(obs.Members) > 0 && !slices.ContainsFunc(obs.Members, func(m cluster.Member) bool { return m.ID == op.ID })
	case *MemberUpdate:
		return slices.ContainsFunc(obs.Members, func(m cluster.Member) bool {
			return m.ID == op.ID && slices.Equal(m.PeerURLs, op.PeerURLs)
		})
	case *MoveLeader:
		return slices.ContainsFunc(obs.Members, func(m cluster.Member) bool { return m.ID == obs.Leader && m.Name == op.To })
	case *LeaseVotersWrite:
		have := obs.LeaseVoters
		return have.Token == op.Token && slices.Equal(have.Names, op.Names) && recorded(l, have)
	case *LeaseVotersRecover:
		n := l.node(op.Node)
		return n != nil && n.LeaseVoters.Token == op.Token && slices.Equal(n.LeaseVoters.Names, op.Names)
	case *LeaseVotersAdopt:
		n := l.node(op.Node)
		return n != nil && n.LeaseVoters.Token == op.Token
	}
	return doneRestore(l, op)
}

// doneDowngrade reports whether etcd has prepared all data.
func doneDowngrade(obs cluster.Observation, op *DowngradeEnable) bool {
	if obs.Downgrade != op.To || minorOf(obs.ClusterVersion) != op.To {
		return false
	}
	return !slices.ContainsFunc(obs.Members, func(m cluster.Member) bool { return minorOf(m.Storage).Compare(op.To) > 0 })
}

func doneRestore(l *view, op Operation) bool {
	switch op := op.(type) {
	case *RestoreStage:
		n := l.node(op.Node)
		return n != nil && n.Staged != nil && n.Staged.Token == op.Token && n.Staged.Ready
	case *RestoreSwitch:
		n := l.node(op.Node)
		return n != nil && n.Reachable && (n.Staged == nil || n.Staged.Token != op.Token) &&
			(n.Assigned == nil || n.Assigned.Token == op.Token)
	case *RestoreDiscard:
		n := l.node(op.Node)
		return n != nil && n.Reachable && (n.Staged == nil || n.Staged.Token != op.Token)
	case *RequestClose:
		return l.obs.Store.Reachable &&
			!slices.ContainsFunc(l.obs.Store.Requests, func(r cluster.Request) bool { return r.Name == op.Name })
	}
	return doneUpkeep(l, op)
}

// recorded reports whether a majority of the lease voters have the record on disk.
func recorded(l *view, e cluster.LeaseVoters) bool {
	count := 0
	for _, name := range e.Names {
		if n := l.node(name); n != nil && n.LeaseVoters.Token == e.Token && slices.Equal(n.LeaseVoters.Names, e.Names) {
			count++
		}
	}
	return count >= cluster.Quorum(len(e.Names))
}

func doneUpkeep(l *view, op Operation) bool {
	switch op := op.(type) {
	case *DataSetAside:
		n := l.node(op.Node)
		return n != nil && n.Disk.State == cluster.DiskEmpty && n.Assigned == nil
	case *DataDiscard:
		// Other data of that name is nothing that was deleted: [Check] says so.
		n := l.node(op.Node)
		return n != nil && n.Reachable &&
			!slices.ContainsFunc(n.SetAside, func(s cluster.SetAside) bool { return s.Name == op.Name })
	case *QuarantineSet:
		n := l.node(op.Node)
		return n != nil && n.Assigned != nil && n.Assigned.Quarantined
	case *QuarantineLift:
		n := l.node(op.Node)
		return n != nil && n.Assigned != nil && !n.Assigned.Quarantined
	case *BackupTake:
		return false // every call takes one more
	case *BackupVerify, *BackupDrill:
		return false // every call does it once more
	case *BackupPrune:
		there := func(name string) bool { return slices.Contains(op.Remove, name) }
		return l.obs.Store.BackupsKnown && !slices.ContainsFunc(l.obs.Store.Leftovers, there) &&
			!slices.ContainsFunc(l.obs.Store.Backups, func(b cluster.Backup) bool { return there(b.Name) })
	}
	return false
}
