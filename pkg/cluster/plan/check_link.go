package plan

import "github.com/etcdadm/etcdadm/pkg/cluster"

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

func (c checker) apart(a, b cluster.Member) bool {
	reported, failed := 0, 0
	for _, n := range c.obs.Nodes {
		if !n.Reachable {
			continue
		}
		for _, link := range n.Links {
			if n.Name == a.Name && link.Member == b.ID || n.Name == b.Name && link.Member == a.ID {
				reported++
				if link.Why != "" {
					failed++
				}
			}
		}
	}
	return reported > 0 && failed == reported
}
