package statuspage

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// The states of a [Link].
const (
	linkUp      = "up"
	linkDown    = "down"
	linkUnknown = "unknown"
)

// links are those of a machine to the members on others. What a daemon said before it was
// gone says nothing of now, and neither does what another one found at the port of a machine
// that is gone since, until it has tried again in vain.
func links(n cluster.Node, obs cluster.Observation, names map[cluster.MemberID]cluster.NodeName) (list []Link) {
	if !n.Reachable {
		if !slices.ContainsFunc(obs.Members, func(m cluster.Member) bool { return m.Name == n.Name }) {
			return nil
		}
		for _, m := range obs.Members {
			if m.Name != "" && m.Name != n.Name {
				list = append(list, Link{From: n.Name, To: m.Name, State: linkUnknown, Why: unanswered(n.Name)})
			}
		}
		return list
	}
	for _, l := range n.Links {
		to, ok := names[l.Member]
		if !ok || to == "" || to == n.Name {
			continue
		}
		link := Link{From: n.Name, To: to, State: linkUp}
		switch {
		case l.Broken():
			link.State, link.Why, link.Down = linkDown, l.Why, l.Down.Seconds()
		case !l.Tried:
			link.State = linkUnknown
		case gone(l.Member, to, obs):
			link.State, link.Why = linkUnknown, unanswered(to)+", and neither does its etcd"
		}
		list = append(list, link)
	}
	return list
}

func unanswered(name cluster.NodeName) string {
	return "the daemon of " + string(name) + " does not answer"
}

// gone reports whether neither a member nor the daemon of its machine answers.
func gone(id cluster.MemberID, name cluster.NodeName, obs cluster.Observation) bool {
	return !slices.ContainsFunc(obs.Members, func(m cluster.Member) bool { return m.ID == id && m.Healthy }) &&
		!slices.ContainsFunc(obs.Nodes, func(n cluster.Node) bool { return n.Name == name && n.Reachable })
}

// forgetLinks has all links be unknown, since what is known of them is old.
func (p *Page) forgetLinks() {
	for i := range p.Links {
		p.Links[i] = Link{From: p.Links[i].From, To: p.Links[i].To, State: linkUnknown, Why: "the observation is STALE"}
	}
}
