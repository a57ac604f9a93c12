package cluster

import "testing"

func TestNextLeader(t *testing.T) {
	at := func(id MemberID, applied uint64, change func(*Member)) Member {
		m := Member{ID: id, Name: "m", Healthy: true, Applied: applied}
		if change != nil {
			change(&m)
		}
		return m
	}
	leader := at(1, 99, nil)
	for _, c := range []struct {
		name   string
		others []Member
		want   MemberID
	}{
		{"nobody else", nil, 0},
		{"the one that has applied most", []Member{at(2, 5, nil), at(3, 7, nil)}, 3},
		{"of equals the lowest ID", []Member{at(3, 7, nil), at(2, 7, nil)}, 2},
		{"no learner", []Member{at(2, 5, nil), at(3, 7, func(m *Member) { m.Learner = true })}, 2},
		{"nobody unhealthy", []Member{at(2, 5, nil), at(3, 7, func(m *Member) { m.Healthy = false })}, 2},
		{"nobody that never started", []Member{at(3, 7, func(m *Member) { m.Name = "" })}, 0},
	} {
		got, ok := NextLeader(append([]Member{leader}, c.others...), leader.ID)
		if got.ID != c.want || ok != (c.want != 0) {
			t.Errorf("%s: it is %d, %t; want %d", c.name, got.ID, ok, c.want)
		}
	}
}
