package plan

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// holdPoisoned reports, and says, whether a new member of a version could not run: it gets the
// leader's data as a raft snapshot, and etcd of a later minor version ends with keys of the v2
// store in it. Members that have changed before somebody wrote those have none.
func (l *view) holdPoisoned(name cluster.NodeName, version etcdversion.Version) bool {
	i := slices.IndexFunc(l.voters, func(m cluster.Member) bool { return m.ID == l.obs.Leader })
	if i < 0 || !slices.Contains(cluster.HazardsBefore(version), cluster.HazardV2Content) {
		return false
	}
	n := l.nodeOf(l.voters[i])
	if n == nil || !n.Reachable || n.Assigned == nil || n.Assigned.Version.Minor >= version.Minor {
		return false
	}
	h := cluster.HazardOf(n.Hazards, cluster.HazardV2Content)
	if h.State != cluster.HazardPresent || h.Deleted {
		return false
	}
	l.hold(VersionHazard, "%s waits to join with etcd %s: it gets the data of the leader, %s, which has what that does "+
		"not tolerate, %s; %s", name, version, n.Name, h, h.Fix(version))
	return true
}
