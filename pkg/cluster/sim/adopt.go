package sim

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// adoptLeaseVoters compares what it receives with what the quorum says, with the record in
// the store, and with what the other voters report.
func (w *world) adoptLeaseVoters(n *node, op *plan.LeaseVotersAdopt) error {
	g := w.group(op.Token)
	if n.assigned == nil || n.assigned.Token != op.Token || g == nil || !w.reports(g, n) || w.unreadable(n) {
		return errUnreachable
	}
	var voters []cluster.NodeName
	own := false
	for _, m := range g.members {
		if !m.learner && m.name != "" {
			voters = append(voters, m.name)
			own = own || m.name == n.name && m.id == n.disk.id
		}
	}
	slices.Sort(voters)
	names := slices.Sorted(slices.Values(op.Names))
	var newest cluster.Incarnation
	if i := len(w.store.incarnations); i > 0 {
		newest = w.store.incarnations[i-1]
	}
	recorded := slices.Sorted(slices.Values(cluster.InitialMemberNames(newest.Voters)))
	if !own || !slices.Equal(voters, names) || newest.Token != op.Token || newest.Restored != nil ||
		!slices.Equal(recorded, names) || !newest.At.After(w.store.created) {
		return errRefuse
	}
	answers := w.standings(n, names)
	for _, name := range names {
		s, ok := answers[name]
		e := s.LeaseVoters
		switch {
		case name == n.name:
		case !ok:
			return errUnreachable
		case e.Token == op.Token && (e.Term > 0 || e.Seq > 0 || !slices.Equal(e.Names, names)):
			return errRefuse
		}
	}
	d, err := n.grantor.Durable.Prepare(op.Token, names)
	if err == nil {
		n.grantor.Durable = d
	}
	return err
}
