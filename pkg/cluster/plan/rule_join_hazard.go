package plan

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// beforeJoin returns what comes before a new member of a version joins, and reports whether it
// waits: it gets the leader's data as a raft snapshot of what is there now, and etcd of a later
// minor version ends with keys of the v2 store in it. Members that have changed before somebody
// wrote those have none. Keys that only the leader's log has show when that has taken a raft
// snapshot, which is forced.
func (l *view) beforeJoin(name cluster.NodeName, version etcdversion.Version) (op Operation, wait bool) {
	i := slices.IndexFunc(l.voters, func(m cluster.Member) bool { return m.ID == l.obs.Leader })
	if i < 0 || !slices.Contains(cluster.HazardsBefore(version), cluster.HazardV2Content) {
		return nil, false
	}
	n := l.nodeOf(l.voters[i])
	if n == nil || !n.Reachable || n.Assigned == nil || n.Assigned.Version.Minor >= version.Minor {
		return nil, false
	}
	if h := cluster.HazardOf(n.Hazards, cluster.HazardV2Content); h.State == cluster.HazardPresent && !h.Deleted {
		l.hold(VersionHazard, "%s waits to join with etcd %s: it gets the data of the leader, %s, which has what that does "+
			"not tolerate, %s; %s", name, version, n.Name, h, h.Fix(version))
		return nil, true
	}
	if len(bySnapshot(*n, version)) > 0 {
		return &MemberForceSnapshot{Node: n.Name, ExpectToken: l.obs.Token, ExpectMemberID: l.voters[i].ID}, true
	}
	return nil, false
}

// beforeReplacement is [view.beforeJoin] for the node that takes the place of a voter, where one
// has to: the first free one, or its own.
func (l *view) beforeReplacement(m cluster.Member, free []*cluster.Node) (op Operation, wait bool) {
	next := l.nodeOf(m)
	if len(free) > 0 {
		next = free[0]
	}
	if next == nil || m.Name == l.unrecorded || neverStarted(m) {
		return nil, false
	}
	return l.beforeJoin(next.Name, l.joinVersion(next))
}
