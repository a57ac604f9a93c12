package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// ruleLearner finishes a membership change that has begun: it starts the
// learner, promotes it, or takes it out again.
func ruleLearner(l *view) (Operation, verdict) {
	if len(l.learners) == 0 {
		return nil, goOn
	}
	if l.frozen {
		l.unrecorded = "" // one change at a time
		l.hold(LearnerBehind, "%s waits for the lease voters' record", orUnknown(string(l.learners[0].Name)))
		return nil, goOn
	}
	l.frozen = true
	m := l.learners[0]
	n := l.nodeOf(m)
	undo := &Remove{ID: m.ID, ExpectName: m.Name, ExpectVoters: len(l.voters)}
	name := m.Name
	if n != nil {
		name = n.Name
	}
	switch {
	case len(l.voters) >= l.spec.MemberCount,
		!m.LearnerSince.IsZero() && l.age(m.LearnerSince) > l.policy.LearnerTimeout:
		return undo, goOn
	case m.Name == "" && l.takesNobody():
		return l.cancelDowngrade(), goOn
	case n == nil || !n.Reachable:
		l.hold(LearnerBehind, "%s does not answer", orUnknown(string(name)))
		return nil, goOn
	case n.Conflict != "" || n.Disk.State == cluster.DiskUnreadable:
		l.hold(LearnerBehind, "%s is not usable", n.Name)
		return nil, goOn
	case n.Storage.Bad():
		l.holdHung(n)
		return nil, goOn
	case m.Name != "" && n.Disk.State == cluster.DiskEmpty && n.Process.State == cluster.ProcessStopped:
		// It ran once and lost its data: the same member may not start again
		// (etcd panics with "tocommit is out of range").
		return undo, goOn
	case n.Assigned == nil && m.Name == "":
		return l.join(n)
	case l.starved(m) != nil:
		return l.feed(m), goOn
	case m.Condition == cluster.Late:
		l.hold(LearnerBehind, "the vote of %s could not be relied on: %s", name, m.Why)
		return nil, goOn
	case !l.serves(m) || m.Name == "" || l.behind(m):
		l.hold(LearnerBehind, "%s has applied %d of %d entries (process %s)", name, m.Applied, l.applied(), n.Process.State)
		return nil, goOn
	case l.serving+1 < cluster.Quorum(len(l.voters)+1):
		l.hold(QuorumMargin, "promoting %s needs %d healthy voters, %d are", name, cluster.Quorum(len(l.voters)+1)-1,
			l.serving)
		return nil, goOn
	case !l.linked(m):
		return nil, goOn
	case len(l.leaseVoters()) > 0 && n.LeaseVoters.Token != l.obs.Token:
		return l.joinLeaseVoters(n, m)
	}
	if op := l.recordAhead(n.Name, true); op != nil {
		return op, goOn
	}
	return &Promote{Name: m.Name, ExpectVoters: len(l.voters)}, goOn
}

func (l *view) join(n *cluster.Node) (Operation, verdict) {
	version := l.joinVersion(n)
	switch {
	case !slices.Contains(n.Versions, version):
		l.holdMissing(n, version)
		return nil, goOn
	case n.Disk.State == cluster.DiskData && n.Disk.Token != l.obs.Token:
		return nil, goOn // ruleEvicted has said why that is still there
	}
	if op, wait := l.beforeJoin(n.Name, version); wait {
		return op, goOn
	}
	return &MemberStart{Node: n.Name, Token: l.obs.Token, Mode: StartJoin, Version: version,
		Peers: l.initialMembers()}, goOn
}

func (l *view) applied() uint64 {
	var best uint64
	for _, m := range l.voters {
		best = max(best, m.Applied)
	}
	return best
}

// behind reports whether etcd would refuse to promote m: it asks for nine
// tenths of the leader's match index.
func (l *view) behind(m cluster.Member) bool { return m.Applied < l.applied()/10*9 }

