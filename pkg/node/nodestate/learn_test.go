package nodestate

import (
	"reflect"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// seenAll is an observation in which a node finds what running remembers, and nothing new.
func seenAll() Seen {
	return Seen{
		Disk: cluster.Disk{State: cluster.DiskData, Token: "t1", MemberID: 1},
		Report: &cluster.Report{
			ID: 1, ClusterID: 2, Cluster: etcdversion.Must("3.6.0"), Revision: 1,
			Members: []cluster.Member{{ID: 1, Name: "a", PeerURLs: []string{"https://a:2380"}}},
		},
	}
}

// What is restored begins above the mark, so the mark is above all that was seen.
func TestTheMarkIsAboveWhatWasSeen(t *testing.T) {
	for _, c := range []struct{ mark, seen, want cluster.Revision }{
		{0, 0, 0}, {0, 1, 1_000_000}, {0, 1_000_000, 2_000_000}, {1_000_000, 999_999, 1_000_000},
		{1_000_000, 1_000_000, 1_000_000}, {1_000_000, 1_000_001, 2_000_000}, {5, 7_654_321, 8_000_000},
	} {
		if got := Mark(c.mark, c.seen); got != c.want {
			t.Errorf("the mark was %d, %d is seen: it is %d, want %d", c.mark, c.seen, got, c.want)
		}
	}
}

func TestLearn(t *testing.T) {
	known := func(s *State) { s.Prepared, s.Bootstrap = nil, false }
	for name, c := range map[string]struct {
		state                             func(*State) // changes one that remembers all
		seen                              func(*Seen)  // changes one in which nothing is new
		fulfilled, recognized, hasCluster bool
	}{
		"nothing new":                  {state: known},
		"no member to run":             {state: func(s *State) { s.Assigned = nil }, seen: func(s *Seen) { s.Begun = true }},
		"a bootstrap that has begun":   {seen: func(s *Seen) { s.Begun = true }, fulfilled: true},
		"a bootstrap that has not":     {},
		"a bootstrap without data":     {seen: func(s *Seen) { s.Begun, s.Disk.State = true, cluster.DiskEmpty }},
		"a restore that has data":      {state: func(s *State) { s.Prepared.Backup = "b" }, fulfilled: true},
		"a promise of another cluster": {state: func(s *State) { s.Prepared.Token = "t9" }, fulfilled: true},
		"a promise, and no bootstrap":  {state: func(s *State) { s.Bootstrap = false }, fulfilled: true},
		"no report":                    {state: known, seen: func(s *Seen) { s.Report = nil }},
		"another id":                   {state: known, seen: func(s *Seen) { s.Report.ID = 9 }, recognized: true},
		"another name of a voter": {
			state: known, seen: func(s *Seen) { s.Report.Members[0].Name = "b" }, recognized: true,
		},
		"another address of a voter": {
			state: known, seen: func(s *Seen) { s.Report.Members[0].PeerURLs = []string{"https://x:2380"} }, recognized: true,
		},
		"a learner besides": {
			state: known, seen: func(s *Seen) {
				s.Report.Members = append(s.Report.Members, cluster.Member{ID: 2, Name: "b", Learner: true})
			},
		},
		"revisions that came far": {state: known, seen: func(s *Seen) { s.Report.Revision = 1 << 40 }, recognized: true},
		"a newer cluster version": {
			state: known, seen: func(s *Seen) { s.Report.Cluster = etcdversion.Must("3.7.0") }, recognized: true,
		},
		"no cluster version": {
			state: known, seen: func(s *Seen) { s.Report.Cluster = etcdversion.Version{} },
		},
		"the word for a new cluster": {
			state: known, seen: func(s *Seen) { s.AsksForCluster = true }, hasCluster: true,
		},
		"that word, while it is followed": {seen: func(s *Seen) { s.AsksForCluster = true }},
		"that word, when it was followed": {
			seen: func(s *Seen) { s.AsksForCluster, s.Begun = true, true }, fulfilled: true, hasCluster: true,
		},
		"that word on an empty disk": {
			state: known, seen: func(s *Seen) { s.AsksForCluster, s.Disk.State = true, cluster.DiskEmpty },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, seen := running(), seenAll()
			if c.state != nil {
				c.state(&s)
			}
			if c.seen != nil {
				c.seen(&seen)
			}
			before := s
			l := Learn(s, seen)
			if (l.Fulfilled != "") != c.fulfilled || (l.Recognized != nil) != c.recognized || l.HasCluster != c.hasCluster {
				t.Errorf("it learns %+v", l)
			}
			if l.Empty() != !(c.fulfilled || c.recognized || c.hasCluster) || l.Changes() != (c.fulfilled || c.recognized) {
				t.Errorf("empty %t, changes %t", l.Empty(), l.Changes())
			}
			if !reflect.DeepEqual(s, before) {
				t.Errorf("learning changed the state: %+v", s)
			}
			if err := l.Transition()(&s); err != nil {
				t.Fatal(err)
			}
			if l = Learn(s, seen); l.Changes() {
				t.Errorf("it learns again: %+v", l)
			}
		})
	}
}
