package daemon

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/gossip"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

func TestMadeUpNamesDoNotCount(t *testing.T) {
	peers := []gossip.Peer{{Name: "0000001", Alive: true}, {Name: "b", Alive: true, Proved: true}, {Name: "c"}, {
		Name: "d", Proved: true,
	}}
	got := known(peers, []cluster.NodeName{"b", "c"})
	if len(got) != 3 || got[0].Name != "b" || got[1].Name != "c" || got[2].Name != "d" {
		t.Errorf("known are %+v", got)
	}
}

func TestWhenACoordinatorIsMissing(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) *lease.Vote { return &lease.Vote{At: now.Add(-ago), To: "a"} }
	own := cluster.LeaseVoters{Token: "t1", Term: 3, Names: []cluster.NodeName{"a", "b", "c"}}
	without := cluster.LeaseVoters{Token: "t1", Term: 3, Seq: 1, Names: []cluster.NodeName{"a", "c"}}
	older := cluster.LeaseVoters{Token: "t1", Term: 2, Names: []cluster.NodeName{"a", "c"}}
	with := cluster.LeaseVoters{Token: "t1", Term: 4, Names: []cluster.NodeName{"a", "b", "c", "d"}}
	for _, tc := range []struct {
		name   string
		heard  cluster.LeaseVoters
		v      *lease.Vote
		paused bool
		want   bool
	}{
		{"a node that is no lease voter", own, nil, false, false},
		{"a vote a moment ago", own, at(time.Second), false, false},
		{"none for a while", own, at(noLeaseLimit), false, false},
		{"none for too long", own, at(noLeaseLimit + 1), false, true},
		{"none for too long, and nothing heard", cluster.LeaseVoters{}, at(time.Hour), false, true},
		{"none for too long, and a pause", own, at(time.Hour), true, false},
		{"no lease voter any more, which its disk does not have", without, at(time.Hour), false, false},
		{"a lease voter again after that", older, at(time.Hour), false, true},
		{"a lease voter by a later record", with, at(time.Hour), false, true},
	} {
		if got := missing("b", own, tc.heard, tc.v, tc.paused, now); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
	m := newMetrics(quiet())
	m.noteMissing(true)
	m.noteMissing(false)
	m.noteMissing(true)
	wantLines(t, gathered(t, m), "etcdadm_coordinator_missing 1", "etcdadm_coordinator_missing_total 2")
}

// A node whose member was left out of a restore, or has been removed, keeps the record of lease voters
// of that time. It does not campaign by it: its own vote would put the term up, again and again, and
// who coordinates would have to follow.
func TestASpareDoesNotCampaignByItsOldRecord(t *testing.T) {
	state, err := nodestate.Open(t.TempDir(), nodestate.Self{Name: "c"})
	must(t, err)
	t.Cleanup(func() { _ = state.Close() })
	d := &Daemon{name: "c", state: state}
	for _, x := range []struct {
		name   string
		change nodestate.Transition
		want   bool
	}{
		{"a member", func(s *nodestate.State) error {
			s.Assigned = &cluster.Assigned{Token: "t1", Version: etcdversion.Must("3.6.16")}
			s.LeaseVoters = cluster.LeaseVoters{Token: "t1", Term: 3, Names: []cluster.NodeName{"a", "b", "c"}}
			return nil
		}, true},
		{"a spare", nodestate.Switch(nil), false},
		{"one that is to begin", nodestate.Promise(cluster.Prepared{
			Token: "t2", Version: etcdversion.Must("3.6.16"),
			Voters: []cluster.InitialMember{{Name: "c", PeerURLs: []string{"https://c:2380"}}},
		}), true},
	} {
		must(t, state.Update(x.change))
		if got := len(d.early().Names) > 0; got != x.want {
			t.Errorf("%s: it asks for the lease before it observes: %t", x.name, got)
		}
	}
}

// A daemon whose coordinator is well wakes up for this three times a minute, and says in time when it
// is not.
func TestAMissingCoordinatorIsNotAskedForAllTheTime(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name string
		v    *lease.Vote
		said bool
		want time.Duration
	}{
		{"a vote right now", &lease.Vote{At: now}, false, noLeaseLimit},
		{"a vote a while ago", &lease.Vote{At: now.Add(-15 * time.Second)}, false, noLeaseLimit - 15*time.Second},
		{"none for too long, in a pause", &lease.Vote{At: now.Add(-time.Hour)}, false, time.Second},
		{"it has been said", &lease.Vote{At: now}, true, time.Second},
		{"no lease voter", nil, false, time.Second},
	} {
		if got := untilMissing(tc.v, tc.said, now); got != tc.want {
			t.Errorf("%s: %s, not %s", tc.name, got, tc.want)
		}
	}
}
