package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func (c checker) electors(op *ElectorsWrite) error {
	have := c.obs.Electors
	if have.Token == op.Token && slices.Equal(have.Names, op.Names) {
		return nil // nothing to do
	}
	if have.Token == op.Token && !slices.Equal(have.Names, op.Expect) {
		return &StaleError{Want: names(op.Expect), Got: names(have.Names)}
	}
	if have.Token != op.Token || len(have.Names) == 0 {
		return nil
	}
	changed := differing(have.Names, op.Names)
	if len(changed) > 1 || len(op.Names) == 0 {
		return unsafe("electors", "the record may change by one name, not by %d", len(changed))
	}
	// A node that has forgotten its votes is no elector, whatever the record says:
	// it leaves, and comes back from the record without it.
	n, err := c.node(changed[0])
	if err == nil && !slices.Contains(op.Names, n.Name) && n.Reachable && n.Electors.Token != op.Token {
		return nil
	}
	if op.Token != c.obs.Token {
		return nil
	}
	return c.follows(c.votingNodes(0), op.Names)
}

// follows makes sure that a majority of these electors is left whenever a
// majority of these voters is: either they are the same nodes, or they differ by
// one and the number of voters is even. What differs by more already may come
// nearer.
func (c checker) follows(voters, electors []cluster.NodeName) error {
	e := c.obs.Electors
	if e.Token != c.obs.Token || len(e.Names) == 0 || len(c.obs.Members) == 0 {
		return nil // nobody has ever recorded them
	}
	after := len(differing(voters, electors))
	if after == 0 || after == 1 && len(voters)%2 == 0 {
		return nil
	}
	before := len(differing(c.votingNodes(0), e.Names))
	if before > 0 && after < before {
		return nil
	}
	return unsafe("electors", "with the voters %s and the electors %s, the loss of nodes that etcd can spare could leave no majority of the electors",
		join(voters), join(electors))
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
