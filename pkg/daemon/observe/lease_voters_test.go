package observe

import (
	"math"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func leaseVoters(token cluster.Token, term cluster.Term, seq uint64, names ...cluster.NodeName) cluster.LeaseVoters {
	return cluster.LeaseVoters{Token: token, Term: term, Seq: seq, Names: names}
}

// backThen is a cluster t2 that serves, beside a node that has been away since t1.
func backThen() *world {
	w := newWorld().node("a", assigned("t1"), keeps("t1", 9, 0, "a"))
	for i, name := range []cluster.NodeName{"b", "c"} {
		w.node(name, runs("t2", report(cluster.MemberID(i+2), 2, 3)), keeps("t2", 1, 0, "b", "c"))
	}
	return w
}

func TestWhichLeaseVotersCount(t *testing.T) {
	old := leaseVoters("t1", 1, 0, "a", "b")
	for _, tc := range []struct {
		name string
		w    *world
		want cluster.LeaseVoters
	}{
		{"nobody has a record",
			newWorld().node("a", assigned("t1")), cluster.LeaseVoters{}},
		{"a promise without the bootstrap's record makes no lease voters",
			newWorld().node("a", promised("t1"), keeps("t1", 0, 0, "a", "b")), cluster.LeaseVoters{}},
		{"a promise counts once its bootstrap is recorded",
			newWorld().incarnations("t1").node("a", promised("t1"), keeps("t1", 0, 0, "a", "b")),
			leaseVoters("t1", 0, 0, "a", "b")},
		{"a promise to the bootstrap that lost does not",
			newWorld().incarnations("t1").node("a", promised("t2"), keeps("t2", 0, 0, "a", "b")), cluster.LeaseVoters{}},
		{"a node with neither member nor promise is no lease voter any more",
			newWorld().incarnations("t1").node("a", keeps("t1", 1, 0, "a", "b")), cluster.LeaseVoters{}},
		{"a member's record counts without a store",
			newWorld().node("a", assigned("t1"), keeps("t1", 1, 0, "a", "b")), old},
		{"the later term wins",
			newWorld().node("a", assigned("t1"), keeps("t1", 1, 9, "a", "b")).node("b", assigned("t1"),
				keeps("t1", 2, 0, "b", "c")), leaseVoters("t1", 2, 0, "b", "c")},
		{"the later term wins, reported first",
			newWorld().node("a", assigned("t1"), keeps("t1", 2, 0, "b", "c")).node("b", assigned("t1"),
				keeps("t1", 1, 9, "a", "b")), leaseVoters("t1", 2, 0, "b", "c")},
		{"in one term the later change wins",
			newWorld().node("a", assigned("t1"), keeps("t1", 2, 2, "a", "b")).node("b", assigned("t1"),
				keeps("t1", 2, 3, "a", "b", "c")), leaseVoters("t1", 2, 3, "a", "b", "c")},
		{"the newest incarnation's record wins over a later term of an old one",
			newWorld().incarnations("t1", "t2").node("a", assigned("t1"), keeps("t1", 9, 0, "a")).node("b", assigned("t2"),
				keeps("t2", 1, 0, "b")), leaseVoters("t2", 1, 0, "b")},
		{"the newest incarnation's record wins, reported first",
			newWorld().incarnations("t1", "t2").node("a", assigned("t2"), keeps("t2", 1, 0, "a")).node("b", assigned("t1"),
				keeps("t1", 9, 0, "b")), leaseVoters("t2", 1, 0, "a")},
		{"what serves and has no record wins over the newest in a store that is older",
			backThen().incarnations("t1"), leaseVoters("t2", 1, 0, "b", "c")},
		{"not while nodes are to change over to a restore",
			backThen().restored("t0", "t1").node("d", stages("t1")), leaseVoters("t1", 9, 0, "a")},
		{"a record of a term that nobody can have is none",
			newWorld().node("a", assigned("t1"), keeps("t1", math.MaxUint64, 0, "x")).node("b", assigned("t1"),
				keeps("t1", 1, 0, "a", "b")), old},
		{"a record without names is none",
			newWorld().node("a", assigned("t1"), keeps("t1", 0, 0)).node("b", assigned("t1"), keeps("t1", 0, 0, "b", "c")),
			leaseVoters("t1", 0, 0, "b", "c")},
		{"without a record in the store the first node's incarnation counts, whatever the terms",
			newWorld().node("a", assigned("t1"), keeps("t1", 1, 0, "a", "b")).node("b", assigned("t2"),
				keeps("t2", 5, 0, "c")), old},
	} {
		t.Run(tc.name, func(t *testing.T) {
			equal(t, "lease-voters", tc.w.merge(cluster.Observation{}).LeaseVoters, tc.want)
		})
	}
}

// TestAPromiseEndsWithItsIncarnation: who had promised what a restore has ended since
// makes no lease voters, also before anyone runs what was restored.
func TestAPromiseEndsWithItsIncarnation(t *testing.T) {
	staged := func(a *cluster.Answer) { a.Node.Staged = &cluster.Staged{Token: "t2", Ready: true} }
	w := newWorld().incarnations("t1", "t2").node("a", promised("t1"), keeps("t1", 0, 0, "a", "b")).
		node("b", staged).node("c", staged)
	second := &w.in.store.Store.Incarnations[1]
	equal(t, "lease-voters where t2 was no restore", w.merge(cluster.Observation{}).LeaseVoters,
		leaseVoters("t1", 0, 0, "a", "b"))
	second.Restored = &cluster.Restored{Request: "r", Backup: "b", Revision: 1_000_000_900}
	second.Voters = []cluster.InitialMember{{Name: "b"}, {Name: "c"}}
	equal(t, "lease-voters", w.merge(cluster.Observation{}).LeaseVoters, cluster.LeaseVoters{})
}

func TestAnUnreachableLeaseVotersRecordStaysKnown(t *testing.T) {
	before := newWorld().node("a", assigned("t1"), keeps("t1", 3, 0, "a", "b", "c")).merge(cluster.Observation{})
	obs := newWorld().unreachable("a").node("b", assigned("t1"), keeps("t1", 2, 0, "a", "b")).merge(before)
	equal(t, "lease-voters", obs.LeaseVoters, leaseVoters("t1", 3, 0, "a", "b", "c"))
}
