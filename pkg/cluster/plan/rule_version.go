package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// ruleVersion changes the etcd version, one member after the other: followers
// first, the leader last, after its leadership has been moved. Every member has
// to be well before each step, so a second one is never risked after a failure.
func ruleVersion(l *view) (Operation, verdict) {
	members, differs := l.runners()
	if op, wait := l.endDowngrade(members); wait {
		return op, goOn
	}
	if !differs {
		return nil, goOn
	}
	if l.versionFailed(members) {
		return nil, goOn
	}
	if l.checking(members) {
		return nil, goOn
	}
	if l.sealing {
		return nil, goOn
	}
	next, lack := NextVersion(members, l.spec.EtcdVersion, l.obs.ClusterVersion)
	if lack != nil && lack.Wait {
		l.waitForAll(lack.String())
		return nil, goOn
	}
	if lack != nil && l.policy.Unbacked {
		l.hold(VersionDiffers, "etcd %s cannot be reached: %s", l.spec.EtcdVersion, lack.Why) // there is no spec to set
		return nil, goOn
	}
	if lack != nil {
		l.hold(VersionDiffers, "etcd %s cannot be reached: %s%s%s%s", l.spec.EtcdVersion, lack, l.acceptance(lack.Risk),
			l.byRestore(lack), l.fetches(members))
		return nil, goOn
	}
	if ready := l.versionGates(members, next); !l.seesTheEnd(members, next) || !ready {
		return nil, goOn
	}
	m := l.nextToChange(next)
	if m == nil {
		return nil, goOn
	}
	if op, ok := l.covered("version"); !ok {
		return op, goOn
	}
	if op, wait := l.snapshotFirst(next); wait {
		return op, goOn
	}
	if op, wait := l.enableFirst(next, members); wait {
		return op, goOn
	}
	if m.ID == l.obs.Leader && len(l.voters) > 1 {
		return l.moveLeader(*m), goOn
	}
	return l.changeTo(next, *m, members), goOn
}

// waitForAll holds for what etcd's leader does by itself, as soon as it has heard of all
// members.
func (l *view) waitForAll(what string) {
	before := len(l.holds)
	for _, m := range l.obs.Members {
		if !l.serves(m) && !m.Learner {
			l.hold(QuorumMargin, "%s; needs an answer from %s", what, l.called(m))
		}
	}
	if len(l.holds) == before {
		l.hold(NotYet, "%s", what)
	}
}

// changeTo returns the change of a member, with the hazards that were accepted.
func (l *view) changeTo(next etcdversion.Version, m cluster.Member, members []Runner) *MemberChangeVersion {
	n := l.nodeOf(m)
	op := &MemberChangeVersion{
		Node: n.Name, ExpectToken: l.obs.Token, ExpectMemberID: m.ID, ExpectVersion: n.Assigned.Version, To: next,
	}
	if reason, ok := l.spec.AcceptsRisk(); ok {
		if op.AcceptHazards = hazardous(members, next); len(op.AcceptHazards) > 0 {
			op.AcceptRisk = reason
		}
	}
	return op
}

