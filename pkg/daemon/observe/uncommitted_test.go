package observe

import (
	"errors"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// TestARestoreThatNeverBegan: the record of a restore that nobody has staged does
// not blind anyone to a cluster that runs; one that somebody may have begun ends
// it.
func TestARestoreThatNeverBegan(t *testing.T) {
	initialMembers := []cluster.InitialMember{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	members := []cluster.Member{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}, {ID: 3, Name: "c"}}
	node := func(i int) Heard {
		name := members[i].Name
		return Heard{Peer: Peer{Name: name}, Answer: cluster.Answer{
			Node: cluster.Node{
				Name: name, Assigned: &cluster.Assigned{Token: "t1"}, Disk: cluster.Disk{
					State: cluster.DiskData, Token: "t1", MemberID: members[i].ID,
				},
				Process: cluster.Process{State: cluster.ProcessRunning}, LeaseVoters: cluster.LeaseVoters{
					Token: "t1", Names: []cluster.NodeName{"a", "b", "c"},
				},
			},
			Report: &cluster.Report{ID: members[i].ID, ClusterID: 7, Leader: 1, RaftTerm: 2, Members: members},
		}}
	}
	unreachable := func(name cluster.NodeName) Heard { return Heard{Peer: Peer{Name: name}, Err: errors.New("no answer")} }
	with := func(h Heard, change func(*cluster.Node)) Heard {
		change(&h.Answer.Node)
		return h
	}
	store := StoreAnswer{Store: cluster.Store{Incarnations: []cluster.Incarnation{
		{Number: 1, Token: "t1", Voters: initialMembers}, {
			Number: 2, Token: "t2", Voters: initialMembers, Restored: &cluster.Restored{
				Request: "r", Backup: "b", Revision: 1_000_000_900,
			},
		},
	}}}
	later := store
	later.Store.Incarnations = append(later.Store.Incarnations[:2:2], cluster.Incarnation{
		Number: 3, Token: "t1", Voters: initialMembers,
	})
	marked := func(r cluster.Revision) StoreAnswer {
		s := store
		s.Store.Revision = r
		return s
	}
	aside := func(name string) func(*cluster.Node) {
		return func(n *cluster.Node) { n.SetAside = []cluster.SetAside{{Name: name}} }
	}
	stages := func(n *cluster.Node) { n.Staged = &cluster.Staged{Token: "t2"} }
	promises := func(n *cluster.Node) {
		n.Assigned, n.Disk = nil, cluster.Disk{State: cluster.DiskEmpty}
		n.Prepared, n.Revision = &cluster.Prepared{Token: "t2", Backup: "b"}, 1_000_000_900
	}
	down := store
	down.Err = errors.New("timeout")
	for _, tt := range []struct {
		name  string
		store StoreAnswer
		heard []Heard
		want  cluster.Token
	}{
		{"nobody has anything of it", store, []Heard{node(0), node(1), node(2)}, "t1"},
		{"one of its voters is unreachable", store, []Heard{node(0), node(1), unreachable("c")}, "t1"},
		{"a node that may be its member is unreachable", store, []Heard{node(0), node(1), node(2), unreachable("d")}, "t2"},
		{"the store is unreachable", down, []Heard{node(0), node(1), node(2)}, "t2"},
		{"a majority has staged it", store, []Heard{node(0), with(node(1), stages), with(node(2), stages)}, "t2"},
		{"one has staged it, and the others have lost it", store, []Heard{node(0), node(1), with(node(2), stages)}, "t1"},
		{"one has staged it, and one does not answer", store, []Heard{
			node(0), unreachable("b"), with(node(2), stages),
		}, "t2"},
		{"one has promised it, and the others have lost it", store, []Heard{
			node(0), node(1), with(node(2), promises),
		}, "t1"},
		{"one is its lease voter, and has no promise", store, []Heard{
			node(0), node(1), with(node(2), func(n *cluster.Node) { n.LeaseVoters.Token = "t2" }),
		}, "t2"},
		{"the store's mark is as high as its beginning", marked(1_000_000_900), []Heard{node(0), node(1), node(2)}, "t2"},
		{"the store's mark is lower", marked(1_000_000_899), []Heard{node(0), node(1), node(2)}, "t1"},
		{"a node's mark is as high", store, []Heard{
			node(0), with(node(1), func(n *cluster.Node) { n.Revision = 1_000_000_900 }), node(2),
		}, "t2"},
		{"one has set data of it aside", store, []Heard{node(0), node(1), with(node(2), aside("t2.1"))}, "t2"},
		{"one has set data of another aside", store, []Heard{node(0), node(1), with(node(2), aside("t21"))}, "t1"},
		{"a later record settles it, whoever is unreachable", later, []Heard{
			node(0), node(1), unreachable("c"), unreachable("d"),
		}, "t1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			obs := Of(Sources{Nonce: func() cluster.Token { return "n" }}, time.Unix(1e9, 0), tt.store, tt.heard, nil,
				cluster.Observation{})
			if obs.Token != tt.want {
				t.Errorf("the present incarnation is %q, want %q", obs.Token, tt.want)
			}
			if want := tt.want == "t1"; want != (obs.Leader != 0) ||
				want != (obs.LeaseVoters.Token == "t1" && len(obs.Members) == 3) {
				t.Errorf("leader %s, members %v, lease voters %v", obs.Leader, obs.Members, obs.LeaseVoters)
			}
		})
	}
}
