package observe

import (
	"errors"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// three are three members of one incarnation that follow member 1.
func three(token cluster.Token) *world {
	return newWorld().
		node("a", runs(token, report(1, 1, 3))).
		node("b", runs(token, report(2, 1, 3))).
		node("c", runs(token, report(3, 1, 3)))
}

func TestAHealthyCluster(t *testing.T) {
	w := three("t1").incarnations("t1")
	w.in.nodes[1].answer.Report.Revision = 44
	w.in.nodes[2].answer.Report.DBSize = 1234
	w.in.nodes[2].answer.Report.Applied = 99
	obs := w.merge(cluster.Observation{})
	equal(t, "token", obs.Token, cluster.Token("t1"))
	equal(t, "leader", obs.Leader, cluster.MemberID(1))
	equal(t, "revision", obs.Revision, cluster.Revision(44))
	equal(t, "healthy", healthyNames(obs), "a b c")
	equal(t, "member c", memberOf(t, obs, 3), cluster.Member{
		ID: 3, Name: "c", ClientURLs: []string{"http://c"}, Healthy: true, Condition: cluster.Serving, Applied: 99,
		DBSize: 1234,
	})
	equal(t, "view of b", obs.Views[1], cluster.View{
		Member: 2, ClusterID: 77, Leader: 1, RaftTerm: 5, Members: []cluster.MemberID{1, 2, 3}, Revision: 44,
	})
}

func TestNoMemberAnswers(t *testing.T) {
	obs := newWorld().incarnations("t1").node("a", assigned("t1")).merge(three("t1").merge(cluster.Observation{}))
	equal(t, "members", len(obs.Members), 0)
	equal(t, "leader", obs.Leader, cluster.MemberID(0))
	equal(t, "token", obs.Token, cluster.Token("t1"))
}

func TestWhichIncarnationIsThePresentOne(t *testing.T) {
	stale := func(w *world) *world { return w.node("z", runs("t0", report(9, 0, 3))) }
	for _, tc := range []struct {
		name string
		w    *world
		want cluster.Token
	}{
		{"nothing is known", newWorld().node("a"), ""},
		{"a quorum wins over the newest record: a restore was recorded and not begun",
			three("t1").incarnations("t1", "t2"), "t1"},
		{"of two quorums the recorded one",
			three("t1").incarnations("t1", "t2").node("d", runs("t2", report(8, 8, 1, alone("d", 8)))), "t2"},
		{"of two quorums without a record the lower token, so that all observers agree",
			three("t2").node("d", runs("t1", report(8, 8, 1, alone("d", 8)))), "t1"},
		{"or of these the one that lets clients in",
			three("t2").node("d", runs("t1", report(8, 8, 1, alone("d", 8))), closed), "t2"},
		{"a stale machine of an old incarnation cannot outvote the record", stale(newWorld().incarnations("t0", "t1")), "t1"},
		{"nor the lease voters", stale(newWorld().node("a", assigned("t1"), keeps("t1", 4, 0, "a"))), "t1"},
		{"alone it is all that is known", stale(newWorld()), "t0"},
		{"a minority of the present one is not quorate, and recorded",
			newWorld().incarnations("t1").node("a", runs("t1", report(1, 1, 3))), "t1"},
		{"learners do not make a quorum",
			newWorld().node("a", runs("t1", report(1, 1, 3, learners(2, 3)))).node("z", assigned("t0")), "t1"},
		{"those who follow another leader do not count", newWorld().incarnations("t9").
			node("a", runs("t1", report(1, 1, 3))).node("b", runs("t1", report(2, 2, 3))), "t9"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			equal(t, "token", tc.w.merge(cluster.Observation{}).Token, tc.want)
		})
	}
}

// Where a node does not answer it is not known whether clients are let in to its member, which
// answers itself.
func TestWhatIsNotKnownComesBeforeWhatIsClosed(t *testing.T) {
	said := func(token cluster.Token, closed bool) []cluster.Node {
		return []cluster.Node{{Name: "e", Assigned: &cluster.Assigned{Token: token, Quarantined: closed}}}
	}
	for _, tc := range []struct {
		name string
		last []cluster.Node
		here func(*cluster.Answer)
		want cluster.Token
	}{
		{"it let clients in when it answered last", said("t2", false), closed, "t2"},
		{"nothing is known of it", nil, closed, "t2"},
		{"the other one lets clients in", said("t2", false), func(*cluster.Answer) {}, "t1"},
		{"the other one is open, and nothing is known of it", nil, func(*cluster.Answer) {}, "t1"},
	} {
		w := newWorld().node("d", runs("t1", report(8, 8, 1, alone("d", 8))), tc.here).unreachable("e")
		w.in.probes = append(w.in.probes, probed{
			member: cluster.Member{ID: 9, Name: "e"}, report: *report(9, 9, 1, alone("e", 9)),
		})
		obs := w.merge(cluster.Observation{Token: "t2", Nodes: tc.last})
		equal(t, tc.name, obs.Token, tc.want)
	}
}

