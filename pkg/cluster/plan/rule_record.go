package plan

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// ruleRecord writes the incarnation record, the marker and the spec of a
// running cluster where the store lacks them: after bootstrap, when the store was
// emptied, and for a cluster taken over from the existing tool.
func ruleRecord(l *view) (Operation, verdict) {
	s := l.obs.Store
	if !s.Reachable {
		l.hold(StoreUnreachable, "%s", l.storeProblem())
	}
	if on := mayServe(l.obs); len(on) > 0 {
		l.hold(Restoring, "incarnation %s runs, has no record in the store, and lets no client in, but %s may let clients in "+
			"to one that has a record. Bring back what does not answer or run. For a machine that is gone for good: "+
			"etcd-manager-ctl --backup-store=STORE forget-node NAME; for a member that is not to run again: etcdadm member stop",
			l.obs.Token, names(on))
		return nil, stop
	}
	if !s.Reachable {
		return nil, goOn
	}
	known := slices.ContainsFunc(s.Incarnations, func(i cluster.Incarnation) bool { return i.Token == l.obs.Token })
	// A restore that never began does not end what runs, and its record must not do
	// so later, when fewer nodes answer: what runs gets a newer one.
	known = known && !l.obs.Uncommitted(s.Incarnations[len(s.Incarnations)-1])
	if s.RecordsProblem != "" {
		l.hold(RecordInvalid, "%s", s.RecordsProblem)
		if !known {
			return nil, goOn
		}
	}
	if rec := newestRecord(l.obs); rec != nil && !known && rec.Restored != nil && !l.obs.Uncommitted(*rec) &&
		slices.ContainsFunc(l.obs.Nodes, func(n cluster.Node) bool { return n.Awaits(rec.Token) }) {
		l.hold(Restoring, "the restored incarnation %d has yet to replace %s, which has no record",
			rec.Number, l.obs.Token)
		return nil, goOn
	}
	if rec := newestRecord(l.obs); !known {
		if on := l.laterRestored(rec); len(on) > 0 {
			l.hold(Restoring, "incarnation %s runs and has no record in the store. The restored incarnation %d is later, and may run on "+
				"%s. Bring back what does not answer, or remove nodes that are gone for good: etcd-manager-ctl "+
				"--backup-store=STORE forget-node NAME", l.obs.Token, rec.Number, names(on))
			return nil, goOn
		}
	}
	if !known {
		return &IncarnationCreate{
			Number: l.nextNumber(), Token: l.obs.Token, Version: l.version(), Voters: l.initialMembers(),
		}, goOn
	}
	if s.Created.IsZero() || l.takenOver() != nil {
		return &IncarnationMark{Token: l.obs.Token}, goOn
	}
	if s.SpecMissing {
		return &SpecWrite{MemberCount: l.spec.MemberCount, EtcdVersion: l.version()}, goOn
	}
	return nil, goOn
}

// laterRestored returns the nodes that may have what was restored above all that was seen of
// what runs, by a record of which nobody knows that it never began; none where there is no
// such record.
func (l *view) laterRestored(rec *cluster.Incarnation) (on []cluster.NodeName) {
	if rec == nil || rec.Restored == nil || rec.Token == l.obs.Token || l.obs.Uncommitted(*rec) {
		return nil
	}
	high := l.obs.Revision
	for i := range l.obs.Nodes {
		n := &l.obs.Nodes[i]
		if !n.Reachable || n.Disk.State == cluster.DiskUnreadable || l.tokenOn(n) == rec.Token {
			on = append(on, n.Name)
		}
		if l.tokenOn(n) == l.obs.Token {
			high = max(high, n.Revision)
		}
	}
	if rec.Restored.Revision-high < aboveAll/2 {
		return nil
	}
	return on
}

// mayServe returns the nodes that do not answer, or whose process does not run, and may let clients
// in to an incarnation that has a record, where what runs has none and lets no client in: a newer
// record of it would end what has the writes of clients. What an operation has stopped on a node that
// answers lets none in, nor does a node that was seen last without a member or with one of yet another
// incarnation.
func mayServe(obs cluster.Observation) (on []cluster.NodeName) {
	if len(obs.Store.Incarnations) == 0 || recordedToken(obs, obs.Token) {
		return nil
	}
	var did []cluster.NodeName // let clients in when they were seen last
	for _, n := range obs.Nodes {
		a, runs := n.Assigned, n.Reachable && n.Process.State == cluster.ProcessRunning
		switch {
		case a == nil && !n.Reachable && n.Disk.State != cluster.DiskEmpty:
			on = append(on, n.Name)
		case a == nil || n.Reachable && a.Stopped || runs || !recordedToken(obs, a.Token):
		case !a.Quarantined:
			on, did = append(on, n.Name), append(did, n.Name)
		case !n.Reachable:
			on = append(on, n.Name) // it may have been opened since
		}
		if a != nil && a.Token == obs.Token && !a.Quarantined {
			return nil
		}
	}
	unknown := slices.ContainsFunc(obs.Members, func(m cluster.Member) bool {
		return !slices.ContainsFunc(obs.Nodes, func(n cluster.Node) bool {
			return n.Name == m.Name && n.Assigned != nil && n.Assigned.Token == obs.Token
		})
	})
	if unknown { // clients may be let in to a member of what runs, too
		return did
	}
	return on
}