// ruleShrink removes voters that the spec does not want: unhealthy ones first,
// then by name from the end, never the raft leader and never below a healthy
// majority. Nobody goes while a voter is late: within seconds it serves again, or
// is unhealthy and goes first. One that was just closed for this is late by that, and
// is not waited for.
func ruleShrink(l *view) (Operation, verdict) {
	if len(l.voters) <= l.spec.MemberCount {
		return nil, goOn
	}
	nextToLeave := l.nextToLeave()
	if !l.removable(nextToLeave) {
		return nil, goOn
	}
	for _, m := range l.voters {
		if m.Condition == cluster.Late && !(m.ID == nextToLeave.ID && l.quarantined(m)) {
			l.hold(QuorumMargin, "no voter is removed while the state of %s is unclear: %s", l.called(m), m.Why)
			return nil, goOn
		}
	}
	left := l.serving
	if l.serves(nextToLeave) {
		left--
	}
	if need := cluster.Quorum(len(l.voters) - 1); left < need {
		l.hold(QuorumMargin, "removing %s would leave %d healthy voters, a majority of the rest is %d", nextToLeave.Name,
			left, need)
		return nil, goOn
	}
	if !l.linkedWithout(nextToLeave, "removing "+l.called(nextToLeave)) {
		return nil, goOn
	}
	if nextToLeave.ID == l.obs.Leader {
		return l.moveLeader(nextToLeave), goOn
	}
	op, ok := l.covered("remove")
	if !ok {
		return op, goOn
	}
	if n := l.closes(nextToLeave); n != nil {
		return &QuarantineSet{Node: n.Name}, goOn
	}
	return l.removeVoter(nextToLeave), goOn
}

// removable reports whether the removal of m may begin now.
func (l *view) removable(m cluster.Member) bool {
	return !l.frozen || l.unrecorded != "" && m.Name == l.unrecorded
}

// nextToLeave returns the voter that leaves first.
func (l *view) nextToLeave() cluster.Member { return l.leaveInOrder()[0] }

// leaveInOrder returns the voters, who leaves first before the others.
func (l *view) leaveInOrder() []cluster.Member {
	list := slices.Clone(l.voters)
	slices.SortStableFunc(list, func(a, b cluster.Member) int {
		return cmp.Or(cmp.Compare(l.leaves(b), l.leaves(a)), strings.Compare(string(b.Name), string(a.Name)))
	})
	return list
}

// leaves ranks members by what speaks for removing them. Who has been closed to clients
// for it goes before one whose disk has become slow: that comes and goes, and members
// would be restarted for it again and again.
func (l *view) leaves(m cluster.Member) int {
	const closed = 2
	switch trouble := l.diskRank(m); {
	case trouble >= 2:
		return closed + trouble
	case l.quarantined(m):
		return closed
	default:
		return trouble
	}
}

// diskRank ranks members by how little they are worth keeping. One late answer is
// no reason to prefer another.
func (l *view) diskRank(m cluster.Member) int {
	switch {
	case !m.Healthy:
		return 3
	case l.short(m) || l.cutOff(m):
		return 2
	case m.Condition == cluster.Slow:
		return 1
	}
	return 0
}

// nextLeader returns the voter that leads when leader goes: the best, of these one that reaches
// the learners, and of these the first by name, which is the last to be removed. It is
// empty for none.
func (l *view) nextLeader(leader cluster.Member) cluster.NodeName {
	rank := func(m cluster.Member) int {
		if l.starves(m) {
			return 2*l.diskRank(m) + 1
		}
		return 2 * l.diskRank(m)
	}
	var best *cluster.Member
	for i, m := range l.voters {
		if l.serves(m) && m.ID != leader.ID && (best == nil || rank(m) < rank(*best)) {
			best = &l.voters[i]
		}
	}
	if best == nil {
		return ""
	}
	return best.Name
}

// ruleReplace takes out a voter that has been unhealthy for longer than the
// grace time, where a node is there to take its place. The dead voter goes
// before the new one comes, as etcd advises: a cluster of four with one dead
// tolerates no more failures than one of two, and needs more votes.
func ruleReplace(l *view) (Operation, verdict) {
	for _, m := range l.voters {
		if m.Healthy || !l.removable(m) || l.alarmed(m) {
			continue
		}
		if n := l.nodeOf(m); n != nil && full(n) {
			l.holdFull(n)
		}
		if down, grace := l.down(m), l.grace(m); down < grace {
			l.hold(Grace, "%s has been unhealthy for %s, it is replaced after %s", l.called(m), down.Round(1e9), grace)
			continue
		}
		if l.serving < cluster.Quorum(len(l.voters)-1) {
			l.hold(QuorumMargin, "removing %s would leave %d healthy voters, a majority of the rest is %d", l.called(m),
				l.serving, cluster.Quorum(len(l.voters)-1))
			continue
		}
		free, why := l.free()
		// Nobody has to take the place of a voter that keeps all others from being
		// replaced, nor of one that has never been there.
		own, lack := l.reclaimable(m)
		if lack != "" {
			why = append(why, lack)
		}
		if len(free) == 0 && !own && m.Name != l.unrecorded && !neverStarted(m) {
			l.hold(NoSpare, "nothing can take the place of %s: %s", l.called(m), reasons(why))
			continue
		}
		if !l.keepsLinks(m, "replacing "+l.called(m)) {
			continue
		}
		if m.ID == l.obs.Leader {
			return l.moveLeader(m), goOn
		}
		if op, wait := l.beforeReplacement(m, free); op != nil {
			return op, goOn
		} else if wait {
			continue
		}
		op, ok := l.covered("replace")
		if !ok {
			return op, goOn
		}
		return l.removeVoter(m), goOn
	}
	return nil, goOn
}