// closed keeps clients away from a node's member.
func closed(a *cluster.Answer) { a.Node.Assigned.Quarantined = true }

// alone makes the report one of a cluster of a single member.
func alone(name cluster.NodeName, id cluster.MemberID) func(*cluster.Report) {
	return func(r *cluster.Report) { r.Members = []cluster.Member{{ID: id, Name: name}} }
}

func learners(ids ...cluster.MemberID) func(*cluster.Report) {
	return func(r *cluster.Report) {
		for _, id := range ids {
			r.Members[id-1].Learner = true
		}
	}
}

func TestMembersOfOtherIncarnationsAreLeftOut(t *testing.T) {
	w := three("t2").incarnations("t1", "t2").node("z",
		runs("t1", report(9, 9, 1, alone("z", 9), func(r *cluster.Report) { r.Revision, r.RaftTerm = 1e6, 99 })))
	obs := w.merge(cluster.Observation{})
	equal(t, "healthy", healthyNames(obs), "a b c")
	equal(t, "members", len(obs.Members), 3)
	equal(t, "views", len(obs.Views), 3)
	equal(t, "revision", obs.Revision, cluster.Revision(40))
}

func TestTheBestInformedMemberReportsTheList(t *testing.T) {
	list := func(n int) func(*cluster.Report) { return func(r *cluster.Report) { r.Members = voters(n) } }
	term := func(n uint64) func(*cluster.Report) { return func(r *cluster.Report) { r.RaftTerm = n } }
	applied := func(n uint64) func(*cluster.Report) { return func(r *cluster.Report) { r.Applied = n } }
	for _, tc := range []struct {
		name    string
		reports []*cluster.Report
		members int
	}{
		{"one with a leader before one of a later term without", []*cluster.Report{
			report(1, 0, 3, list(2), term(9)), report(2, 2, 3),
		}, 3},
		{"the later raft term", []*cluster.Report{report(1, 1, 3, list(2), applied(900)), report(2, 2, 3, term(6))}, 3},
		{"the most entries applied", []*cluster.Report{report(1, 1, 3, applied(101)), report(2, 1, 3, list(4))}, 3},
		{"of equals the lowest id", []*cluster.Report{report(2, 1, 3, list(4)), report(1, 1, 3)}, 3},
		{"a learner, which reports no list, is passed over", []*cluster.Report{
			report(4, 1, 3, list(0), applied(999)), report(1, 1, 3),
		}, 3},
		{"nobody reports a list", []*cluster.Report{report(4, 1, 3, list(0))}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld()
			for _, r := range tc.reports {
				w.node(cluster.NodeName(rune('a'+r.ID-1)), runs("t1", r))
			}
			equal(t, "members", len(w.merge(cluster.Observation{}).Members), tc.members)
		})
	}
}

func TestWhichMembersAreHealthy(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(w *world)
		want   string
	}{
		{"all", func(*world) {}, "a b c"},
		{"one whose etcd does not answer", func(w *world) { w.in.nodes[1].answer.Report = nil }, "a c"},
		{"one that is isolated and follows nobody", func(w *world) { w.in.nodes[1].answer.Report.Leader = 0 }, "a c"},
		{"one that is isolated and takes itself for the leader of an older term", func(w *world) {
			r := w.in.nodes[1].answer.Report
			r.Leader, r.RaftTerm = 2, 4
		}, "a c"},
		{"NOSPACE stops writes, not the member", func(w *world) { w.in.nodes[2].answer.Report.Alarms = []string{"NOSPACE"} },
			"a b c"},
		{"CORRUPT is no member to build on", func(w *world) {
			w.in.nodes[2].answer.Report.Alarms = []string{"CORRUPT", "NOSPACE"}
		}, "a b"},
		{"one whose node is unreachable", func(w *world) { w.in.nodes[1].err = errors.New("no route") }, "a c"},
		{"one whose node is assigned to nothing", func(w *world) { w.in.nodes[1].answer.Node.Assigned = nil }, "a c"},
		{"no leader at all", func(w *world) {
			for i := range w.in.nodes {
				w.in.nodes[i].answer.Report.Leader = 0
			}
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := three("t1").incarnations("t1")
			tc.change(w)
			obs := w.merge(cluster.Observation{})
			equal(t, "healthy", healthyNames(obs), tc.want)
			for _, m := range obs.Members {
				// Nobody's time begins in an observation without a majority.
				if m.UnhealthySince.IsZero() != (m.Healthy || tc.want == "") {
					t.Errorf("%s: healthy %t, unhealthy since %s", m.Name, m.Healthy, m.UnhealthySince)
				}
			}
		})
	}
}

