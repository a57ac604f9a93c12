package plan

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// What Check asks of incarnations. The rules ask the same in other ways.

// number returns the number of the newest record of an incarnation, zero for
// none.
func (c checker) number(token cluster.Token) (number int) {
	for _, i := range c.obs.Store.Incarnations {
		if i.Token == token {
			number = i.Number
		}
	}
	return number
}

// mayBeNewer reports whether an incarnation that a node has data of could be a
// later one than what runs: the store, which could show it, does not answer, and
// nothing that it said before settles it.
func (c checker) mayBeNewer(token cluster.Token) bool {
	if c.obs.Store.Reachable || token == "" || token == c.obs.Token {
		return false
	}
	theirs, ours := c.number(token), c.number(c.obs.Token)
	return theirs == 0 || theirs >= ours
}

// later reports whether n has data of an incarnation without a record whose mark shows
// that it was restored after what runs: half of what a restore adds is more than any
// mark is ahead of what was seen.
func (c checker) later(n cluster.Node, token cluster.Token) bool {
	if token == "" || token == c.obs.Token || c.number(token) > 0 {
		return false
	}
	for _, o := range c.obs.Nodes {
		ours := o.Disk.Token == c.obs.Token || o.Assigned != nil && o.Assigned.Token == c.obs.Token
		if ours && o.Name != n.Name && n.Revision-o.Revision < aboveAll/2 {
			return false
		}
	}
	return n.Revision-c.obs.Revision >= aboveAll/2
}

// needed reports whether what n has staged for an incarnation that has a record
// may still become its member: it has not begun, and its place is not known to be
// another's.
func (c checker) needed(n cluster.Node, token cluster.Token) bool {
	if c.number(token) == 0 || n.Assigned != nil && n.Assigned.Token == token {
		return false
	}
	if c.obs.Token != token || c.obs.Leader == 0 {
		return newestRecord(c.obs).Token == token && !c.neverMajority(*newestRecord(c.obs))
	}
	for _, m := range c.obs.Members {
		initialMember := m.Name == n.Name || cluster.SharePeerURL(m.PeerURLs, n.URLs.Peer)
		if initialMember && !m.Learner && len(m.ClientURLs) == 0 {
			return true
		}
	}
	return false
}

// neverMajority reports whether a restored incarnation has never run anywhere, as far as is
// known, and will never have a majority: too few of its voters have, or may have, what
// it is to begin with.
func (c checker) neverMajority(rec cluster.Incarnation) bool {
	if rec.Restored == nil || !c.obs.Store.Reachable || c.obs.Store.Revision >= rec.Restored.Revision {
		return false
	}
	possible, answers, waiting, unheard := len(rec.Voters), 0, 0, 0
	for _, n := range c.obs.Nodes {
		voter := slices.ContainsFunc(rec.Voters, func(s cluster.InitialMember) bool { return s.Name == n.Name })
		if began(n, rec) || !n.Reachable && holds(n, rec.Token) {
			return false
		}
		switch {
		case !n.Reachable && !voter:
			unheard++
		case n.Reachable && voter && holds(n, rec.Token):
			answers, waiting = answers+1, waiting+1
		case n.Reachable && voter:
			answers, possible = answers+1, possible-1
		}
	}
	if 2*(len(rec.Voters)-waiting) > len(rec.Voters) && unheard > 0 {
		return false // it may have had a majority, and got more members
	}
	return 2*possible <= len(rec.Voters) && 2*answers > len(rec.Voters)
}

// holds reports whether n has staged what an incarnation is to begin with, or has
// promised to begin it.
func holds(n cluster.Node, token cluster.Token) bool {
	return n.Staged != nil && n.Staged.Token == token || n.Prepared != nil && n.Prepared.Token == token
}

// began reports whether n may have taken part in a restored incarnation.
func began(n cluster.Node, rec cluster.Incarnation) bool {
	for _, s := range n.SetAside {
		if s.Of(rec.Token) {
			return true
		}
	}
	promised := n.Prepared != nil && n.Prepared.Token == rec.Token && n.Disk.State == cluster.DiskEmpty
	switch {
	case n.Disk.State == cluster.DiskUnreadable, n.Disk.Token == rec.Token:
		return true
	case n.Assigned != nil && n.Assigned.Token == rec.Token && !promised:
		return true
	case n.LeaseVoters.Token == rec.Token && !promised:
		return true
	}
	// The promise is made with the mark that the incarnation begins with.
	return n.Revision > rec.Restored.Revision || n.Revision == rec.Restored.Revision && !promised
}

// stillServing returns the nodes that may serve clients of what ran before rec:
// those that say so, and, if they are more than half of the lease voters of then,
// those that say nothing, or cannot be stopped on a disk that hangs.
func (c checker) stillServing(rec cluster.Incarnation) (list []cluster.NodeName) {
	var unheard []cluster.NodeName
	for _, n := range c.obs.Nodes {
		if n.Assigned != nil && n.Assigned.Token == rec.Token {
			continue
		}
		voted := slices.Contains(rec.Restored.Before, n.Name)
		runs := n.Assigned != nil && !n.Assigned.Stopped && c.recordedBefore(n.Assigned.Token, rec.Number)
		switch hears := n.Reachable && !n.Storage.Bad(); {
		case !hears && voted:
			unheard = append(unheard, n.Name)
		case hears && runs:
			list = append(list, n.Name)
		}
	}
	if 2*len(unheard) > len(rec.Restored.Before) {
		list = append(list, unheard...)
	}
	return list
}

// notOfStore counts the listed nodes that are not known to use this store.
func (c checker) notOfStore() int {
	count := len(c.policy.StaticNodes)
	for _, n := range c.obs.Nodes {
		uses := n.Published || n.Name == c.obs.Observer
		if n.Reachable && uses && slices.Contains(c.policy.StaticNodes, n.Name) {
			count--
		}
	}
	return count
}

// oneStore makes sure that two stores cannot decide on two bootstraps: all listed
// nodes use this one, or the initial members are more than half of the list.
func (c checker) oneStore(op *IncarnationCreate) error {
	listed := 0
	for _, initialMember := range op.Voters {
		if slices.Contains(c.policy.StaticNodes, initialMember.Name) {
			listed++
		}
	}
	if apart := c.notOfStore(); apart > 0 && 2*listed <= len(c.policy.StaticNodes) {
		return unsafe("bootstrap", "%d listed nodes may use another store, and %d of %d are initial members", apart, listed,
			len(c.policy.StaticNodes))
	}
	return nil
}
