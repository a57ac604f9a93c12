package sim

import (
	"fmt"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// changeVersion has n run its member with another version. It serves when the
// moment has passed. That it takes the quorum away, or runs what etcd cannot mix,
// is what the invariants look for.
func (w *world) changeVersion(n *node, op *plan.MemberChangeVersion) error {
	if n.assigned == nil || !n.disk.data || n.disk.token != op.ExpectToken || n.disk.id != op.ExpectMemberID {
		return errRefuse
	}
	if n.assigned.Version == op.To {
		return nil
	}
	if n.assigned.Version != op.ExpectVersion {
		return fmt.Errorf("it runs %s: %w", n.assigned.Version, errRefuse)
	}
	g := w.group(op.ExpectToken)
	if m := g.find(op.ExpectMemberID); m != nil && !m.learner {
		w.checkVersion(g, m, op)
	}
	a := *n.assigned
	a.Version = op.To
	n.assigned, n.process = &a, cluster.ProcessRunning
	return nil
}

// checkVersion checks the members' versions once m runs the new one.
func (w *world) checkVersion(g *group, m *member, op *plan.MemberChangeVersion) {
	older := 0
	for i := range g.members {
		o := &g.members[i]
		if o.id == m.id || o.host.assigned == nil {
			continue
		}
		v := o.host.assigned.Version
		if d := v.Minor - op.To.Minor; d < -1 || d > 1 {
			w.violate("version", "%s changes to %s while %s runs %s", m.name, op.To, o.name, v)
		}
		if !o.learner && v.Minor <= op.To.Minor {
			older++
		}
	}
	if op.To.Minor < op.ExpectVersion.Minor && older == 0 {
		w.violate("version", "%s goes back to %s, and nobody runs that any more", m.name, op.To)
	}
	if g.leader == m.id && g.voters() > 1 {
		w.violate("version", "%s changes to %s while it leads", m.name, op.To)
	}
}
