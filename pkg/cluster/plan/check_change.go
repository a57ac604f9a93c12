package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

func (c checker) addLearner(op *AddLearner) error {
	if err := c.expectVoters(op.ExpectVoters); err != nil {
		return err
	}
	n, err := c.node(op.Node)
	if err != nil {
		return err
	}
	for _, m := range c.obs.Members {
		if m.Learner {
			return unsafe("one-change", "member %s is still a learner", m.ID)
		}
	}
	if _, ok := c.hosted(n); ok {
		return unsafe("one-change", "%s already hosts a member", op.Node)
	}
	voters, healthy := c.count(0)
	if healthy < cluster.Quorum(voters) {
		return unsafe("quorum", "%d of %d voters are healthy", healthy, voters)
	}
	if n.Disk.State != cluster.DiskEmpty {
		return unsafe("live-data", "the disk of %s is not empty", op.Node)
	}
	return c.backup("adding a member")
}

func (c checker) promote(op *Promote) error {
	for _, m := range c.obs.Members {
		if m.Name != op.Name {
			continue
		}
		if !m.Learner {
			return nil // nothing to do
		}
		if err := c.expectVoters(op.ExpectVoters); err != nil {
			return err
		}
		if !c.reliable(m) {
			return unsafe("quorum", "%s cannot be relied on for its vote", op.Name)
		}
		if voters, healthy := c.count(0); healthy+1 < cluster.Quorum(voters+1) {
			return unsafe("quorum", "promoting %s would leave %d healthy voters of %d", op.Name, healthy+1, voters+1)
		}
		if voters, _ := c.count(0); c.together(0, &m) < cluster.Quorum(voters+1) {
			return scattered("with", op.Name)
		}
		if err := c.accepts(op.AcceptUnreached); err != nil {
			return err
		}
		if err := c.reached(m, op.AcceptUnreached); err != nil {
			return err
		}
		return c.follows(append(c.votingNodes(0), c.hostName(m)), c.obs.LeaseVoters.Names)
	}
	return &StaleError{Want: fmt.Sprintf("a learner %s", op.Name), Got: "none"}
}

// accepts makes sure that who is accepted as unreached is a voter, and not misspelled.
func (c checker) accepts(names []cluster.NodeName) error {
	var voters []string
	for _, m := range c.obs.Members {
		if !m.Learner {
			voters = append(voters, string(m.Name))
		}
	}
	for _, name := range names {
		if !slices.Contains(voters, string(name)) {
			return unsafe("unknown", "--accept-unreached=%s names no voter, the voters are %s", name, strings.Join(voters, ", "))
		}
	}
	return nil
}

func (c checker) remove(op *Remove) error {
	for _, m := range c.obs.Members {
		if m.ID != op.ID {
			continue
		}
		if m.Name != op.ExpectName {
			return &StaleError{Want: fmt.Sprintf("name %q", string(op.ExpectName)), Got: fmt.Sprintf("%q", string(m.Name))}
		}
		if err := c.expectVoters(op.ExpectVoters); err != nil {
			return err
		}
		if m.Learner {
			return nil
		}
		return c.removeVoter(m)
	}
	return nil // nothing to do
}

// drain makes sure that the member may be removed: its process ends.
func (c checker) drain(op *MemberDrain) error {
	n, err := c.node(op.Node)
	if err != nil {
		return err
	}
	m, member := c.hosted(n)
	switch {
	case !n.Reachable || n.Assigned == nil || !member || m.Learner:
		return unsafe("quorum", "%s runs no voter", op.Node)
	case n.Assigned.Token != op.ExpectToken:
		return &StaleError{Want: "incarnation " + string(op.ExpectToken), Got: string(n.Assigned.Token)}
	case m.ID != op.ExpectMemberID:
		return &StaleError{Want: "member " + op.ExpectMemberID.String(), Got: m.ID.String()}
	}
	if err := c.removeVoter(m); err != nil {
		return err
	}
	return c.finishes(m)
}

// The least that a drain needs: etcd refuses to remove a voter where too few have been connected for
// 5 s, and before 3.5.21 it may break off what it has begun when it is asked to end.
const drainGrace = 10 * time.Second

