package plan

import (
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// together returns how many of the reliable voters, without the member of that id
// and with extra as one more, a leader among them reaches at most. Two members
// are apart where each that reports on the other could not reach it, and one does.
func (c checker) together(without cluster.MemberID, extra *cluster.Member) int {
	var list []cluster.Member
	for _, m := range c.obs.Members {
		if extra != nil && m.ID == extra.ID || !m.Learner && m.ID != without && c.reliable(m) {
			list = append(list, m)
		}
	}
	most := 0
	for _, leader := range list {
		reached := 0
		for _, m := range list {
			if m.ID == leader.ID || !c.apart(leader, m) {
				reached++
			}
		}
		most = max(most, reached)
	}
	return most
}

// portGrace is for how long a peer port must fail before nobody waits for it: an etcd that has just
// started may not have listened when it was tried, and it is tried again after three seconds.
const portGrace = 10 * time.Second

// reached makes sure that a learner and each voter that can be relied on reach each other at one
// peer port of the two at least, but for those that a person accepts. Where no daemon
// reports, nothing is known.
func (c checker) reached(m cluster.Member, accepted []cluster.NodeName) error {
	for _, v := range c.obs.Members {
		if v.Learner || slices.Contains(accepted, v.Name) || !c.reliable(v) {
			continue
		}
		there, back := c.reports(v.Name, m.ID), c.reports(m.Name, v.ID)
		untried := func(l cluster.Link) bool { return !l.Tried }
		works := func(l cluster.Link) bool { return l.Tried && l.Why == "" }
		switch {
		case slices.ContainsFunc(there, untried):
			return passing("peer-port", "%s has not tried the peer port of %s yet", v.Name, m.Name)
		case slices.ContainsFunc(back, untried) && !slices.ContainsFunc(there, works):
			return passing("peer-port", "%s has not tried the peer port of %s yet", m.Name, v.Name)
		}
		if !c.apart(v, m) {
			continue
		}
		var down time.Duration
		why := ""
		for _, link := range append(there, back...) {
			if why == "" || link.Down < down {
				down, why = link.Down, link.Why
			}
		}
		refuse := unsafe
		if down < portGrace || c.justStarted(m) {
			refuse = passing
		}
		return refuse("peer-port", "%s and %s do not reach each other's peer port: %s, for %s", m.Name, v.Name, why,
			down.Round(time.Second))
	}
	return nil
}

// justStarted reports whether the etcd of m may not have listened when its peer port was last tried.
func (c checker) justStarted(m cluster.Member) bool {
	n, err := c.node(m.Name)
	return err == nil && !n.Process.Since.IsZero() && c.obs.At.Sub(n.Process.Since) < portGrace
}

// reports returns what the node of that name says of a member's peer port: one link, or none.
func (c checker) reports(name cluster.NodeName, to cluster.MemberID) (links []cluster.Link) {
	for _, n := range c.obs.Nodes {
		for _, link := range n.Links {
			if n.Reachable && n.Name == name && link.Member == to {
				links = append(links, link)
			}
		}
	}
	return links
}

func (c checker) apart(a, b cluster.Member) bool {
	links := append(c.reports(a.Name, b.ID), c.reports(b.Name, a.ID)...)
	return len(links) > 0 && !slices.ContainsFunc(links, func(l cluster.Link) bool { return l.Why == "" })
}
