package apply

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// realTrio is a cluster of three real members, each on a host of its own.
func realTrio(t *testing.T, v etcdversion.Version) map[cluster.NodeName]*host {
	t.Helper()
	hosts := map[cluster.NodeName]*host{}
	var voters []cluster.InitialMember
	for _, name := range []cluster.NodeName{"a", "b", "c"} {
		h := realHost(t, v, func(o *LocalOptions) { o.Name = name })
		hosts[name] = h
		voters = append(voters, cluster.InitialMember{Name: name, PeerURLs: h.o.URLs.Peer})
	}
	for name, h := range hosts {
		h.must(&plan.MemberPrepare{Node: name, Token: "t1", Version: v, Voters: voters},
			&plan.MemberStart{Node: name, Token: "t1", Mode: plan.StartNew, Version: v, Peers: voters})
	}
	return hosts
}

// TestALateOrderTakesNoQuorumAway: an order to change a version was given while all three
// served, and comes when one of them is gone. The node that obeys looks itself, and the
// clients of the two that are left are served on.
func TestALateOrderTakesNoQuorumAway(t *testing.T) {
	old, next := etcdversion.Must("3.5.35"), etcdversion.Must("3.6.16")
	hosts := realTrio(t, old)
	if _, err := hosts["a"].o.Bin.Find(next); err != nil {
		t.Skip(err)
	}
	var follower, other *host
	_, r := hosts["a"].reports()
	for _, h := range hosts {
		testwait.Until(t, "all serve, with a cluster version", func() bool {
			_, r = h.reports()
			return len(r.Members) == 3 && r.Cluster.Minor == 5 && r.Read == cluster.ReadServed
		})
		switch {
		case r.ID == r.Leader:
		case follower == nil:
			follower = h
		default:
			other = h
		}
	}
	n, r := follower.reports()
	op := &plan.MemberChangeVersion{
		Node: follower.o.Name, ExpectToken: "t1", ExpectMemberID: n.Disk.MemberID, ExpectVersion: old, To: next,
	}
	pid := follower.pid()
	other.close()
	follower.refused(op, "no majority would")
	if follower.pid() != pid {
		t.Error("the process is another one")
	}
	if _, r = follower.reports(); r.Read != cluster.ReadServed {
		t.Errorf("a read through the quorum ended as %q", r.Read)
	}

	other.start()
	if err := other.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the third is back", func() bool { _, r := other.reports(); return r.Read == cluster.ReadServed })
	gone, _ := other.reports()
	follower.refusesOrderOfThree(op, gone.Disk.MemberID)
	follower.must(op)
	if s := follower.disk(); s.Change != nil || s.Assigned.Version != next {
		t.Errorf("assigned %+v, change %+v", s.Assigned, s.Change)
	}
}

// refusesOrderOfThree removes a voter, and has an order come that was given when there
// were three: by it clients would not have to wait.
func (h *host) refusesOrderOfThree(op *plan.MemberChangeVersion, gone cluster.MemberID) {
	h.t.Helper()
	c, err := etcdclient.Open(etcdclient.Options{Endpoints: h.o.URLs.Client})
	if err != nil {
		h.t.Fatal(err)
	}
	defer c.Close()
	// etcd wants members to have been connected for some seconds.
	testwait.For(h.t, "the removal of a voter", func(ctx context.Context) error { return c.Remove(ctx, gone) })
	testwait.Until(h.t, "two are left", func() bool { _, r := h.reports(); return len(r.Members) == 2 })
	err = h.Do(h.t.Context(), plan.Order{Operation: op, LeaseVoters: cluster.LeaseVoters{
		Token: "t1", Names: []cluster.NodeName{"a", "b", "c"},
	}}, nil)
	wantError(h.t, err, "there were 3 voters, and there are 2")
}

// All members advertise one URL, which leads nowhere from here. Each is asked at its own
// address for a read through the quorum, and not only whether its peers reach it.
func TestOthersWithTheURLOfAllAreAskedThemselves(t *testing.T) {
	hosts := realTrio(t, etcdversion.Must("3.6.16"))
	var r cluster.Report
	for _, h := range hosts {
		testwait.Until(t, "all serve", func() bool {
			_, r = h.reports()
			return len(r.Members) == 3 && r.Read == cluster.ReadServed
		})
	}
	for _, o := range r.Members {
		u, err := url.Parse(o.ClientURLs[0])
		if err != nil {
			t.Fatal(err)
		}
		own := cluster.Report{ID: 1, Members: []cluster.Member{o, {ID: 1, PeerURLs: []string{"http://127.0.0.1:1"}}}}
		for i := range own.Members {
			own.Members[i].ClientURLs = []string{"http://all.invalid:" + u.Port()}
		}
		testwait.Until(t, "it counts as one that serves", func() bool {
			others, serving := hosts["a"].observer.OthersServe(t.Context(), own)
			return others == 1 && serving == 1
		})
		// One that is led by the member that asks does not count, though its peers reach it.
		if own.ID = r.Leader; o.ID == own.ID {
			continue
		}
		own.Members[1].ID = own.ID
		if others, serving := hosts["a"].observer.OthersServe(t.Context(), own); others != 1 || serving != 0 {
			t.Errorf("of %d others %d serve without their leader, want none of one", others, serving)
		}
	}
}

// The time in which too few others answer is no time in which the new version could have
// come up: when they come back, it is not reverted at once.
func TestTimeWithoutTheOthersDoesNotCount(t *testing.T) {
	f := newFakeTrio(t)
	f.found()
	voters := func(url string) {
		t.Helper()
		if err := f.state.Update(func(s *nodestate.State) error {
			s.MemberID, s.ClusterID, s.MemberToken = 1, 1, "t1"
			s.Change = &cluster.VersionChange{Token: "t1", From: writes, To: s.Assigned.Version}
			s.Voters = []cluster.InitialMember{
				{Name: "a", PeerURLs: []string{f.peers["a"].url}}, {Name: "b", PeerURLs: []string{url}},
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	long := func() time.Time { return time.Now().Add(-time.Hour) }
	since := long()
	voters("http://127.0.0.1:1")
	if !f.unsettled(t.Context(), &since) || time.Since(since) > time.Minute {
		t.Errorf("while the other is away, it counts since %s ago", time.Since(since))
	}
	voters(f.peers["b"].url)
	if !f.unsettled(t.Context(), &since) || f.disk().Change.Back {
		t.Errorf("right after the other has come back: %+v", f.disk().Change)
	}
	since = long()
	if f.unsettled(t.Context(), &since); !f.disk().Change.Back {
		t.Errorf("an hour after the other has come back: %+v", f.disk().Change)
	}
}
