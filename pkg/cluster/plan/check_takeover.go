package plan

import (
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// alone makes sure that no member, and nothing that decides on members, is changed while
// a daemon of the existing etcd-manager may do the same.
func (c checker) alone(op Operation) error {
	switch op.(type) {
	case *AddLearner, *Promote, *Remove, *MemberUpdate, *MemberChangeVersion, *DowngradeEnable, *DataSetAside,
		*IncarnationCreate, *LeaseVotersAdopt, *RestoreStage:
	default:
		return nil
	}
	for _, n := range c.obs.Nodes {
		if n.Reachable && len(n.Neighbours.Existing) > 0 {
			return unsafe("take-over", "%s has heard a daemon of the existing etcd-manager, %s, which may act", n.Name,
				n.Neighbours.Existing[0])
		}
	}
	return nil
}

// takesOver holds the record of a cluster that runs, and in which nobody can hold a
// lease, to the evidence for it.
func (c checker) takesOver(op *IncarnationCreate) error {
	if e := c.obs.LeaseVoters; e.Token == op.Token && len(e.Names) > 0 {
		return nil // it is made under a lease
	}
	if recordedToken(c.obs, op.Token) {
		return unsafe("take-over", "incarnation %s has a record, and its lease voters are unknown", op.Token)
	}
	return c.agreed(op.Token, cluster.InitialMemberNames(op.Voters), nil)
}

// adopt makes sure that a node begins with lease voters only where all voters' nodes can
// begin with the same, and before anybody could hold a lease by them.
func (c checker) adopt(op *LeaseVotersAdopt) error {
	rec := newestRecord(c.obs)
	switch {
	case op.Token != c.obs.Token || rec == nil || rec.Token != op.Token || rec.Restored != nil:
		return unsafe("take-over", "the newest record in the store is not that of incarnation %s", op.Token)
	case len(differing(cluster.InitialMemberNames(rec.Voters), op.Names)) > 0:
		return &StaleError{
			Want: "a record of " + join(op.Names), Got: "one of " + join(cluster.InitialMemberNames(rec.Voters)),
		}
	case c.obs.Store.Created.Equal(cluster.MarkerUnknown):
		return unsafe("take-over", "it is unknown whether the store has the marker of the cluster")
	case !rec.At.After(c.obs.Store.Created):
		return unsafe("take-over", "a coordinator has been at work since the record was written")
	case !slices.Contains(op.Names, op.Node):
		return unsafe("take-over", "%s is not one of the voters %s", op.Node, join(op.Names))
	}
	return c.agreed(op.Token, op.Names, func(e cluster.LeaseVoters) bool {
		return e.Term == 0 && e.Seq == 0 && len(differing(e.Names, op.Names)) == 0
	})
}

// agreed makes sure that all nodes answer, that these are the voters as the quorum reports
// them, each on the node with its data, and that no node knows of other lease voters. begun
// says which record a node may have already, nil for none.
func (c checker) agreed(token cluster.Token, names []cluster.NodeName, begun func(cluster.LeaseVoters) bool) error {
	voters, healthy := c.count(0)
	if !c.obs.Store.Reachable || c.obs.Leader == 0 || 2*healthy <= voters {
		return unsafe("take-over", "the store and a majority of the voters have to answer")
	}
	var started []cluster.NodeName
	for _, m := range c.obs.Members {
		if m.Learner || m.Name == "" {
			continue
		}
		started = append(started, m.Name)
		n, err := c.node(m.Name)
		if err != nil {
			return err
		}
		empty := n.Disk.State == cluster.DiskEmpty && n.Assigned == nil
		runs := n.Disk.State == cluster.DiskData && n.Disk.Token == token && n.Disk.MemberID == m.ID &&
			n.Assigned != nil && n.Assigned.Token == token
		switch {
		case n.Conflict != "" || !empty && !runs:
			return unsafe("take-over", "%s does not have the data of member %s", n.Name, m.ID)
		case !n.Published && n.Name != c.obs.Observer:
			return unsafe("take-over", "%s may use another store", n.Name)
		case !n.Neighbours.Listened || n.FactsAge > time.Second:
			return unsafe("take-over", "%s may not have heard yet of a daemon of the existing etcd-manager", n.Name)
		}
	}
	if len(differing(started, names)) > 0 {
		return &StaleError{Want: "voters " + join(names), Got: join(started)}
	}
	for _, n := range c.obs.Nodes {
		own := n.LeaseVoters
		switch {
		case !n.Reachable || len(n.Neighbours.Unreachable) > 0:
			return unsafe("take-over", "the state of %s is unknown", n.Name)
		case own.Token == token && len(own.Names) > 0 && (begun == nil || !begun(own)):
			return unsafe("take-over", "%s knows the lease voters %s", n.Name, join(own.Names))
		case n.Assigned != nil && n.Assigned.Token != token && c.number(n.Assigned.Token) == 0:
			return unsafe("take-over", "%s is to run incarnation %s, which may have a majority too", n.Name, n.Assigned.Token)
		}
	}
	return nil
}
