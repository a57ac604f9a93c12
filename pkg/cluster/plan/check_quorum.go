package plan

import (
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// count returns the voters and the healthy voters of the observed cluster,
// without the member of that id.
func (c checker) count(without cluster.MemberID) (voters, healthy int) {
	for _, m := range c.obs.Members {
		if m.Learner || m.ID == without {
			continue
		}
		voters++
		if c.reliable(m) {
			healthy++
		}
	}
	return voters, healthy
}

// reliable reports whether m can be counted on to commit what comes next: it has
// served in this observation, the disk that its node reports takes writes, and its
// data is that of the others.
func (c checker) reliable(m cluster.Member) bool {
	switch m.Condition {
	case cluster.Late, cluster.Stuck, cluster.Hung, cluster.Corrupt, cluster.Apart, cluster.Unstarted, cluster.Down:
		return false
	}
	for _, n := range c.obs.Nodes {
		if n.Name != m.Name || !n.Reachable || n.Disk.MemberID != 0 && n.Disk.MemberID != m.ID {
			continue
		}
		if n.Storage.State == cluster.StorageHung || n.Storage.State == cluster.StorageFailing ||
			n.Storage.Pending >= time.Second || n.Differs != "" {
			return false
		}
	}
	return m.Healthy
}

// stop allows to stop what is no member, what has no part in the quorum, and a
// member that the quorum can spare.
func (c checker) stop(name cluster.NodeName) error {
	n, err := c.node(name)
	if err != nil {
		return err
	}
	m, member := c.hosted(n)
	if !member || n.Disk.MemberID != 0 && n.Disk.MemberID != m.ID || m.Learner || idle(m, n) {
		return nil
	}
	voters, _ := c.count(0)
	if _, left := c.count(m.ID); left < cluster.Quorum(voters) {
		return unsafe("quorum", "stopping %s would leave %d healthy voters of %d", name, left, voters)
	}
	if c.together(m.ID, nil) < cluster.Quorum(voters) {
		return scattered("without", name)
	}
	return nil
}

// idle reports whether the quorum does without m already. One that is stuck, or
// whose disk hangs now, still votes, or does so again in a moment.
func idle(m cluster.Member, n cluster.Node) bool {
	switch m.Condition {
	case cluster.Down, cluster.Unstarted, cluster.Corrupt:
		return true
	case "": // the source does not say
		return !m.Healthy
	}
	return n.Reachable && n.Process.State != cluster.ProcessRunning
}

// lift allows the restart that opens a member to clients where the quorum can
// spare the member, or where all voters are healthy: a cluster of one or two
// can be opened in no other way.
func (c checker) lift(op *QuarantineLift) error {
	n, err := c.node(op.Node)
	if err != nil {
		return err
	}
	if n.Assigned == nil || !n.Assigned.Quarantined {
		return nil // nothing to do
	}
	if s := c.undecided(); s != nil {
		return unsafe("restore", "%s is staged, and may be decided on: what clients write to %s would be lost", s.Backup, op.Node)
	}
	if err := c.sharesStore(op.Node); err != nil {
		return err
	}
	if why := c.openInstead(); why != "" {
		return unsafe("restore", "%s", why)
	}
	voters, healthy := c.count(0)
	if rec := newestRecord(c.obs); rec != nil && rec.Restored != nil && rec.Token == c.obs.Token &&
		n.Assigned.Token == rec.Token {
		if serving := c.stillServing(*rec); len(serving) > 0 {
			return unsafe("restore", "the old incarnation may still be served by %s", names(serving))
		}
		if healthy >= cluster.Quorum(voters) {
			return nil
		}
	}
	if healthy == voters && voters-1 < cluster.Quorum(voters) {
		return nil // one or two are opened in no other way
	}
	if healthy >= cluster.Quorum(voters) && c.closed() == nil {
		return nil // no client waits for its restart
	}
	return c.stop(op.Node)
}

// sharesStore makes sure that no member's node that answers lacks its record in this control
// store: the store that it uses may have a restore for which name was closed.
func (c checker) sharesStore(name cluster.NodeName) error {
	if len(c.policy.StaticNodes) > 0 || !c.obs.Store.Reachable {
		return nil // no store is shared, or none was read: a person may open members all the same
	}
	for _, n := range c.obs.Nodes {
		m, member := c.hosted(n)
		if member && !m.Learner && n.Reachable && !n.Published && n.Name != c.obs.Observer {
			return unsafe("restore", "%s may use another control store, with a restore for which %s was closed", n.Name, name)
		}
	}
	return nil
}

// unknownHere reports whether the request of what is staged may be in a store that is not
// this one.
func (c checker) unknownHere(s cluster.Staged) bool {
	if len(c.policy.StaticNodes) > 0 {
		return false // no store is shared
	}
	for _, r := range c.obs.Store.Requests {
		if r.Name == s.Request {
			return false
		}
	}
	for _, i := range c.obs.Store.Incarnations {
		if i.Token == s.Token || i.Restored != nil && i.Restored.Request == s.Request {
			return false
		}
	}
	for _, n := range c.obs.Nodes {
		if n.Name != c.obs.Observer && n.Reachable && !n.Published && n.Staged != nil && n.Staged.Token == s.Token {
			return true
		}
	}
	return false
}

// undecided returns what is staged on all nodes that answer of those that it is for, or for a
// request that may be in another store, and may be decided on, or is, without anybody here
// knowing; nil for nothing.
func (c checker) undecided() *cluster.Staged {
	for _, o := range c.obs.Nodes {
		s := o.Staged
		if !o.Reachable || o.Storage.Bad() || s == nil || s.Token == c.obs.Token {
			continue
		}
		missing := false
		for _, i := range c.obs.Store.Incarnations {
			other := i.Restored != nil && i.Restored.Request == s.Request && i.Token != s.Token
			missing = missing || other && !recordedToken(c.obs, s.Token)
		}
		for _, v := range s.Voters {
			n, err := c.node(v.Name)
			has := n.Staged != nil && n.Staged.Token == s.Token && n.Staged.Ready
			went := n.Prepared != nil && n.Prepared.Token == s.Token || n.Disk.Token == s.Token ||
				n.Assigned != nil && n.Assigned.Token == s.Token
			missing = missing || err == nil && n.Reachable && !has && !went
		}
		if !missing || c.unknownHere(*s) {
			return s
		}
	}
	return nil
}