func TestAlarmsAreKeptWithTheirMember(t *testing.T) {
	w := three("t1")
	w.in.nodes[2].answer.Report.Alarms = []string{"NOSPACE"}
	obs := w.merge(cluster.Observation{})
	equal(t, "alarms of c", memberOf(t, obs, 3).Alarms, []string{"NOSPACE"})
	equal(t, "alarms of a", memberOf(t, obs, 1).Alarms, []string(nil))
}

func TestSinceWhenIsCarriedByMemberID(t *testing.T) {
	down := func(at time.Duration) *world {
		w := three("t1")
		w.in.at = noon.Add(at)
		w.in.nodes[1].answer.Report = nil
		return w
	}
	first := down(0).merge(cluster.Observation{})
	equal(t, "unhealthy since", memberOf(t, first, 2).UnhealthySince, noon)
	second := down(cluster.MaxObservationInterval).merge(first)
	equal(t, "unhealthy since, a moment later", memberOf(t, second, 2).UnhealthySince, noon)

	up := three("t1")
	up.in.at = noon.Add(2 * time.Minute)
	healthy := up.merge(second)
	equal(t, "unhealthy since, healthy again", memberOf(t, healthy, 2).UnhealthySince, time.Time{})
	again := down(3 * time.Minute).merge(healthy)
	equal(t, "unhealthy since, down again", memberOf(t, again, 2).UnhealthySince, noon.Add(3*time.Minute))
}

func TestALearnersTimeIsCarried(t *testing.T) {
	learning := func(at time.Duration) *world {
		w := three("t1")
		w.in.at = noon.Add(at)
		w.in.nodes[0].answer.Report.Members[2].Learner = true
		return w
	}
	first := learning(0).merge(cluster.Observation{})
	equal(t, "learner since", memberOf(t, first, 3).LearnerSince, noon)
	second := learning(cluster.MaxObservationInterval).merge(first)
	equal(t, "learner since, a moment later", memberOf(t, second, 3).LearnerSince, noon)
	promoted := three("t1").merge(second)
	equal(t, "learner since, promoted", memberOf(t, promoted, 3).LearnerSince, time.Time{})
}

func TestAnObserverThatWasCutOffFindsNobodyDeadForLong(t *testing.T) {
	alone := func(at time.Duration, prev cluster.Observation) cluster.Observation {
		w := three("t1")
		w.in.at = noon.Add(at)
		w.in.nodes[1].answer.Report, w.in.nodes[2].answer.Report = nil, nil
		return w.merge(prev)
	}
	cut := alone(time.Minute, alone(0, cluster.Observation{}))
	back := three("t1")
	back.in.at = noon.Add(10 * time.Minute)
	back.in.nodes[1].answer.Report = nil // it answers a moment later
	equal(t, "unhealthy since", memberOf(t, back.merge(cut), 2).UnhealthySince, noon.Add(10*time.Minute))
}

func TestAForeignEtcdIsNoVoice(t *testing.T) {
	w := three("t1")
	foreign := *w.in.nodes[2].answer.Report
	foreign.ClusterID, foreign.RaftTerm, foreign.Applied = 99, 1000, 1<<40
	foreign.Members = []cluster.Member{{ID: 77, Name: "c"}}
	foreign.ID, foreign.Leader = 77, 77
	w.in.nodes[2].answer.Report = &foreign
	obs := w.merge(cluster.Observation{})
	equal(t, "members", len(obs.Members), 3)
	equal(t, "healthy", healthyNames(obs), "a b")
}