var drainFrom = etcdversion.Must("3.5.21")

// finishes makes sure that the process of m does not end for nothing.
func (c checker) finishes(m cluster.Member) error {
	if m.Version.Compare(drainFrom) < 0 {
		return unsafe("drain", "%s runs etcd %s, and only %s and later finish what clients have asked before they end; "+
			"etcdadm member remove does without", m.Name, m.Version, drainFrom)
	}
	for _, v := range c.obs.Members {
		if v.Learner || !c.reliable(v) {
			continue
		}
		n, err := c.node(v.Name)
		switch {
		case err != nil || n.Process.Since.IsZero():
			return unsafe("drain", "it is not known for how long the etcd of %s has run, and etcd refuses removals at first; "+
				"etcdadm member remove does without", v.Name)
		case c.obs.At.Sub(n.Process.Since) < drainGrace:
			return passing("drain", "the etcd of %s has run for %s, and until it has for %s etcd may refuse to remove %s", v.Name,
				c.obs.At.Sub(n.Process.Since).Round(time.Second), drainGrace, m.Name)
		}
	}
	return nil
}

func (c checker) removeVoter(m cluster.Member) error {
	if m.ID == c.obs.Leader {
		return unsafe("quorum", "%s is the raft leader", m.Name)
	}
	for _, o := range c.obs.Members {
		if o.Learner {
			return unsafe("one-change", "member %s is still a learner", o.ID)
		}
	}
	left, healthy := c.count(m.ID)
	if left == 0 || healthy < cluster.Quorum(left) {
		return unsafe("quorum", "removing %s would leave %d healthy voters of %d", m.Name, healthy, left)
	}
	if c.together(m.ID, nil) < cluster.Quorum(left) {
		return scattered("without", m.Name)
	}
	if err := c.follows(c.votingNodes(m.ID), c.obs.LeaseVoters.Names); err != nil {
		return err
	}
	return c.backup("removing a voter")
}

func (c checker) moveLeader(op *MoveLeader) error {
	for _, m := range c.obs.Members {
		if m.Name == op.To {
			if m.Learner || !c.reliable(m) {
				return unsafe("quorum", "%s is not a healthy voter", op.To)
			}
			return nil
		}
	}
	return &StaleError{Want: fmt.Sprintf("a voter %s", op.To), Got: "none"}
}

func (c checker) setAside(op *DataSetAside) error {
	n, err := c.node(op.Node)
	if err != nil {
		return err
	}
	if n.Process.State != cluster.ProcessStopped {
		return unsafe("live-data", "an etcd process runs on %s", op.Node)
	}
	if n.Disk.State == cluster.DiskData && (n.Disk.Token != op.Token || n.Disk.MemberID != op.ExpectMemberID) {
		return &StaleError{
			Want: fmt.Sprintf("data of member %s, incarnation %s", op.ExpectMemberID, op.Token),
			Got:  fmt.Sprintf("member %s, incarnation %s", n.Disk.MemberID, n.Disk.Token),
		}
	}
	if n.Disk.State != cluster.DiskData {
		return nil
	}
	// Without the list, the token of the cluster may not be known either.
	if len(c.obs.Members) == 0 {
		return unsafe("live-data", "the member list is not known, so the data of %s may be needed", op.Node)
	}
	if !c.policy.Unbacked && c.later(n, n.Disk.Token) {
		return unsafe("live-data", "%s has data of incarnation %s, which began above all that %s has reached, and has no record",
			op.Node, n.Disk.Token, c.obs.Token)
	}
	if !c.policy.Unbacked && c.mayBeNewer(n.Disk.Token) {
		return unsafe("live-data", "%s has data of incarnation %s, which may be newer than %s, and the store does not answer",
			op.Node, n.Disk.Token, c.obs.Token)
	}
	m, member := c.owner(n)
	if !member && n.Disk.MemberID == 0 && n.Disk.Token == c.obs.Token {
		m, member = c.hosted(n)
	}
	// A learner without a name has not finished its first start.
	if member && !(m.Learner && m.Name == "") {
		return unsafe("live-data", "%s holds the data of current member %s", op.Node, m.ID)
	}
	return nil
}