// changeGrace is the time in which a node that changes its version takes the old one
// again by itself: two stops of two minutes each, and five minutes to come up.
const changeGrace = 10 * time.Minute

// grace is for how long m may be unhealthy. One that answers, and whose disk does
// not hang, is catching up: it receives the whole database, or is being
// defragmented, which makes its own disk slow. It gets the time that a new member
// gets.
func (l *view) grace(m cluster.Member) time.Duration {
	n := l.nodeOf(m)
	if n != nil && n.Reachable && !n.Storage.Bad() && n.Change.Pending() && n.Change.Token == l.obs.Token {
		return max(l.policy.Grace, changeGrace)
	}
	if m.Condition == cluster.Stuck && n != nil && n.Reachable && !n.Storage.Bad() {
		return max(l.policy.Grace, l.policy.LearnerTimeout)
	}
	return l.policy.Grace
}

// neverStarted reports whether m was added by somebody else and has never run:
// what we add is a learner first. It has no data, and has never voted.
func neverStarted(m cluster.Member) bool {
	return !m.Learner && m.Name == "" && len(m.ClientURLs) == 0
}

// called returns how to call m in a text.
func (l *view) called(m cluster.Member) string {
	if m.Name != "" {
		return string(m.Name)
	}
	return fmt.Sprintf("%s (%s)", m.ID, strings.Join(m.PeerURLs, ","))
}

// down returns for how long m has been unhealthy; not at all where nobody has
// written down since when.
func (l *view) down(m cluster.Member) time.Duration {
	if m.UnhealthySince.IsZero() {
		return 0
	}
	return l.age(m.UnhealthySince)
}

// alarmed reports whether m runs and is unhealthy by an alarm. A new member in
// its place would get the same data, so a person has to decide.
func (l *view) alarmed(m cluster.Member) bool {
	n := l.nodeOf(m)
	return len(m.Alarms) > 0 && n != nil && n.Reachable && n.Process.State == cluster.ProcessRunning
}

// reclaimable reports whether m's own node can start afresh: its disk is empty,
// or holds data from which m cannot run, and once that is set aside (which frees
// no space) the node could take a new member. lack is what only that wants for.
func (l *view) reclaimable(m cluster.Member) (ok bool, lack string) {
	n := l.nodeOf(m)
	if n == nil || !n.Reachable || n.Conflict != "" {
		return false, ""
	}
	afresh := n.Disk.State == cluster.DiskEmpty
	if n.Disk.State == cluster.DiskData {
		afresh = n.Disk.Token != l.obs.Token || !l.runsMember(n, m) || n.Process.State == cluster.ProcessCrashing
	}
	if !afresh {
		return false, ""
	}
	lack = l.lacks(n, l.joinVersion(n))
	return lack == "", lack
}

// ruleGrow adds a learner on a free node where the spec wants more voters.
func ruleGrow(l *view) (Operation, verdict) {
	if l.frozen || l.serving < len(l.voters) || len(l.voters) >= l.spec.MemberCount {
		return nil, goOn
	}
	free, why := l.free()
	if len(free) == 0 {
		l.hold(NoSpare, "the cluster has %d of %d voters: %s", len(l.voters), l.spec.MemberCount, reasons(why))
		return nil, goOn
	}
	slices.SortStableFunc(free, func(a, b *cluster.Node) int { return l.lastLeft(a).Compare(l.lastLeft(b)) })
	if op, wait := l.beforeJoin(free[0].Name, l.joinVersion(free[0])); wait {
		return op, goOn
	}
	op, ok := l.covered("grow")
	if !ok {
		return op, goOn
	}
	if l.takesNobody() {
		return l.cancelDowngrade(), goOn
	}
	return &AddLearner{Node: free[0].Name, PeerURLs: free[0].URLs.Peer, ExpectVoters: len(l.voters)}, goOn
}

// lastLeft returns when n last set data of this incarnation aside, zero for
// never: it has failed or left then, so another node is a better choice.
func (l *view) lastLeft(n *cluster.Node) (last time.Time) {
	for _, s := range n.SetAside {
		if s.Of(l.obs.Token) {
			last = s.At // oldest first
		}
	}
	return last
}

func reasons(why []string) string {
	if len(why) == 0 {
		return "no other node is known"
	}
	return strings.Join(why, ", ")
}