func TestAReplacedMemberOfTheSameNameBeginsAgain(t *testing.T) {
	w := three("t1")
	w.in.nodes[1].answer.Report = nil
	first := w.merge(cluster.Observation{})

	w = three("t1")
	w.in.at = noon.Add(time.Hour)
	w.in.nodes[1].answer.Report = nil
	for _, i := range []int{0, 2} {
		w.in.nodes[i].answer.Report.Members[1].ID = 22
	}
	obs := w.merge(first)
	equal(t, "unhealthy since", memberOf(t, obs, 22).UnhealthySince, noon.Add(time.Hour))
}

func TestAMemberWhoseDaemonIsUnreachableIsJudgedByItsProbe(t *testing.T) {
	before := three("t1").merge(cluster.Observation{})
	w := func() *world {
		w := newWorld().node("a", runs("t1", report(1, 1, 3))).unreachable("b").unreachable("c")
		w.in.at = noon.Add(time.Minute)
		return w
	}
	obs := w().probe(*report(2, 1, 3), nil).probe(cluster.Report{ID: 3}, errors.New("refused")).merge(before)
	equal(t, "healthy", healthyNames(obs), "a b")
	equal(t, "token", obs.Token, cluster.Token("t1"))
	equal(t, "gaps", gapSources(obs), "node b, node c")
	equal(t, "unhealthy since", memberOf(t, obs, 3).UnhealthySince, noon.Add(time.Minute))

	// Without answers to the probes, one of three has no quorum to speak of; the
	// member list is still what it said.
	obs = w().probe(cluster.Report{ID: 2}, errors.New("refused")).merge(before)
	equal(t, "healthy", healthyNames(obs), "a")
	equal(t, "members", len(obs.Members), 3)
}

func TestAProbeThatAnotherMemberAnswersSaysNothing(t *testing.T) {
	before := three("t1").merge(cluster.Observation{})
	w := newWorld().node("a", runs("t1", report(1, 1, 3))).node("c", runs("t1", report(3, 1, 3))).unreachable("b")
	w.in.probes = append(w.in.probes, probed{member: cluster.Member{ID: 2}, report: *report(9, 9, 1, alone("b", 9))})
	obs := w.merge(before)
	equal(t, "healthy", healthyNames(obs), "a c")
	equal(t, "views", len(obs.Views), 2)
}

func TestAnotherClusterAtTheRightPlaceIsLeftOut(t *testing.T) {
	foreign := func(r *cluster.Report) { r.ClusterID, r.RaftTerm, r.Applied = 88, 99, 1e6 }
	for _, tc := range []struct {
		name string
		w    *world
		want string
	}{
		{"one with a quorum of its own", three("t1").node("z", runs("t1", report(9, 9, 3, foreign))), "a b c"},
		{"one that answers first", newWorld().node("0", runs("t1", report(9, 9, 3, foreign))).
			node("a", runs("t1", report(1, 1, 3))).node("b", runs("t1", report(2, 1, 3))), "a b"},
		{"without a quorum, the one with fewer reports", newWorld().node("0", runs("t1", report(9, 0, 3, foreign))).
			node("a", runs("t1", report(1, 0, 3))).node("b", runs("t1", report(2, 0, 3))), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obs := tc.w.merge(cluster.Observation{})
			equal(t, "healthy", healthyNames(obs), tc.want)
			for _, v := range obs.Views {
				equal(t, "cluster of "+v.Member.String(), v.ClusterID, cluster.ClusterID(77))
			}
		})
	}
}

// An observer that stood still finds a member unhealthy that was so before. What
// happened in between nobody has seen.
func TestTimeInWhichNobodyObservedDoesNotCount(t *testing.T) {
	without := func() *world {
		w := three("t1")
		w.in.nodes[2].answer.Report = nil
		return w
	}
	first := without().merge(cluster.Observation{})
	for _, gap := range []time.Duration{time.Second, cluster.MaxObservationInterval, 10 * time.Minute} {
		next := without()
		next.in.at = first.At.Add(gap)
		m := memberOf(t, next.merge(first), 3)
		if got, want := next.in.at.Sub(m.UnhealthySince), min(gap, cluster.MaxObservationInterval); m.Healthy || got != want {
			t.Errorf("after %v without an observation it is unhealthy for %v, want %v (healthy: %t)", gap, got, want, m.Healthy)
		}
	}
}
