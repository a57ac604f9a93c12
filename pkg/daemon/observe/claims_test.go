package observe

import (
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// recordedThree are three members that follow member 1, each with the lease voters' record.
func recordedThree(leader cluster.MemberID) *world {
	w := newWorld().incarnations("t1")
	for i, name := range []cluster.NodeName{"a", "b", "c"} {
		w.node(name, runs("t1", report(cluster.MemberID(i+1), leader, 3)), keeps("t1", 4, 1, "a", "b", "c"))
	}
	return w
}

// TestWhoseRecordCounts: a node that is no member, as far as the members know, does
// not settle who the lease voters are, whatever it says that it has.
func TestWhoseRecordCounts(t *testing.T) {
	own := leaseVoters("t1", 4, 1, "a", "b", "c")
	spare := func() *world { // the observer is a, which is no member and has no record
		return newWorld().incarnations("t1").node("a").
			node("b", runs("t1", report(2, 2, 3)), keeps("t1", 4, 1, "b", "c")).
			node("c", runs("t1", report(3, 2, 3)), keeps("t1", 4, 1, "b", "c"))
	}
	for _, tc := range []struct {
		name string
		w    *world
		want cluster.LeaseVoters
	}{
		{"a far term of a node that is no member",
			recordedThree(1).node("x", assigned("t1"), keeps("t1", 1<<60, 0, "x")), own},
		{"the next term of one", recordedThree(1).node("x", assigned("t1"), keeps("t1", 5, 0, "x")), own},
		{"reported first", newWorldOf(recordedThree(1), "0", assigned("t1"), keeps("t1", 5, 0, "0")), own},
		{"where no majority follows, the observer's record names who is asked",
			recordedThree(0).node("x", assigned("t1"), keeps("t1", 5, 0, "x")), own},
		{"nobody who names others is asked unless somebody names it", recordedThree(0).
			node("d", assigned("t1"), keeps("t1", 5, 2, "b", "c", "d")).node("e", assigned("t1"),
			keeps("t1", 5, 3, "c", "d", "e")), own},
		{"a chain of records", newWorld().incarnations("t1").node("a", assigned("t1"), keeps("t1", 4, 1, "a", "b", "c")).
			node("c", assigned("t1"), keeps("t1", 5, 2, "b", "c", "d")).node("d", assigned("t1"),
			keeps("t1", 5, 3, "c", "d", "e")).
			node("x", assigned("t1"), keeps("t1", 6, 0, "x")), leaseVoters("t1", 5, 3, "c", "d", "e")},
		{"an observer without a record asks the members", spare().node("x", assigned("t1"), keeps("t1", 5, 0, "x")),
			leaseVoters("t1", 4, 1, "b", "c")},
		{"or everybody where there are none",
			newWorld().incarnations("t1").node("a").node("d", assigned("t1"), keeps("t1", 5, 0, "d")),
			leaseVoters("t1", 5, 0, "d")},
		{"a far term of a member", newWorld().incarnations("t1").
			node("a", runs("t1", report(1, 1, 3)), keeps("t1", 0, 0, "a", "b", "c")).
			node("b", runs("t1", report(2, 1, 3)), keeps("t1", 0, 1, "a", "b")).
			node("c", runs("t1", report(3, 1, 3)), keeps("t1", 1<<60, 0, "c")), leaseVoters("t1", 0, 1, "a", "b")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			equal(t, "lease-voters", tc.w.merge(cluster.Observation{}).LeaseVoters, tc.want)
		})
	}
}

// newWorldOf is w with a node that answers before all others.
func newWorldOf(w *world, name cluster.NodeName, change ...func(*cluster.Answer)) *world {
	first := newWorld().node(name, change...)
	first.in.store = w.in.store
	first.in.nodes = append(first.in.nodes, w.in.nodes...)
	return first
}

// TestWhoseMemberListCounts: a node that is no member, as far as the members know,
// does not settle who the members are, whatever its report says.
func TestWhoseMemberListCounts(t *testing.T) {
	late := func(r *cluster.Report) { r.RaftTerm, r.Applied, r.Committed, r.Revision = 1<<60, 1<<60, 1<<60, 1<<60 }
	list := func(names string) func(*cluster.Report) {
		return func(r *cluster.Report) {
			r.Members = nil
			for _, name := range names {
				r.Members = append(r.Members, cluster.Member{ID: cluster.MemberID(name - 'a' + 1), Name: cluster.NodeName(name)})
			}
		}
	}
	x := cluster.MemberID('x' - 'a' + 1)
	liar := func(r *cluster.Report) func(*cluster.Answer) { return runs("t1", r) }
	one := func() *world { return newWorld().incarnations("t1").node("a", runs("t1", report(1, 1, 1))) }
	for _, tc := range []struct {
		name string
		w    *world
		want string
	}{
		{"a list of its own", three("t1").node("x", liar(report(x, x, 0, late, list("x")))), "a b c"},
		{"a list with others", three("t1").node("x", liar(report(x, 1, 0, late, list("abx")))), "a b c"},
		{"in the name of a member", three("t1").node("x", liar(report(1, 1, 0, late, list("ab")))), "a b c"},
		{"in the name of a member that is its own in its list",
			three("t1").node("x", liar(report(1, 1, 0, late, func(r *cluster.Report) {
				r.Members = []cluster.Member{{ID: 1, Name: "x"}}
			}))), "a b c"},
		{"against a single member", one().node("x", liar(report(x, x, 0, late, list("x")))), "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obs := tc.w.merge(cluster.Observation{})
			equal(t, "healthy", healthyNames(obs), tc.want)
			equal(t, "leader", obs.Leader, cluster.MemberID(1))
			equal(t, "revision", obs.Revision, cluster.Revision(40))
		})
	}
	t.Run("when most members are away, one that was a member before is believed", func(t *testing.T) {
		w := newWorld().incarnations("t1").node("b", runs("t1", report(2, 0, 3))).unreachable("a").unreachable("c").
			node("x", liar(report(x, x, 0, late, list("x"))))
		obs := w.merge(three("t1").incarnations("t1").merge(cluster.Observation{}))
		equal(t, "members", len(obs.Members), 3)
		equal(t, "leader", obs.Leader, cluster.MemberID(0))
	})
}
