package nodestate

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// running is a state with something in every field.
func running() State {
	return State{
		Assigned: &cluster.Assigned{Token: "t1", Version: etcdversion.Must("3.6.16")},
		Peers:    []cluster.InitialMember{{Name: "a", PeerURLs: []string{"https://a:2380"}}},
		MemberID: 1, ClusterID: 2, MemberToken: "t1",
		Voters:    []cluster.InitialMember{{Name: "a", PeerURLs: []string{"https://a:2380"}}},
		Differs:   &Differs{Token: "t1", MemberID: 1, Text: "it differs"},
		Prepared:  &cluster.Prepared{Token: "t1", Version: etcdversion.Must("3.6.16")},
		Bootstrap: true,
		Staged:    &cluster.Staged{Token: "t2", Backup: "b", Version: etcdversion.Must("3.6.16"), Revision: 900},
		Change:    &cluster.VersionChange{Token: "t1"},
		Seen:      &SeenVersion{Token: "t1", Version: etcdversion.Must("3.6.0")},
		Revision:  500, NewestBackup: "n", Term: 3,
		LeaseVoters: cluster.LeaseVoters{Token: "t1", Names: []cluster.NodeName{"a"}},
		Spec:        &cluster.Spec{MemberCount: 3}, Pause: &cluster.Request{Name: "p"},
	}
}

