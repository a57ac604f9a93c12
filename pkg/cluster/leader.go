package cluster

import (
	"cmp"
	"slices"
)

// NextLeader returns the voter that leads when leader gives up its leadership by hand: the
// healthy one that has applied most, and of equals the one with the lowest ID. It reports
// false where there is none. The daemons, which know the disks and the links of their
// nodes, have an order of their own in package plan.
func NextLeader(members []Member, leader MemberID) (Member, bool) {
	able := slices.DeleteFunc(slices.Clone(members), func(m Member) bool {
		return m.Learner || !m.Healthy || m.ID == leader || m.Name == ""
	})
	if len(able) == 0 {
		return Member{}, false
	}
	return slices.MaxFunc(able, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Applied, b.Applied), cmp.Compare(b.ID, a.ID))
	}), true
}
