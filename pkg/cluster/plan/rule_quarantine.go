package plan

import (
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// ruleQuarantine opens members to clients, one at a time and the leader last:
// each is restarted by it. One that is to be removed stays closed.
func ruleQuarantine(l *view) (Operation, verdict) {
	if l.sealing {
		return nil, goOn
	}
	var last *cluster.Member
	for i, m := range l.voters {
		n := l.nodeOf(m)
		if n == nil || n.Assigned == nil || !n.Assigned.Quarantined || l.surplus(m) {
			continue
		}
		if !n.Reachable {
			l.hold(NodeUnreachable, "%s does not answer, and its member was closed to clients", n.Name)
			continue
		}
		if !m.Healthy {
			l.hold(MemberStarting, "%s will be opened to clients when it is healthy", n.Name)
			continue
		}
		if m.ID == l.obs.Leader {
			last = &l.voters[i]
			continue
		}
		return l.lift(m)
	}
	if last != nil {
		return l.lift(*last)
	}
	return nil, goOn
}

// lift waits where the restart would take the majority away. It does not keep
// a dead voter from being replaced: that is what ends the wait.
func (l *view) lift(m cluster.Member) (Operation, verdict) {
	n := l.nodeOf(m)
	if rec := l.restored(); rec != nil && rec.Token == l.obs.Token {
		if serving := servedBefore(l.obs, *rec); len(serving) > 0 {
			l.hold(Restoring, "clients are let in when the old incarnation cannot serve them any more: %s may; remove nodes that are gone for "+
				"good: etcd-manager-ctl --backup-store=STORE forget-node NAME", names(serving))
			return nil, goOn
		}
		if l.serving < cluster.Quorum(len(l.voters)) {
			l.hold(MemberStarting, "%s will be opened to clients when a majority of the voters serves: %s", n.Name, l.describe())
			return nil, goOn
		}
		// Clients have waited until now, and one restart more is better than none let
		// in for the sake of a machine that is dead.
		return &QuarantineLift{Node: n.Name, ExpectRevision: l.unopened()}, goOn
	}
	if l.serving < len(l.voters) && l.serving-1 < cluster.Quorum(len(l.voters)) {
		l.hold(MemberStarting, "%s will be opened to clients when all voters are healthy: %s", n.Name, l.describe())
		return nil, goOn
	}
	need := cluster.Quorum(len(l.voters))
	if most, broken := l.gathered(m, l.serves); broken != nil && most < need && len(l.voters)-1 >= need {
		l.hold(PeerUnreachable, "%s will be opened to clients when the others reach each other at their peer ports: %s", n.Name,
			broken.Why)
		return nil, goOn
	}
	return &QuarantineLift{Node: n.Name}, goOn
}

// servedBefore returns the nodes that may still serve clients of what ran before
// rec was restored: those that answer and do, and those that do not answer, where
// they could be a majority.
func servedBefore(obs cluster.Observation, rec cluster.Incarnation) []cluster.NodeName {
	var serving, unreachable []cluster.NodeName
	for _, n := range obs.Nodes {
		leaseVoter := slices.Contains(rec.Restored.Before, n.Name)
		switch old := n.Assigned != nil && n.Assigned.Token != rec.Token; {
		case n.Reachable && old && obs.Ended(n.Assigned.Token) && !n.Assigned.Stopped:
			serving = append(serving, n.Name)
		case !n.Reachable && leaseVoter && (n.Assigned == nil || old):
			unreachable = append(unreachable, n.Name)
		}
	}
	if len(unreachable) >= cluster.Quorum(len(rec.Restored.Before)) {
		serving = append(serving, unreachable...)
	}
	return serving
}

// unopened returns the revision that a restored cluster began with, as long as
// none of its members is open to clients; zero otherwise.
func (l *view) unopened() cluster.Revision {
	rec := l.restored()
	if rec == nil || rec.Token != l.obs.Token {
		return 0
	}
	for _, m := range l.voters {
		if n := l.nodeOf(m); n != nil && n.Assigned != nil && !n.Assigned.Quarantined {
			return 0
		}
	}
	return rec.Restored.Revision
}

// closes returns the node whose member is closed to clients before it is removed, nil where
// it is not: what clients ask of a member that was removed fails. That is a courtesy, which
// keeps no removal back: it is for a node that can carry it out, and has not just failed to.
// Its member is restarted by it, so the others must do without.
func (l *view) closes(m cluster.Member) *cluster.Node {
	n := l.nodeOf(m)
	switch {
	case n == nil || !n.Reachable || !l.runsMember(n, m) || n.Assigned.Quarantined || !l.serves(m):
	case n.Storage.Bad() || n.FactsAge > oldFacts || l.short(m):
	case len(n.URLs.Quarantine) == 0 || overlap(n.URLs.Quarantine, n.URLs.Client): // it would keep nobody away
	case l.failure(&QuarantineSet{Node: n.Name}) != nil:
	case l.spares(m):
		return n
	}
	return nil
}

// surplus reports whether a voter is one of those that the spec does not want, as it was
// read last: that nobody is removed while the store does not answer opens nobody.
func (l *view) surplus(m cluster.Member) bool {
	count := len(l.voters) - l.asked
	return count > 0 &&
		slices.ContainsFunc(l.leaveInOrder()[:count], func(v cluster.Member) bool { return v.ID == m.ID })
}

// quarantined reports whether m is closed to clients, as far as is known.
func (l *view) quarantined(m cluster.Member) bool {
	n := l.nodeOf(m)
	return n != nil && n.Assigned != nil && n.Assigned.Quarantined
}

// spares reports whether the others go on while m is restarted: a leader among them
// reaches a majority of all.
func (l *view) spares(m cluster.Member) bool {
	most, _ := l.gathered(m, func(v cluster.Member) bool {
		n := l.nodeOf(v)
		return l.serves(v) && (n == nil || !n.Reachable ||
			!n.Storage.Bad() && n.Storage.Pending < time.Second && n.Differs == "")
	})
	return most >= cluster.Quorum(len(l.voters))
}
