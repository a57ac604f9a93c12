package plan_test

import (
	"errors"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// two is a healthy cluster of a, which leads, and b, which may be removed.
func two() cluster.Observation {
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	version := etcdversion.Must("3.6.16")
	obs := cluster.Observation{
		At: at, Token: "t", Leader: 1, LeaseVoters: cluster.LeaseVoters{Token: "t", Names: []cluster.NodeName{"a"}},
		Store: cluster.Store{Reachable: true, BackupsKnown: true, Backups: []cluster.Backup{{Name: "new", At: at}}},
	}
	for i, name := range []cluster.NodeName{"a", "b"} {
		id := cluster.MemberID(i + 1)
		obs.Members = append(obs.Members, cluster.Member{
			ID: id, Name: name, PeerURLs: []string{"http://" + string(name) + ":2380"}, Healthy: true, Version: version,
		})
		obs.Nodes = append(obs.Nodes, cluster.Node{
			Name: name, Reachable: true, Assigned: &cluster.Assigned{Token: "t", Version: version},
			URLs:    cluster.URLs{Peer: []string{"http://" + string(name) + ":2380"}},
			Disk:    cluster.Disk{State: cluster.DiskData, Token: "t", MemberID: id},
			Process: cluster.Process{State: cluster.ProcessRunning, Since: at.Add(-time.Minute)},
		})
	}
	return obs
}

func TestWhoIsDrained(t *testing.T) {
	removeB := &plan.Remove{ID: 2, ExpectName: "b", ExpectVoters: 2}
	for _, tc := range []struct {
		name   string
		change func(obs *cluster.Observation)
		op     plan.Operation
		want   bool
	}{
		{"a voter that clients use", nil, removeB, true},
		{"nobody, for something else", nil, &plan.MoveLeader{To: "b"}, false},
		{"not the leader", func(o *cluster.Observation) { o.Leader = 2 }, removeB, false},
		{"not one that does not serve", func(o *cluster.Observation) { o.Members[1].Healthy = false }, removeB, false},
		{"not a learner", func(o *cluster.Observation) { o.Members[1].Learner = true }, removeB, false},
		{"not one that is closed already", func(o *cluster.Observation) { o.Nodes[1].Assigned.Quarantined = true }, removeB,
			false},
		{"not where its node does not answer", func(o *cluster.Observation) { o.Nodes[1].Reachable = false }, removeB, false},
		{"not where its node's disk hangs", func(o *cluster.Observation) {
			o.Nodes[1].Storage.State = cluster.StorageHung
		}, removeB, false},
		{"not where its node's disk was read long ago", func(o *cluster.Observation) {
			o.Nodes[1].FactsAge = time.Minute
		}, removeB, false},
		{"not where its node runs something else", func(o *cluster.Observation) {
			o.Nodes[1].Disk.MemberID = 7
		}, removeB, false},
		{"not an etcd that breaks off what it has begun", func(o *cluster.Observation) {
			o.Members[1].Version = etcdversion.Must("3.5.20")
		}, removeB, false},
		{"one of the first version that does not", func(o *cluster.Observation) {
			o.Members[1].Version = etcdversion.Must("3.5.21")
		}, removeB, true},
		{"not while etcd may refuse to remove it", func(o *cluster.Observation) {
			o.Nodes[1].Process.Since = o.At.Add(-9 * time.Second)
		}, removeB, false},
		{"nor for the sake of the other one", func(o *cluster.Observation) {
			o.Nodes[0].Process.Since = o.At.Add(-9 * time.Second)
		}, removeB, false},
		{"nor where nobody knows", func(o *cluster.Observation) { o.Nodes[0].Process.Since = time.Time{} }, removeB, false},
		{"not after it could not be removed", func(o *cluster.Observation) {
			o.Failures = []cluster.Failure{{Line: plan.Line(removeB), Text: "x", Retry: o.At.Add(-time.Second)}}
		}, removeB, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obs := two()
			if tc.change != nil {
				tc.change(&obs)
			}
			got := plan.DrainFor(obs, tc.op)
			if (got != nil) != tc.want {
				t.Fatalf("the order is %v", got)
			}
			if got == nil {
				return
			}
			if want := (plan.MemberDrain{Node: "b", ExpectToken: "t", ExpectMemberID: 2}); *got != want {
				t.Errorf("the order is %+v", *got)
			}
			if err := plan.Check(cluster.Spec{}, obs, got); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWhyNobodyIsDrained: what keeps an order back though the node could be given it is not kept quiet.
func TestWhyNobodyIsDrained(t *testing.T) {
	removeB := &plan.Remove{ID: 2, ExpectName: "b", ExpectVoters: 2}
	young := func(i int) func(*cluster.Observation) {
		return func(o *cluster.Observation) { o.Nodes[i].Process.Since = o.At.Add(-9 * time.Second) }
	}
	for _, tc := range []struct {
		name   string
		change func(obs *cluster.Observation)
		op     plan.Operation
		want   string
	}{
		{"it is drained", func(*cluster.Observation) {}, removeB, ""},
		{"nobody is removed", young(1), &plan.MoveLeader{To: "b"}, ""},
		{"it has not run for long", young(1), removeB,
			"the etcd of b has run for 9s, and until it has for 10s etcd may refuse removals"},
		{"another one has not", young(0), removeB,
			"the etcd of a has run for 9s, and until it has for 10s etcd may refuse removals"},
		{"nobody knows", func(o *cluster.Observation) { o.Nodes[0].Process.Since = time.Time{} }, removeB,
			"it is not known for how long the etcd of a has run, and etcd may refuse removals at first"},
		{"its etcd is older", func(o *cluster.Observation) { o.Members[1].Version = etcdversion.Must("3.5.20") }, removeB,
			"etcd 3.5.20 may break off what clients have asked when it is asked to end, 3.5.21 and later do not"},
		{"it is closed to clients", func(o *cluster.Observation) {
			young(1)(o)
			o.Nodes[1].Assigned.Quarantined = true
		}, removeB, ""},
		{"its node does not answer", func(o *cluster.Observation) {
			young(0)(o)
			o.Nodes[1].Reachable = false
		}, removeB, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obs := two()
			tc.change(&obs)
			node, err := plan.Undrained(obs, tc.op)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tc.want || (node == "b") != (tc.want != "") {
				t.Errorf("%s: %q, want %q", node, got, tc.want)
			}
		})
	}
}

// TestWhatMayNotBeRemovedIsNotDrained: its process ends.
func TestWhatMayNotBeRemovedIsNotDrained(t *testing.T) {
	drain := func(node cluster.NodeName, token cluster.Token, id cluster.MemberID) plan.Operation {
		return &plan.MemberDrain{Node: node, ExpectToken: token, ExpectMemberID: id}
	}
	for _, tc := range []struct {
		name   string
		change func(obs *cluster.Observation)
		op     plan.Operation
	}{
		{"the leader", nil, drain("a", "t", 1)},
		{"another incarnation", nil, drain("b", "t2", 2)},
		{"another member", nil, drain("b", "t", 3)},
		{"a node that is not known", nil, drain("c", "t", 2)},
		{"a node that does not answer", func(o *cluster.Observation) { o.Nodes[1].Reachable = false }, drain("b", "t", 2)},
		{"a learner", func(o *cluster.Observation) { o.Members[1].Learner = true }, drain("b", "t", 2)},
		{"one without which nobody serves", func(o *cluster.Observation) {
			o.Members[0].Healthy = false
		}, drain("b", "t", 2)},
		{"one that still grants the lease", func(o *cluster.Observation) {
			o.LeaseVoters.Names = []cluster.NodeName{"a", "b"}
		}, drain("b", "t", 2)},
		{"one that no backup covers", func(o *cluster.Observation) { o.Store.Backups = nil }, drain("b", "t", 2)},
		{"an etcd that breaks off what it has begun", func(o *cluster.Observation) {
			o.Members[1].Version = etcdversion.Must("3.5.20")
		}, drain("b", "t", 2)},
		{"one that etcd may refuse to remove", func(o *cluster.Observation) {
			o.Nodes[0].Process.Since = o.At.Add(-9 * time.Second)
		}, drain("b", "t", 2)},
		{"one of which nobody knows whether it may", func(o *cluster.Observation) {
			o.Nodes[1].Process.Since = time.Time{}
		}, drain("b", "t", 2)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obs := two()
			if tc.change != nil {
				tc.change(&obs)
			}
			if plan.Check(cluster.Spec{}, obs, tc.op) == nil {
				t.Error("it may be drained")
			}
		})
	}
}

// TestWhatIsWaitedFor: a person's command waits for what passes, and for nothing else.
func TestWhatIsWaitedFor(t *testing.T) {
	young := two()
	young.Nodes[0].Process.Since = young.At.Add(-9 * time.Second)
	unknown := two()
	unknown.Nodes[0].Process.Since = time.Time{}
	drain := &plan.MemberDrain{Node: "b", ExpectToken: "t", ExpectMemberID: 2}
	learner := func(link cluster.Link) cluster.Observation {
		obs := two()
		obs.Members[1].Learner, link.Member = true, 2
		obs.LeaseVoters.Names = []cluster.NodeName{"a", "b"}
		obs.Nodes[0].Links = []cluster.Link{link}
		// The quorum needs what it reaches, so a third voter is there.
		c, n := obs.Members[0], obs.Nodes[0]
		c.ID, c.Name, c.PeerURLs = 3, "c", []string{"http://c:2380"}
		n.Name, n.Links, n.URLs.Peer, n.Disk.MemberID = "c", nil, c.PeerURLs, 3
		d, o := c, n
		d.ID, d.Name, d.PeerURLs = 4, "d", []string{"http://d:2380"}
		o.Name, o.URLs.Peer, o.Disk.MemberID = "d", d.PeerURLs, 4
		obs.Members, obs.Nodes = append(obs.Members, c, d), append(obs.Nodes, n, o)
		obs.LeaseVoters.Names = []cluster.NodeName{"a", "b", "c", "d"}
		return obs
	}
	closed := cluster.Link{Tried: true, Why: "x", Down: time.Minute}
	back := func(link cluster.Link) cluster.Observation { // what the learner finds of a, which does not reach it
		obs := learner(closed)
		link.Member = 1
		obs.Nodes[1].Links = []cluster.Link{link}
		return obs
	}
	started := func(age time.Duration) cluster.Observation { // when the learner's etcd did
		obs := learner(closed)
		obs.Nodes[1].Process.Since = obs.At.Add(-age)
		return obs
	}
	promote := &plan.Promote{Name: "b", ExpectVoters: 3}
	for _, tc := range []struct {
		name   string
		obs    cluster.Observation
		op     plan.Operation
		passes bool
	}{
		{"an etcd that has not run for long enough", young, drain, true},
		{"one that ran nobody knows how long", unknown, drain, false},
		{"a peer port that was not tried", learner(cluster.Link{}), promote, true},
		{"one that fails", learner(cluster.Link{Tried: true, Why: "x", Down: 9 * time.Second}), promote, true},
		{"one that has failed for longer", learner(cluster.Link{Tried: true, Why: "x", Down: 10 * time.Second}), promote,
			false},
		{"one that fails, and the other was not tried", back(cluster.Link{}), promote, true},
		{"one that fails, and so does the other", back(closed), promote, false},
		{"one that fails, of an etcd that has just started", started(9 * time.Second), promote, true},
		{"one that fails, of an etcd that started before that", started(10 * time.Second), promote, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := plan.Check(cluster.Spec{}, tc.obs, tc.op)
			var unsafe *plan.UnsafeError
			if !errors.As(err, &unsafe) || unsafe.Passes != tc.passes ||
				unsafe.Invariant != "drain" && unsafe.Invariant != "peer-port" {
				t.Errorf("the check says %+v", err)
			}
		})
	}
}