func TestTransitions(t *testing.T) {
	other, v := errors.New("another member"), etcdversion.Must("3.6.17")
	evicted := func(s *State) {
		s.Assigned, s.Peers, s.MemberID, s.ClusterID, s.MemberToken = nil, nil, 0, 0, ""
		s.Voters, s.Differs, s.Prepared, s.Bootstrap = nil, nil, nil, false
		s.Change, s.Seen = nil, nil
	}
	blank := func(s *State) { *s = State{} }
	for name, c := range map[string]struct {
		before func(*State) // of a state with something in every field
		do     Transition
		want   func(*State) // changes the state before into the one after
		err    bool
	}{
		"promise": {
			blank,
			Promise(cluster.Prepared{Token: "t9"}),
			func(s *State) {
				s.Prepared = &cluster.Prepared{Token: "t9"}
			},
			false,
		},
		"promise again": {
			func(s *State) { s.Prepared = &cluster.Prepared{Token: "t8", Earlier: []cluster.Token{"t7"}} },
			Promise(cluster.Prepared{Token: "t9"}),
			func(s *State) {
				s.Prepared = &cluster.Prepared{Token: "t9", Earlier: []cluster.Token{"t7", "t8"}}
			},
			false,
		},
		"fulfil the promise": {
			nil,
			EndPromise("t1"),
			func(s *State) {
				s.Prepared, s.Bootstrap = nil, false
			},
			false,
		},
		"fulfil an older one": {nil, EndPromise("t0"), nil, false},
		"fulfil, evicted":     {evicted, EndPromise("t1"), nil, false},
		"assign again": {
			blank,
			Assign(Assignment{Token: "t1", Version: v, Quarantined: true}),
			func(s *State) {
				s.Assigned = &cluster.Assigned{Token: "t1", Version: v, Quarantined: true}
			},
			false,
		},
		"assign another": {
			nil,
			Assign(Assignment{Token: "t9", Version: v}),
			func(s *State) {
				s.Assigned = &cluster.Assigned{Token: "t9", Version: v}
				s.MemberID, s.ClusterID, s.MemberToken = 0, 0, ""
				s.Prepared, s.Bootstrap = nil, false
			},
			false,
		},
		"assign, bootstrap": {
			nil,
			Assign(Assignment{Token: "t1", Version: v, Bootstrap: true}),
			func(s *State) {
				s.Assigned.Version = v
			},
			false,
		},
		"assign with peers": {
			nil,
			Assign(Assignment{Token: "t1", Version: v, Bootstrap: true, Peers: []cluster.InitialMember{
				{Name: "b", PeerURLs: []string{"https://b:2380"}},
			}}),
			func(s *State) {
				s.Assigned.Version, s.Peers = v, []cluster.InitialMember{{Name: "b", PeerURLs: []string{"https://b:2380"}}}
			},
			false,
		},
		"assign the same": {
			func(s *State) {
				s.Assigned.Stopped = true
			},
			Assign(Assignment{Token: "t1", Version: v, Quarantined: true}),
			func(s *State) {
				s.Assigned = &cluster.Assigned{Token: "t1", Version: v}
				s.Prepared, s.Bootstrap = nil, false
			},
			false,
		},
		"accept the data": {
			nil,
			Assign(Assignment{Token: "t1", Version: v, Bootstrap: true, AcceptData: true}),
			func(s *State) {
				s.Assigned.Version, s.Differs = v, nil
			},
			false,
		},
		"stop":         {nil, Stop, func(s *State) { s.Assigned.Stopped = true }, false},
		"stop nothing": {evicted, Stop, nil, true},
		"quarantine": {
			nil,
			Quarantine(true),
			func(s *State) {
				s.Assigned.Quarantined = true
			},
			false,
		},
		"lift the quarantine": {
			func(s *State) {
				s.Assigned.Quarantined = true
			},
			Quarantine(false),
			func(s *State) {
				s.Assigned.Quarantined = false
			},
			false,
		},
		"quarantine nothing": {evicted, Quarantine(true), nil, true},
		"evict":              {nil, Evict, evicted, false},
		"take a member over": {
			blank,
			TakeOver(Assignment{Token: "t3", Version: v, Peers: running().Peers}, 7, 8, []cluster.NodeName{"a", "b"}),
			func(s *State) {
				s.Assigned, s.Peers = &cluster.Assigned{Token: "t3", Version: v}, running().Peers
				s.MemberID, s.ClusterID, s.MemberToken = 7, 8, "t3"
				s.LeaseVoters = cluster.LeaseVoters{Token: "t3", Names: []cluster.NodeName{"a", "b"}}
			},
			false,
		},
		"take a member over, with the lease voters on record": {
			func(s *State) { *s = State{LeaseVoters: running().LeaseVoters} },
			TakeOver(Assignment{Token: "t1", Version: v}, 7, 8, nil),
			func(s *State) {
				s.Assigned, s.MemberID, s.ClusterID, s.MemberToken = &cluster.Assigned{Token: "t1", Version: v}, 7, 8, "t1"
			},
			false,
		},
		"switch": {
			nil,
			Switch(running().Staged),
			func(s *State) {
				evicted(s)
				s.Staged, s.Revision = nil, 900
				s.Prepared = &cluster.Prepared{Token: "t2", Backup: "b", Version: etcdversion.Must("3.6.16")}
			},
			false,
		},
		"switch, far ahead": {
			func(s *State) {
				s.Revision = 1000
			},
			Switch(running().Staged),
			func(s *State) {
				evicted(s)
				s.Staged = nil
				s.Prepared = &cluster.Prepared{Token: "t2", Backup: "b", Version: etcdversion.Must("3.6.16")}
			},
			false,
		},
		"switch without": {nil, Switch(nil), evicted, false},
		"stage": {
			nil,
			Stage(cluster.Staged{Token: "t9"}),
			func(s *State) {
				s.Staged = &cluster.Staged{Token: "t9"}
			},
			false,
		},
		"staged": {
			nil,
			StageReady(cluster.Staged{Token: "t2"}),
			func(s *State) {
				s.Staged.Ready = true
			},
			false,
		},
		"staged, given up":     {nil, StageReady(cluster.Staged{Token: "t9"}), nil, true},
		"staged, none":         {blank, StageReady(cluster.Staged{Token: "t2"}), nil, true},
		"unstage":              {nil, Unstage("t2"), func(s *State) { s.Staged = nil }, false},
		"unstage an older one": {nil, Unstage("t9"), nil, false},
		"recognize": {
			nil,
			Recognize("t1", cluster.Report{ID: 8, ClusterID: 9}, nil, 700),
			func(s *State) {
				s.MemberID, s.ClusterID, s.Voters, s.Revision = 8, 9, nil, 700
			},
			false,
		},
		"recognize its data": {
			nil,
			Recognize("t1", cluster.Report{ID: 1, ClusterID: 2, Cluster: v}, running().Voters, 500),
			func(s *State) { s.Seen = &SeenVersion{Token: "t1", Version: v} },
			false,
		},
		"recognize data that is being made older": {
			nil,
			Recognize("t1", cluster.Report{ID: 1, ClusterID: 2, Cluster: etcdversion.Must("3.5.0"), Storage: v},
				running().Voters, 500),
			func(s *State) { s.Seen = &SeenVersion{Token: "t1", Version: v} },
			false,
		},
		"recognize older data": {
			nil,
			Recognize("t1", cluster.Report{
				ID: 1, ClusterID: 2, Cluster: etcdversion.Must("3.5.0"), Storage: etcdversion.Must("3.5.0"),
			}, running().Voters, 500),
			func(s *State) { s.Seen = &SeenVersion{Token: "t1", Version: etcdversion.Must("3.5.0")} },
			false,
		},
		"recognize by a report that comes late": {
			func(s *State) { s.Seen = &SeenVersion{Token: "t1", Version: v, Applied: 9} },
			Recognize("t1", cluster.Report{
				ID: 8, ClusterID: 9, Applied: 8, Cluster: etcdversion.Must("3.5.0"), Storage: etcdversion.Must("3.5.0"),
			}, nil, 700),
			func(s *State) { s.Revision = 700 },
			false,
		},
		"recognize an old one": {
			nil,
			Recognize("t0", cluster.Report{ID: 8, ClusterID: 9}, nil, 400),
			nil,
			false,
		},
		"record a difference": {
			nil,
			RecordDifference(running(), "why", other),
			func(s *State) {
				s.Differs = &Differs{Token: "t1", MemberID: 1, Text: "why"}
			},
			false,
		},
		"record a difference another": {
			nil,
			RecordDifference(State{Assigned: &cluster.Assigned{Token: "t1"}, MemberID: 7}, "why", other),
			nil,
			true,
		},
		"record a difference, evicted": {evicted, RecordDifference(running(), "why", other), nil, true},
		"spec": {
			nil,
			Wanted(cluster.Spec{MemberCount: 5}),
			func(s *State) {
				s.Spec = &cluster.Spec{MemberCount: 5}
			},
			false,
		},
		"pause": {
			nil,
			Paused(&cluster.Request{Name: "q"}),
			func(s *State) {
				s.Pause = &cluster.Request{Name: "q"}
			},
			false,
		},
		"resume": {nil, Paused(nil), func(s *State) { s.Pause = nil }, false},
		"backup": {
			nil,
			SeenBackup("x"),
			func(s *State) {
				s.NewestBackup = "x"
			},
			false,
		},
		"lease": {
			nil,
			RecordGrant(lease.Durable{Term: 4}),
			func(s *State) {
				s.Term, s.LeaseVoters = 4, cluster.LeaseVoters{}
			},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := running(), running()
			for _, change := range []func(*State){c.before, c.want} {
				if change != nil {
					change(&want)
				}
			}
			if c.before != nil {
				c.before(&got)
			}
			if err := c.do(&got); (err != nil) != c.err {
				t.Errorf("error is %v", err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			if _, err := got.clone(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The existing etcd-manager starts its member for what the node was given.
func TestTheRecordedPeersFollowTheVoters(t *testing.T) {
	s := running()
	s.Peers = initialMembers()
	voters := []cluster.InitialMember{{Name: s.Peers[0].Name, PeerURLs: []string{"https://moved:2381"}}}
	if err := Recognize(s.Assigned.Token, cluster.Report{ID: 1, ClusterID: 2}, voters, 0)(&s); err != nil {
		t.Fatal(err)
	}
	want := initialMembers()
	want[0].PeerURLs = voters[0].PeerURLs
	if !reflect.DeepEqual(s.Peers, want) || !slices.Equal(s.PeerURLs(want[0].Name), voters[0].PeerURLs) {
		t.Errorf("it was given %+v", s.Peers)
	}
	// And what it has changed meanwhile counts for us.
	theirs := etcdState{version: "3.6.16", cluster: &etcdCluster{token: "tok", nodes: []etcdNode{
		{Name: string(want[0].Name), PeerURLs: []string{"https://theirs:2380"}},
	}}}
	s, _, err := adopt(s, theirs.encode())
	if err != nil || !slices.Equal(s.PeerURLs(want[0].Name), []string{"https://theirs:2380"}) {
		t.Errorf("after it was in charge: %v, %v", s.PeerURLs(want[0].Name), err)
	}
}