// hazardous returns what the members' data has that a version does not stand, or may
// have, in order. What is left of it behind the gates has been accepted.
func hazardous(members []Runner, next etcdversion.Version) (kinds []cluster.HazardKind) {
	for _, m := range members {
		for _, h := range cluster.HazardsFrom(m.Hazards, m.runs(), next) {
			kinds = append(kinds, h.Kind)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// acceptance is how the operator accepts a hazard, behind what else can be done. A spec
// that is given by flags has no place for it.
func (l *view) acceptance(can bool) string {
	if !can || l.policy.FixedSpec {
		return ""
	}
	return fmt.Sprintf("; or, to continue despite it: etcd-manager-ctl --backup-store=STORE --etcd-version=%s "+
		"--accept-version-risk=REASON configure-cluster", l.spec.EtcdVersion)
}

// runners returns the members with their versions, and whether one has another
// than the spec says. Members whose node is not known have none.
func (l *view) runners() (list []Runner, differs bool) {
	_, accepted := l.spec.AcceptsRisk()
	sealed := l.obs.SealedRequest()
	for _, m := range l.obs.Members {
		n := l.nodeOf(m)
		if n == nil || n.Assigned == nil {
			continue
		}
		list = append(list, Runner{Name: n.Name, Assigned: n.Assigned.Version, Real: m.Version, Storage: m.Storage,
			Has: n.Versions, Hazards: n.Hazards, Accepted: accepted,
			Restores: sealed != nil && sealed.EtcdVersion == l.spec.EtcdVersion})
		differs = differs || n.Assigned.Version != l.spec.EtcdVersion || n.Change.Pending()
	}
	return list, differs
}

// versionFailed holds, and reports true, where a change to the version that is
// wanted has failed on a node, or has not come to its end.
func (l *view) versionFailed(members []Runner) bool {
	found := false
	for _, m := range l.obs.Members {
		n := l.nodeOf(m)
		if n == nil || n.Assigned == nil || n.Change == nil || n.Change.Token != l.obs.Token {
			continue
		}
		c := n.Change
		switch {
		case c.Pending() && !n.Reachable:
			l.hold(NodeUnreachable, "%s was changing from etcd %s to %s when its daemon last answered", n.Name, c.From, c.To)
		case c.Pending():
			l.hold(NotYet, "%s changes from etcd %s to %s", n.Name, c.From, c.To)
		case c.Back && !leadsTo(*c, l.spec.EtcdVersion):
			continue // nobody wants the version that failed any more
		case !c.Back:
			l.hold(VersionFailed, "%s does not come up with etcd %s, and is retried: %s", n.Name, c.To, c.Failed)
		default:
			l.hold(VersionFailed, "%s did not come up with etcd %s: %s; to try again: %s", n.Name, c.To, c.Failed,
				l.tryAgain(c.To, m, members))
		}
		found = true
	}
	return found
}

// tryAgain are the command lines that change a member once more to the version that it
// did not come up with: also where it leads by now, or the downgrade has been cancelled.
func (l *view) tryAgain(to etcdversion.Version, m cluster.Member, members []Runner) string {
	var lines []string
	runs := l.nodeOf(m).Assigned.Version
	if seen := minorOf(l.obs.ClusterVersion); to.Minor < runs.Minor && seen == minorOf(runs) && l.obs.Downgrade.IsZero() {
		lines = append(lines, Line(&DowngradeEnable{To: minorOf(to), ExpectClusterVersion: seen}))
	}
	if m.ID == l.obs.Leader && len(l.voters) > 1 {
		if op := l.moveLeader(m); op != nil {
			lines = append(lines, Line(op))
		}
	}
	return strings.Join(append(lines, Line(l.changeTo(to, m, members))), " && ")
}

// checking holds, and reports true, where a node is still checking the data that a
// later minor version is to run: a patch that is not needed would come first otherwise.
func (l *view) checking(members []Runner) bool {
	before := len(l.holds)
	for _, m := range members {
		pending := slices.ContainsFunc(m.Hazards, func(h cluster.Hazard) bool { return h.State == cluster.HazardPending })
		switch {
		case !pending || m.runs().Minor >= l.spec.EtcdVersion.Minor:
		case !l.node(m.Name).Reachable:
			l.hold(NodeUnreachable, "the change to etcd %s waits for the daemon of %s", l.spec.EtcdVersion, m.Name)
		default:
			l.hold(NotYet, "the change to etcd %s waits until the daemon of %s has checked its member's data",
				l.spec.EtcdVersion, m.Name)
		}
	}
	return len(l.holds) > before
}

// versionGates holds, and reports false, where something has to be right before a
// member is changed to next.
func (l *view) versionGates(members []Runner, next etcdversion.Version) bool {
	before := len(l.holds)
	change := fmt.Sprintf("the change to etcd %s", next)
	var lacking []string
	for _, m := range members {
		if l.node(m.Name).Reachable && !slices.Contains(m.Has, next) {
			lacking = append(lacking, string(m.Name)+l.broken(m.Name, next))
		}
	}
	if len(lacking) > 0 {
		l.hold(BinaryMissing, "%s waits: %s have no binaries of it; on each: etcdadm download --version=%s", change,
			strings.Join(lacking, ", "), next)
	}
	for _, m := range members {
		for _, h := range cluster.HazardsFrom(m.Hazards, m.runs(), next) {
			if !m.Accepted {
				l.hold(VersionHazard, "%s waits: the data of %s has what it does not tolerate, %s; %s%s", change, m.Name, h,
					h.Fix(next), l.acceptance(true))
			}
		}
	}
	l.keepsSettings(change, next)
	for _, m := range l.obs.Members {
		n := l.nodeOf(m)
		switch {
		case n == nil || !n.Reachable || n.Assigned == nil:
			l.hold(NodeUnreachable, "%s waits for the daemon of %s", change, l.called(m))
		case m.Learner:
			l.hold(LearnerBehind, "%s waits until %s is a voter", change, l.called(m))
		case !l.serves(m):
			l.hold(QuorumMargin, "%s waits until %s serves", change, l.called(m))
		case len(m.Alarms) > 0:
			l.hold(Alarm, "%s waits until the alarm of %s is disarmed", change, l.called(m))
		case n.Process.State != cluster.ProcessRunning || n.Differs != "" || n.Process.NoReport != nil:
			l.hold(QuorumMargin, "%s waits until %s is healthy", change, l.called(m))
		case n.Comparing && sameVersion(members):
			l.hold(NotYet, "%s waits until the data of %s has been compared with that of the others", change, l.called(m))
		case n.Disk.MemberID != m.ID:
			l.hold(NotYet, "%s waits until the daemon of %s has recorded which member it runs", change, l.called(m))
		case l.applied() > m.Applied+cluster.MaxBehind:
			l.hold(QuorumMargin, "%s waits until %s has caught up", change, l.called(m))
		case n.Assigned.Quarantined && l.surplus(m):
			l.hold(NotYet, "%s waits until %s is removed", change, l.called(m))
		case n.Assigned.Quarantined:
			l.hold(NotYet, "%s waits until %s is open to clients", change, l.called(m))
		case n.FreeBytes > 0 && n.FreeBytes < 3*logFile:
			l.hold(DiskFull, "%s waits: %s has %d MiB free and needs %d MiB", change, n.Name, n.FreeBytes>>20, 3*logFile>>20)
		}
	}
	spare := len(l.voters)-1 >= cluster.Quorum(len(l.voters))
	if !spare && l.spec.MemberCount > len(l.voters) {
		l.hold(QuorumMargin, "%s waits until there are %d voters: of %d none can be spared", change, l.spec.MemberCount,
			len(l.voters))
	}
	l.linkedWithout(cluster.Member{}, change)
	return len(l.holds) == before && !l.frozen
}

// sameVersion reports whether all members are to run one version: no change of it has begun, or
// the last one is done. Digests of two versions may differ though the data does not.
func sameVersion(members []Runner) bool {
	return !slices.ContainsFunc(members, func(m Runner) bool { return m.Assigned != members[0].Assigned })
}

// keepsSettings holds for each member that would lose an operator's settings with next.
func (l *view) keepsSettings(change string, next etcdversion.Version) {
	for _, m := range l.obs.Members {
		if n := l.nodeOf(m); n != nil && n.Assigned != nil && n.Assigned.Version.Minor != next.Minor {
			if lost := n.LostBefore(next); len(lost) > 0 {
				l.hold(VersionSettings, "%s waits: on %s %s; take it out of the environment of its daemon", change, n.Name,
					strings.Join(lost, "; "))
			}
		}
	}
}

// broken says what is wrong with a node's binary of a version, empty for nothing.
func (l *view) broken(name cluster.NodeName, v etcdversion.Version) string {
	var why []string
	for _, b := range l.node(name).Broken {
		if b.Version == v {
			why = append(why, b.Why)
		}
	}
	if len(why) == 0 {
		return ""
	}
	return " (" + strings.Join(why, "; ") + ")"
}

// nextToChange returns the member that changes to next now: the first follower by
// name, at last the leader; nil for none. On the way to a later minor version, no
// member is changed to an earlier patch.
func (l *view) nextToChange(next etcdversion.Version) *cluster.Member {
	var leader *cluster.Member
	for i, m := range l.voters {
		if n := l.nodeOf(m); n == nil || n.Assigned == nil || n.Assigned.Version == next ||
			onTheWay(n.Assigned.Version, next, l.spec.EtcdVersion) {
			continue
		}
		if m.ID != l.obs.Leader {
			return &l.voters[i]
		}
		leader = &l.voters[i]
	}
	return leader
}

// onTheWay reports whether a member that runs has next behind it on the way to a
// later minor version.
func onTheWay(runs, next, want etcdversion.Version) bool {
	return want.Minor > next.Minor && runs.Minor == next.Minor && runs.Compare(next) > 0
}

// changeVersion predicts a change that succeeds.
func (p *prediction) changeVersion(op *MemberChangeVersion) {
	n := p.node(op.Node)
	if n.Assigned == nil {
		return
	}
	if n.Assigned.Version.Minor != op.To.Minor {
		n.OldLog = oldLogOf(n.Assigned.Version, op.To)
	}
	n.Assigned.Version, n.Process.Version, n.Change, n.Hazards = op.To, op.To, nil, nil
	finished := true
	for i := range p.Members {
		m := &p.Members[i]
		if m.Name == op.Node && !m.Version.IsZero() {
			m.Version = op.To
		}
		if m.Name == op.Node && !op.To.AtLeast(3, 6) {
			m.Storage = etcdversion.Version{} // it does not say
		}
		h := p.node(m.Name)
		finished = finished && h.Assigned != nil && minorOf(h.Assigned.Version) == p.Downgrade
	}
	if finished {
		p.Downgrade = etcdversion.Version{} // by etcd's leader
	}
	p.raiseClusterVersion()
}

// leadsTo reports whether the version of a change that failed is want, or on the way
// to it: of a minor between.
func leadsTo(c cluster.VersionChange, want etcdversion.Version) bool {
	further := minorOf(want).Compare(minorOf(c.To))
	if c.To.Compare(c.From) > 0 {
		return want == c.To || further > 0
	}
	return want == c.To || further < 0
}
