package plan

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// What a later minor version cannot read in a member's log goes with a raft snapshot,
// which is forced as a step of its own.

// snapshotFirst returns what has to be done before the first member is changed to a
// version that cannot read what is in the log: each member takes a raft snapshot. It
// holds where a node has not checked yet.
func (l *view) snapshotFirst(next etcdversion.Version) (op Operation, wait bool) {
	for _, m := range l.voters {
		n := l.nodeOf(m)
		if n == nil || n.Assigned == nil || n.Assigned.Version.AtLeast(next.Major, next.Minor) {
			continue
		}
		force := &MemberForceSnapshot{Node: n.Name, ExpectToken: l.obs.Token, ExpectMemberID: m.ID}
		if len(bySnapshot(*n, next)) > 0 {
			return force, true
		}
		if !readsNoOldLog(next) {
			continue
		}
		switch n.OldLog.State {
		case cluster.HazardAbsent:
		case cluster.HazardPresent:
			return force, true
		case cluster.HazardUnknown:
			// What cannot be read may be damaged, or is being written.
			l.hold(NotYet, "the change to etcd %s waits until the log of %s can be read: %s; if it cannot be read, have it "+
				"write a new one: remove the member, and let it join again", next, n.Name, n.OldLog.What)
			wait = true
		default:
			l.hold(NotYet, "the change to etcd %s waits until the daemon of %s has checked its member's log, which it "+
				"does by itself if it is of the same release as this one", next, n.Name)
			wait = true
		}
	}
	return nil, wait
}

// bySnapshot returns what a raft snapshot has to take away before a node's member changes
// to a version. What 3.7 cannot read is looked for apart: see [cluster.Node.OldLog].
func bySnapshot(n cluster.Node, to etcdversion.Version) []cluster.Hazard {
	if n.Assigned == nil || n.Assigned.Version.Minor >= to.Minor {
		return nil
	}
	return slices.DeleteFunc(cluster.HazardsBySnapshot(n.Hazards, to), func(h cluster.Hazard) bool {
		return h.Kind == cluster.HazardOldLog
	})
}

// readsNoOldLog reports whether a version cannot read what etcd two minor versions
// before it has written into the log.
func readsNoOldLog(v etcdversion.Version) bool {
	return slices.Contains(cluster.HazardsBefore(v), cluster.HazardOldLog)
}

// oldLogOf is what the log of a member has after it has changed from a version.
func oldLogOf(from, to etcdversion.Version) cluster.Hazard {
	next := etcdversion.Version{Major: to.Major, Minor: to.Minor + 1}
	switch {
	case !readsNoOldLog(next):
		return cluster.Hazard{}
	case from.Minor < to.Minor:
		return cluster.Hazard{Kind: cluster.HazardOldLog, State: cluster.HazardPresent}
	}
	return noOldLog
}

var noOldLog = cluster.Hazard{Kind: cluster.HazardOldLog, State: cluster.HazardAbsent}

// noV2Log reports whether a node has found nothing before 3.6 that a raft snapshot takes
// away.
func noV2Log(n cluster.Node) bool {
	return n.Assigned != nil && n.Assigned.Version.Minor == 5 && len(n.Hazards) > 0 &&
		len(cluster.HazardsBySnapshot(n.Hazards, etcdversion.Version{Major: 3, Minor: 6})) == 0 &&
		cluster.HazardOf(n.Hazards, cluster.HazardV2Log).State == cluster.HazardAbsent
}

// forceSnapshot predicts a raft snapshot, which takes away what is in the log.
func (p *prediction) forceSnapshot(op *MemberForceSnapshot) {
	n := p.node(op.Node)
	if n.OldLog.State != "" {
		n.OldLog = noOldLog
	}
	n.Hazards = slices.Clone(n.Hazards)
	for i, h := range n.Hazards {
		if h.BySnapshot() {
			n.Hazards[i] = cluster.Hazard{Kind: h.Kind, State: cluster.HazardAbsent}
		}
	}
}
