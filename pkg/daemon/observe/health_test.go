package observe

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// gray is what an observation finds at the node of member c, which follows, by its own
// words.
type gray struct {
	storage cluster.Storage
	read    cluster.Read
	applied uint64
	why     *cluster.NoReport
}

// grayWorld has two members that serve, and c.
func grayWorld(g gray, committed uint64) *world {
	served := func(r *cluster.Report) { r.Read, r.Applied, r.Committed = cluster.ReadServed, committed, committed }
	w := newWorld().incarnations("t1").
		node("a", runs("t1", report(1, 1, 3, served))).
		node("b", runs("t1", report(2, 1, 3, served)))
	r := report(3, 1, 3, func(r *cluster.Report) { r.Read, r.Applied, r.Committed = g.read, g.applied, g.applied })
	if g.why != nil {
		r = nil
	}
	return w.node("c", runs("t1", r), func(a *cluster.Answer) {
		a.Node.Storage, a.Node.Process.NoReport = g.storage, g.why
	})
}

// seen observes once a second, and returns how c does in the last observation.
func seen(t *testing.T, observations ...gray) cluster.Member {
	t.Helper()
	var obs cluster.Observation
	for i, g := range observations {
		w := grayWorld(g, uint64(100+i))
		w.in.at = noon.Add(time.Duration(i) * time.Second)
		obs = w.merge(obs)
	}
	return memberOf(t, obs, 3)
}

func times(n int, g gray) []gray {
	list := make([]gray, n)
	for i := range list {
		list[i] = g
	}
	return list
}

func TestAMemberThatAnswersIsNotForThatHealthy(t *testing.T) {
	well := gray{read: cluster.ReadServed, applied: 100, storage: cluster.Storage{State: cluster.StorageGood}}
	late := well
	late.read = cluster.ReadLate
	disk := func(s cluster.Storage) gray { g := well; g.storage = s; return g }
	learnerStands := gray{applied: 50, storage: cluster.Storage{State: cluster.StorageGood}}
	for _, tc := range []struct {
		name         string
		observations []gray
		want         cluster.Condition
		healthy      bool
	}{
		{"it serves", []gray{well}, cluster.Serving, true},
		{"it has not been asked for a read, as by an older daemon", []gray{{applied: 100}}, cluster.Serving, true},
		{"one read came late", []gray{well, late}, cluster.Late, true},
		{"the reads of ten seconds came late", times(11, late), cluster.Late, true},
		{"those of more", times(12, late), cluster.Stuck, false},
		{"one of them came in time", append(append(times(8, late), well), times(8, late)...), cluster.Late, true},
		{"a write takes longer than an election", []gray{
			disk(cluster.Storage{State: cluster.StorageGood, Pending: time.Second}),
		}, cluster.Late, true},
		{"and one that is shorter", []gray{
			disk(cluster.Storage{State: cluster.StorageGood, Pending: 900 * time.Millisecond}),
		}, cluster.Serving, true},
		{"its disk is slow", []gray{disk(cluster.Storage{State: cluster.StorageSlow})}, cluster.Slow, true},
		{"its disk hangs, and nothing was to be written: it serves reads", []gray{
			disk(cluster.Storage{State: cluster.StorageHung}),
		}, cluster.Hung, false},
		{"its disk fails", []gray{disk(cluster.Storage{State: cluster.StorageFailing})}, cluster.Hung, false},
		{"it stands still while others move, and was not asked for a read", times(14, learnerStands), cluster.Stuck, false},
		{"it has stood still for a moment", times(5, learnerStands), cluster.Late, true},
		{"its etcd denies", []gray{{why: &cluster.NoReport{Cause: cluster.CauseAuth, Text: "denied"}}}, cluster.Down, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := seen(t, tc.observations...)
			equal(t, "condition", m.Condition, tc.want)
			equal(t, "healthy", m.Healthy, tc.healthy)
			equal(t, "says why", m.Why == "", tc.want == cluster.Serving)
		})
	}
}

func TestTimeInWhichNobodyObservedMakesNoMemberStuck(t *testing.T) {
	late := gray{read: cluster.ReadLate, applied: 100}
	obs := grayWorld(late, 100).merge(cluster.Observation{})
	w := grayWorld(late, 101)
	w.in.at = noon.Add(5 * time.Minute)
	equal(t, "condition", memberOf(t, w.merge(obs), 3).Condition, cluster.Late)
}

// One operation that takes long lies between two observations: what the member did
// meanwhile, nobody saw.
func TestOfALongTimeBetweenTwoObservationsOnlyAPartCounts(t *testing.T) {
	late := gray{read: cluster.ReadLate, applied: 100}
	obs := grayWorld(late, 100).merge(cluster.Observation{})
	for i, want := range []cluster.Condition{cluster.Late, cluster.Late, cluster.Stuck} {
		w := grayWorld(late, uint64(101+i))
		w.in.at = noon.Add(time.Duration(i+1) * 12 * time.Second)
		obs = w.merge(obs)
		equal(t, "condition", memberOf(t, obs, 3).Condition, want)
	}
}

func TestALeaderWithAHungDiskIsSeen(t *testing.T) {
	w := grayWorld(gray{read: cluster.ReadServed, applied: 100}, 100)
	w.in.nodes[0].answer.Node.Storage = cluster.Storage{State: cluster.StorageHung}
	obs := w.merge(cluster.Observation{})
	equal(t, "leader", obs.Leader, cluster.MemberID(1))
	equal(t, "healthy", healthyNames(obs), "b c")
}

func TestAMemberThatNeverStartedIsReportedFromOneThatIsDown(t *testing.T) {
	strange := func(r *cluster.Report) { r.Members = append(r.Members, cluster.Member{ID: 9}) }
	obs := newWorld().node("a", runs("t1", report(1, 1, 2, strange))).node("b",
		runs("t1", report(2, 1, 2, strange))).merge(cluster.Observation{})
	equal(t, "condition", memberOf(t, obs, 9).Condition, cluster.Unstarted)
}

func TestWhatAnotherMembersNodeSaysOfItsDiskIsNotHeldAgainstAMember(t *testing.T) {
	w := grayWorld(gray{read: cluster.ReadServed, applied: 100, storage: cluster.Storage{State: cluster.StorageHung}}, 100)
	w.in.nodes[2].answer.Node.Disk.MemberID = 77
	equal(t, "condition", memberOf(t, w.merge(cluster.Observation{}), 3).Condition, cluster.Serving)
}

func TestAReadThroughTheQuorumProvesItWhateverElseDoesNotAnswer(t *testing.T) {
	for _, tc := range []struct {
		name string
		read cluster.Read
		want bool
	}{
		{"it was answered", cluster.ReadServed, true},
		{"it came late", cluster.ReadLate, false},
		{"nobody asked", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := memberOf(t, grayWorld(gray{read: tc.read, applied: 100}, 100).merge(cluster.Observation{}), 3)
			equal(t, "served", m.Served, tc.want)
		})
	}
}
