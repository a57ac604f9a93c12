package observe

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// TestALearnerIsNoVoice: of two voters one follows the leader, and a learner
// does. That is no majority of the voters, so the observation says nothing about
// who is unhealthy.
func TestALearnerIsNoVoice(t *testing.T) {
	members := []cluster.Member{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}, {ID: 3, Name: "c", Learner: true}}
	says := func(i int, list []cluster.Member) Heard {
		m := members[i]
		return Heard{Peer: Peer{Name: m.Name}, Answer: cluster.Answer{
			Node: cluster.Node{Name: m.Name, Assigned: &cluster.Assigned{Token: "t1"}, Disk: cluster.Disk{
				State: cluster.DiskData, Token: "t1", MemberID: m.ID,
			}},
			Report: &cluster.Report{ID: m.ID, ClusterID: 7, Leader: 1, RaftTerm: 2, Learner: m.Learner, Members: list},
		}}
	}
	observe := func(heard ...Heard) cluster.Observation {
		return Of(Sources{Nonce: func() cluster.Token { return "n" }}, time.Unix(1e9, 0), StoreAnswer{}, heard, nil,
			cluster.Observation{})
	}
	if b := memberOf(t, observe(says(0, members), says(2, nil)), 2); b.Healthy || !b.UnhealthySince.IsZero() {
		t.Errorf("with one voter of two and a learner, b is unhealthy since %v", b.UnhealthySince)
	}
	members = append(members, cluster.Member{ID: 4, Name: "d"})
	if b := memberOf(t, observe(says(0, members), says(3, members)), 2); b.Healthy || b.UnhealthySince.IsZero() {
		t.Error("with two voters of three, nobody has seen that b is unhealthy")
	}
}
