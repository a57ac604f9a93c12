package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

func (c checker) leaseVoters(op *LeaseVotersWrite) error {
	have := c.obs.LeaseVoters
	if have.Token == op.Token && slices.Equal(have.Names, op.Names) {
		return nil // nothing to do
	}
	if have.Token == op.Token && !slices.Equal(have.Names, op.Expect) {
		return &StaleError{Want: names(op.Expect), Got: names(have.Names)}
	}
	if have.Token != op.Token || len(have.Names) == 0 {
		return unsafe("lease-voters", "the lease voters of incarnation %s, which alone can change the record, are unknown", op.Token)
	}
	changed := differing(have.Names, op.Names)
	if len(changed) > 1 || len(op.Names) == 0 {
		return unsafe("lease-voters", "the record may change by one name at a time, not by %d", len(changed))
	}
	// A node that has forgotten its votes is no lease voter, whatever the record says:
	// it leaves, and comes back from the record without it.
	n, err := c.node(changed[0])
	if err == nil && !slices.Contains(op.Names, n.Name) && n.Reachable && n.LeaseVoters.Token != op.Token {
		return nil
	}
	if op.Token != c.obs.Token {
		return nil
	}
	return c.follows(c.votingNodes(0), op.Names)
}

// recoverLeaseVoters holds the recovery to the argument for it: etcd has a quorum,
// which lists these voters; of each known node it is certain that it answers or
// that it is gone; and what answers could never grant on the old record.
func (c checker) recoverLeaseVoters(op *LeaseVotersRecover) error {
	voters, healthy := c.count(0)
	if op.Token != c.obs.Token || c.obs.Leader == 0 || healthy < cluster.Quorum(voters) {
		return unsafe("quorum", "etcd does not serve incarnation %s with a majority of its voters", op.Token)
	}
	if list := c.votingNodes(0); len(differing(list, op.Names)) > 0 {
		return &StaleError{Want: "voters " + join(op.Names), Got: join(list)}
	}
	e := c.obs.LeaseVoters
	if e.Token == op.Token && len(differing(e.Names, op.Expect)) > 0 {
		return &StaleError{Want: "lease voters " + join(op.Expect), Got: join(e.Names)}
	}
	could := 0
	for _, name := range op.Expect {
		n, err := c.node(name)
		gone := err != nil || !n.Reachable
		blank := !gone && (n.LeaseVoters.Token != op.Token || len(n.LeaseVoters.Names) == 0)
		if !gone && !blank {
			could++
		}
	}
	if len(op.Expect) > 0 && 2*could > len(op.Expect) {
		return unsafe("lease-voters",
			"%d of the lease voters %s can grant the lease, or will when their disks take writes again", could, join(op.Expect))
	}
	seen := c.highestTerm()
	for _, n := range c.obs.Nodes {
		declared := slices.Contains(op.Lost, n.Name)
		recorded := n.LeaseVoters.Token == op.Token && len(n.LeaseVoters.Names) > 0
		switch {
		case !n.Reachable && !declared:
			return unsafe("lease-voters", "%s does not answer and may grant the lease", n.Name)
		case n.Reachable && declared && recorded:
			return unsafe("lease-voters", "%s answers: it is not lost", n.Name)
		case n.Lease.Term >= op.Term && n.Lease.Term <= seen || n.LeaseVoters.Term >= op.Term && n.LeaseVoters.Term <= seen:
			return &StaleError{Want: fmt.Sprintf("no term as high as %d", op.Term), Got: fmt.Sprintf("one at %s", n.Name)}
		}
	}
	if n, err := c.node(op.Node); err != nil || !n.Reachable || !slices.Contains(op.Names, op.Node) {
		return unsafe("lease-voters", "%s hosts no voter that answers", op.Node)
	}
	return nil
}

// highestTerm returns the highest term that nodes report and that can be reached,
// by way of the terms of others, from the lowest one.
func (c checker) highestTerm() cluster.Term {
	var high cluster.Term
	reported := map[cluster.Term]bool{}
	for _, n := range c.obs.Nodes {
		for _, t := range []cluster.Term{n.Lease.Term, n.LeaseVoters.Term} {
			if reported[t] = true; t > 0 && (high == 0 || t < high) {
				high = t
			}
		}
	}
	for before := cluster.Term(0); before != high; {
		before = high
		for t := range reported {
			if lease.InReach(before, t) {
				high = max(high, t)
			}
		}
	}
	return high
}

// follows makes sure that a majority of these lease voters is left whenever a
// majority of these voters is: either they are the same nodes, or they differ by
// one and the number of voters is even. What differs by more already may come
// nearer.
func (c checker) follows(voters, leaseVoters []cluster.NodeName) error {
	e := c.obs.LeaseVoters
	if e.Token != c.obs.Token || len(e.Names) == 0 || len(c.obs.Members) == 0 {
		return nil // nobody has ever recorded them
	}
	after := len(differing(voters, leaseVoters))
	if after == 0 || after == 1 && len(voters)%2 == 0 {
		return nil
	}
	before := len(differing(c.votingNodes(0), e.Names))
	if before > 0 && after < before {
		return nil
	}
	return unsafe("lease-voters",
		"with the voters %s and the lease voters %s, the loss of nodes that etcd can spare could leave no majority of the "+
			"lease voters",
		join(voters), join(leaseVoters))
}

// votingNodes returns the nodes that host the voters, without the member of
// that id.
func (c checker) votingNodes(leaving cluster.MemberID) []cluster.NodeName {
	var list []cluster.NodeName
	for _, m := range c.obs.Members {
		if !m.Learner && m.ID != leaving {
			list = append(list, c.hostName(m))
		}
	}
	return list
}

// hostName returns the name of the node that hosts m: its own, or for one that
// has none yet that of the node with its address.
func (c checker) hostName(m cluster.Member) cluster.NodeName {
	if m.Name != "" {
		return m.Name
	}
	for _, n := range c.obs.Nodes {
		if overlap(n.URLs.Peer, m.PeerURLs) {
			return n.Name
		}
	}
	return cluster.NodeName(fmt.Sprintf("member-%s", m.ID))
}

// differing returns the names that are in one of the two lists only.
func differing(a, b []cluster.NodeName) []cluster.NodeName {
	count := map[cluster.NodeName]int{}
	for _, n := range a {
		count[n]++
	}
	for _, n := range b {
		count[n]--
	}
	var list []cluster.NodeName
	for n, left := range count {
		if left != 0 {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}

func join(list []cluster.NodeName) string {
	sorted := slices.Sorted(slices.Values(list))
	words := make([]string, len(sorted))
	for i, n := range sorted {
		words[i] = string(n)
	}
	return strings.Join(words, ", ")
}
