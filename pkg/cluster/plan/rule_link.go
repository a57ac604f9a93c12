package plan

import (
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// linkGrace is for how long a peer port must fail before a hold says so: a member
// that is started again is back long before.
const linkGrace = 10 * time.Second

// Unlinked are two voters of which one does not reach the other's peer port.
type Unlinked struct {
	From, To cluster.NodeName
	Link     cluster.Link
}

// UnlinkedVoters returns the voters whose etcd runs, of which one does not reach the other's
// peer port. A member whose name is unknown goes by its ID.
func UnlinkedVoters(obs cluster.Observation) []Unlinked {
	l := newView(cluster.Spec{}, obs)
	name := func(m cluster.Member) cluster.NodeName {
		if m.Name == "" {
			return cluster.NodeName(m.ID.String())
		}
		return m.Name
	}
	var list []Unlinked
	l.eachUnlinked(func(from, to cluster.Member, link cluster.Link) {
		list = append(list, Unlinked{From: name(from), To: name(to), Link: link})
	})
	return list
}

// unlinked reports them.
func (l *view) unlinked() {
	l.eachUnlinked(func(from, to cluster.Member, link cluster.Link) {
		l.hold(PeerUnreachable, "%s does not reach the peer port of %s: %s, for %s", l.called(from), l.called(to),
			link.Why, link.Down.Round(time.Second))
	})
}

func (l *view) eachUnlinked(report func(from, to cluster.Member, link cluster.Link)) {
	for _, from := range l.voters {
		n := l.nodeOf(from)
		if n == nil || !n.Reachable || !l.runs(from) {
			continue
		}
		for _, to := range l.voters {
			if link, ok := n.Link(to.ID); ok && link.Broken() && link.Down >= linkGrace && l.runs(to) {
				report(from, to, link)
			}
		}
	}
}

// linked reports whether m and each voter that serves reach each other at one peer
// port of the two at least; otherwise it holds. etcd's messages go both ways
// over a connection that either has opened.
func (l *view) linked(m cluster.Member) bool {
	for _, v := range l.voters {
		if v.ID == m.ID || !l.serves(v) {
			continue
		}
		there, back := l.link(v, m), l.link(m, v)
		if there != nil && !there.Tried {
			l.hold(LearnerBehind, "%s has not tried the peer port of %s yet", l.called(v), l.called(m))
			return false
		}
		// A port that the learner has not tried does not make up for one that is closed.
		if back != nil && !back.Tried && (there == nil || there.Broken()) {
			l.hold(LearnerBehind, "%s has not tried the peer port of %s yet", l.called(m), l.called(v))
			return false
		}
		if link := l.apart(v, m); link != nil {
			// The last try may be from before its etcd listened, and there is another one soon.
			if n := l.nodeOf(m); n != nil && !n.Process.Since.IsZero() && l.age(n.Process.Since) < linkGrace {
				l.hold(LearnerBehind, "%s has just started, and its peer port is tried again: %s", l.called(m), link.Why)
				return false
			}
			l.hold(PeerUnreachable, "%s is not promoted: it and %s do not reach each other's peer port: %s", l.called(m),
				l.called(v), link.Why)
			return false
		}
	}
	return true
}

// link returns how the node of one member reaches another, nil where it does not report.
func (l *view) link(from, to cluster.Member) *cluster.Link {
	n := l.nodeOf(from)
	if n == nil || !n.Reachable {
		return nil
	}
	if link, ok := n.Link(to.ID); ok {
		return &link
	}
	return nil
}

// linkedWithout reports whether the voters that serve reach each other where m is
// not there; otherwise it holds.
func (l *view) linkedWithout(m cluster.Member, what string) bool {
	for i, a := range l.voters {
		for _, b := range l.voters[i+1:] {
			if a.ID == m.ID || b.ID == m.ID || !l.serves(a) || !l.serves(b) {
				continue
			}
			if link := l.apart(a, b); link != nil {
				l.hold(PeerUnreachable, "%s waits: %s and %s do not reach each other's peer port: %s", what, l.called(a),
					l.called(b), link.Why)
				return false
			}
		}
	}
	return true
}

// keepsLinks reports whether without m a leader among the voters that serve would reach a
// majority of the rest; otherwise it holds. Some of them may be apart.
func (l *view) keepsLinks(m cluster.Member, what string) bool {
	most, broken := l.gathered(m, l.serves)
	if most >= cluster.Quorum(len(l.voters)-1) {
		return true
	}
	if broken != nil {
		l.hold(PeerUnreachable, "%s waits: no leader would reach a majority of the other voters at their peer ports: %s", what,
			broken.Why)
	}
	return false
}

// gathered returns how many of the voters that count, without m, a leader among them
// reaches at most, and a link by which one does not reach another.
func (l *view) gathered(m cluster.Member, counts func(cluster.Member) bool) (most int, broken *cluster.Link) {
	for _, leader := range l.voters {
		reached := 0
		for _, v := range l.voters {
			if leader.ID == m.ID || v.ID == m.ID || !counts(leader) || !counts(v) {
				continue
			}
			link := l.apart(leader, v)
			if v.ID == leader.ID || link == nil {
				reached++
			} else {
				broken = link
			}
		}
		most = max(most, reached)
	}
	return most, broken
}

// apart returns the link by which two members cannot talk: neither that reports the
// other reaches its peer port. It is nil where they can, or where neither reports.
func (l *view) apart(a, b cluster.Member) (broken *cluster.Link) {
	for _, link := range []*cluster.Link{l.link(a, b), l.link(b, a)} {
		switch {
		case link == nil:
		case !link.Broken():
			return nil
		case broken == nil || link.Down < broken.Down:
			broken = link
		}
	}
	return broken
}

// cutOff reports whether m cannot talk to another voter whose etcd runs: if m leads,
// that one has no leader, however well it is.
func (l *view) cutOff(m cluster.Member) bool {
	for _, v := range l.voters {
		if v.ID == m.ID || !l.runs(v) {
			continue
		}
		if link := l.apart(v, m); link != nil && link.Down >= linkGrace {
			return true
		}
	}
	return false
}

// starvedGrace is how long the leader must have failed to reach a learner that lacks
// entries before another voter is made the leader. A port that answered is tried again
// after fifteen seconds: so each voter has tried since the failure began, and a try that
// came late is not enough.
const starvedGrace = 40 * time.Second

// starved returns the link by which the leader and the learner m, which lacks entries,
// cannot talk, nil where they can. Only the leader sends entries: m gets none, however many
// others reach it. An etcd that has just been started may not listen yet.
func (l *view) starved(m cluster.Member) *cluster.Link {
	leader, n := l.leader(), l.nodeOf(m)
	if leader == nil || n == nil || !l.runs(m) || l.age(n.Process.Since) < starvedGrace {
		return nil
	}
	if m.Name != "" && l.serves(m) && !l.behind(m) {
		return nil
	}
	if link := l.apart(*leader, m); link != nil && link.Down >= starvedGrace {
		return link
	}
	return nil
}

// feed returns the operation that has a voter lead which reaches the learner m, nil where
// there is none; it holds with the leader that does not, or where nobody does.
func (l *view) feed(m cluster.Member) Operation {
	leader, why := l.leader(), l.starved(m).Why
	reached := false
	var op Operation
	for _, v := range l.voters {
		to := l.link(v, m)
		if v.ID == leader.ID || !l.serves(v) || to == nil || !to.Tried || to.Broken() {
			continue
		}
		reached = true
		if move := (&MoveLeader{To: v.Name}); op == nil && l.diskRank(v) == 0 && !l.failing(move) {
			op = move
		}
	}
	if !reached {
		l.hold(LearnerBehind, "%s receives no log entries: no voter reaches its peer port: %s", l.called(m), why)
		return nil
	}
	l.hold(PeerUnreachable, "%s is not promoted: it and the leader %s do not reach each other's peer port: %s", l.called(m),
		l.called(*leader), why)
	return op
}

// starves reports whether a learner whose etcd runs would get no entries if v led.
func (l *view) starves(v cluster.Member) bool {
	for _, m := range l.learners {
		if l.runs(m) && l.apart(v, m) != nil {
			return true
		}
	}
	return false
}

// leader returns the voter that leads, nil for none.
func (l *view) leader() *cluster.Member {
	for i := range l.voters {
		if l.voters[i].ID == l.obs.Leader {
			return &l.voters[i]
		}
	}
	return nil
}

// runs reports whether the etcd of m serves, or is there.
func (l *view) runs(m cluster.Member) bool {
	n := l.nodeOf(m)
	return l.serves(m) || n != nil && n.Reachable && n.Process.State == cluster.ProcessRunning
}
