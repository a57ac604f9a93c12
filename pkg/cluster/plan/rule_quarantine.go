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
	if l.mayBeSealed(n) || l.storeNotShared(n) {
		return nil, goOn
	}
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
	if !l.obs.Store.Reachable {
		l.hold(StoreUnreachable, "%s will be opened to clients when the control store answers, which may have a restore for "+
			"which it was closed: %s", n.Name, l.storeProblem())
		return nil, goOn
	}
	// Where clients are let in to nobody, none waits for the restart.
	if l.serving < len(l.voters) && l.serving-1 < cluster.Quorum(len(l.voters)) && l.opened() {
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

// opened reports whether clients may be let in to a voter.
func (l *view) opened() bool {
	return slices.ContainsFunc(l.voters, func(m cluster.Member) bool { return !l.quarantined(m) })
}

// mayBeSealed holds, and reports true, where n may have been closed for a restore that is
// decided, or will be, and which this observation does not show: what clients write would
// be lost in it.
func (l *view) mayBeSealed(n *cluster.Node) bool {
	for _, o := range l.obs.Nodes {
		if o.Reachable && !o.Storage.Bad() && o.Staged != nil && l.mayBeDecided(*o.Staged) {
			l.hold(Restoring, "%s will be opened to clients when what %s has staged is restored, or discarded", n.Name, o.Name)
			return true
		}
	}
	return false
}

// storeNotShared holds, and reports true, where the other members' nodes do not use this control
// store: theirs may have a restore for which n was closed.
func (l *view) storeNotShared(n *cluster.Node) bool {
	if len(l.policy.StaticNodes) > 0 {
		return false // each has a store of its own
	}
	for _, m := range l.voters {
		if o := l.nodeOf(m); o != nil && o.Reachable && !o.Published && o.Name != l.obs.Observer {
			l.hold(StoreNotShared, "%s will be opened to clients when %s has its record in the control store that %s uses: "+
				"another store may have a restore for which it was closed", n.Name, o.Name, l.obs.Observer)
			return true
		}
	}
	return false
}

// mayBeDecided reports whether a record may say that what is staged replaces what runs: all
// its voters that answer were ready, or its request may be in another store; and nothing else
// began by its request.
func (l *view) mayBeDecided(s cluster.Staged) bool {
	if s.Token == l.obs.Token || l.carriedOut(s.Request) && !recordedToken(l.obs, s.Token) {
		return false
	}
	if l.askedElsewhere(s) {
		return true
	}
	return !slices.ContainsFunc(s.Voters, func(v cluster.InitialMember) bool {
		n := l.node(v.Name)
		if n == nil || !n.Reachable {
			return false
		}
		ready := n.Staged != nil && n.Staged.Token == s.Token && n.Staged.Ready
		return !ready && !changedTo(*n, s.Token)
	})
}

// askedElsewhere reports whether another store may have the request of what is staged: this
// one does not, and a node that has staged it does not share this store.
func (l *view) askedElsewhere(s cluster.Staged) bool {
	if len(l.policy.StaticNodes) > 0 {
		return false // each has a store of its own
	}
	known := slices.ContainsFunc(l.obs.Store.Requests, func(r cluster.Request) bool { return r.Name == s.Request })
	return !known && !recordedToken(l.obs, s.Token) && slices.ContainsFunc(l.obs.Nodes, func(n cluster.Node) bool {
		return n.Reachable && n.Staged != nil && n.Staged.Token == s.Token && !n.Published && n.Name != l.obs.Observer
	})
}

// servedBefore returns the nodes that may still serve clients of what ran before
// rec was restored: those that answer and do, and those that do not answer, or cannot
// change over on a disk that hangs, where they could be a majority.
func servedBefore(obs cluster.Observation, rec cluster.Incarnation) []cluster.NodeName {
	var serving, unreachable []cluster.NodeName
	for _, n := range obs.Nodes {
		leaseVoter := slices.Contains(rec.Restored.Before, n.Name)
		able := n.Reachable && !n.Storage.Bad()
		switch old := n.Assigned != nil && n.Assigned.Token != rec.Token; {
		case able && old && obs.Ended(n.Assigned.Token) && !n.Assigned.Stopped:
			serving = append(serving, n.Name)
		case !able && leaseVoter && (n.Assigned == nil || old):
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
	case n.Storage.Bad() || n.FactsAge > maxFactsAge || l.short(m):
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
