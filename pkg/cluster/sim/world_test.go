package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// running returns a world with a cluster of voters on its first nodes, and some
// spare nodes.
func running(t *testing.T, voters, spares int) *world {
	t.Helper()
	w := newWorld(1, Config{})
	w.nodes = nil
	for i := range voters + spares {
		w.addNode(i)
	}
	w.spec.MemberCount = voters
	w.spec.Policy = cluster.Policy{}
	for range 200 {
		w.reseed()
		w.tick()
		op := w.act(w.nodes[0]).op
		w.pass(time.Second)
		w.step++
		if w.broken != nil {
			t.Fatal(*w.broken)
		}
		if op == nil && w.settled() {
			return w
		}
	}
	t.Fatal("the world was not bootstrapped")
	return nil
}

func (w *world) mustDo(t *testing.T, op plan.Operation) {
	t.Helper()
	if err := w.try(op); err != nil {
		t.Fatalf("%s: %v", plan.Line(op), err)
	}
}

func (w *world) try(op plan.Operation) error {
	obs := w.observe(w.nodes[0])
	return w.do(w.nodes[0], &obs, op)
}

// steps lets some time pass.
func (w *world) steps(steps int) {
	for range steps {
		w.reseed()
		w.tick()
		w.step++
		w.pass(time.Second)
	}
}

func TestALeaderNeedsAConnectedMajority(t *testing.T) {
	w := running(t, 5, 0)
	g := w.groups[0]
	w.partition(0b11000)
	w.steps(1)
	if g.leader == 0 || g.find(g.leader).host.side != 0 {
		t.Errorf("three of five do not lead: leader %s", g.leader)
	}
	w.partition(0b11100)
	w.steps(1)
	if g.leader == 0 || g.find(g.leader).host.side != 1 {
		t.Errorf("three of five on the other side do not lead: leader %s", g.leader)
	}
	w.partition(0b11100)
	w.nodes[4].shutdown()
	w.steps(1)
	if g.leader != 0 {
		t.Errorf("two of five on each side have leader %s", g.leader)
	}
}

func TestTheMinoritySeesNoLeader(t *testing.T) {
	w := running(t, 3, 0)
	w.partition(0b100)
	w.steps(2)
	obs := w.observe(w.nodes[2])
	if obs.Leader != 0 || len(obs.Members) != 3 ||
		slices.ContainsFunc(obs.Members, func(m cluster.Member) bool { return m.Healthy }) {
		t.Errorf("the minority sees %+v", obs.Members)
	}
	if w.lead(w.nodes[2], &obs) {
		t.Error("the minority may act")
	}
	obs = w.observe(w.nodes[0])
	if obs.Leader == 0 || !obs.Members[0].Healthy || obs.Members[2].Healthy || obs.Nodes[2].Reachable {
		t.Errorf("the majority sees %+v", obs)
	}
}

func TestMemberIDsAreNotUsedAgain(t *testing.T) {
	w := running(t, 3, 1)
	seen := map[cluster.MemberID]bool{}
	for range 5 {
		w.mustDo(t, &plan.AddLearner{Node: "d", PeerURLs: urls[3].Peer, ExpectVoters: 3})
		id := w.groups[0].memberOn(w.nodes[3]).id
		if seen[id] || id <= 3 {
			t.Fatalf("id %s was used before", id)
		}
		seen[id] = true
		w.mustDo(t, &plan.Remove{ID: id, ExpectVoters: 3})
	}
}

func TestALearnerCatchesUpOverTime(t *testing.T) {
	w := running(t, 3, 1)
	w.steps(100)
	g := w.groups[0]
	w.mustDo(t, &plan.AddLearner{Node: "d", PeerURLs: urls[3].Peer, ExpectVoters: 3})
	if err := w.try(&plan.AddLearner{Node: "e", PeerURLs: []string{"x"}, ExpectVoters: 3}); err == nil {
		t.Error("a second learner was added")
	}
	if m := g.memberOn(w.nodes[3]); m.name != "" || !m.learner {
		t.Errorf("a member that has never started is %+v", m)
	}
	w.mustDo(t, &plan.MemberStart{Node: "d", Token: g.token, Mode: plan.StartJoin, Version: version})
	if err := w.try(&plan.Promote{Name: "d", ExpectVoters: 3}); err == nil {
		t.Error("a learner was promoted that knows nothing")
	}
	w.steps(2)
	if m := g.memberOn(w.nodes[3]); m.name != "d" {
		t.Errorf("a started member has not reported its name: %+v", m)
	}
	w.steps(20)
	w.mustDo(t, &plan.Promote{Name: "d", ExpectVoters: 3})
	if g.voters() != 4 {
		t.Errorf("there are %d voters", g.voters())
	}
}

func TestASlowLearnerDoesNot(t *testing.T) {
	w := running(t, 3, 1)
	w.steps(100)
	w.nodes[3].slow = true
	w.mustDo(t, &plan.AddLearner{Node: "d", PeerURLs: urls[3].Peer, ExpectVoters: 3})
	w.mustDo(t, &plan.MemberStart{Node: "d", Token: w.groups[0].token, Mode: plan.StartJoin, Version: version})
	w.steps(50)
	if err := w.try(&plan.Promote{Name: "d", ExpectVoters: 3}); err == nil {
		t.Error("a learner that is stuck was promoted")
	}
}

func TestNothingChangesWithoutQuorum(t *testing.T) {
	w := running(t, 3, 1)
	w.nodes[1].shutdown()
	w.nodes[2].shutdown()
	w.steps(1)
	for _, op := range []plan.Operation{
		&plan.AddLearner{Node: "d", PeerURLs: urls[3].Peer, ExpectVoters: 3},
		&plan.Remove{ID: 3, ExpectName: "c", ExpectVoters: 3},
		&plan.MoveLeader{To: "b"},
	} {
		if err := w.try(op); err == nil {
			t.Errorf("%s without quorum", plan.Line(op))
		}
	}
}

func TestARemovedMemberCrashes(t *testing.T) {
	w := running(t, 3, 0)
	w.mustDo(t, &plan.Remove{ID: w.groups[0].memberOn(w.nodes[2]).id, ExpectName: "c", ExpectVoters: 3})
	w.steps(1)
	if w.nodes[2].process != cluster.ProcessCrashing {
		t.Errorf("a removed member is %s", w.nodes[2].process)
	}
}

func TestAnIncarnationIsCreatedOnce(t *testing.T) {
	w := running(t, 3, 0)
	token := w.groups[0].token
	if err := w.createIncarnation(w.nodes[0], &plan.IncarnationCreate{
		Number: 1, Token: "other", Version: version,
	}); err == nil {
		t.Error("a second record of number 1 was made")
	}
	if err := w.createIncarnation(w.nodes[0], &plan.IncarnationCreate{
		Number: 1, Token: token, Version: version,
	}); err != nil {
		t.Errorf("the same record again: %v", err)
	}
	w.store.down = true
	if err := w.createIncarnation(w.nodes[0], &plan.IncarnationCreate{
		Number: 2, Token: token, Version: version,
	}); err == nil {
		t.Error("a record was made in a store that does not answer")
	}
}

func removeVoter(w *world, i int) {
	_ = w.try(&plan.Remove{ID: w.groups[0].memberOn(w.nodes[i]).id, ExpectName: w.nodes[i].name, ExpectVoters: 3})
}

// harms break each invariant of the world once, by hand.
var harms = []struct {
	invariant string
	harm      func(w *world)
}{
	{"data-lost", func(w *world) {
		w.nodes[1].disk.index, w.nodes[2].disk.index = 0, 0
		w.nodes[0].shutdown()
		w.steps(1)
	}},
	{"two-clusters", func(w *world) {
		g := w.bootstrap(&plan.MemberStart{Token: "other", Peers: []cluster.InitialMember{{Name: "d"}}})
		d := w.nodes[3]
		d.disk, d.process = disk{data: true, token: "other", id: g.members[0].id}, cluster.ProcessRunning
		w.steps(1)
	}},
	{"fresh-disk", func(w *world) {
		w.config.Trusting = true
		w.nodes[2].loseDisk()
		_ = w.try(&plan.MemberStart{Node: "c", Token: w.groups[0].token, Mode: plan.StartNew, Version: version})
	}},
	{"void-place", func(w *world) {
		w.spec.MemberCount = 2
		removeVoter(w, 2)
		w.nodes[2].loseDisk()
		w.config.Trusting = true
		_ = w.try(&plan.MemberStart{Node: "c", Token: w.groups[0].token, Mode: plan.StartNew, Version: version})
	}},
	{"live-data", func(w *world) {
		c := w.nodes[2]
		c.process = cluster.ProcessStopped
		_ = w.try(&plan.DataSetAside{Node: "c", Token: c.disk.token, ExpectMemberID: c.disk.id})
	}},
	{"quorum", func(w *world) {
		w.nodes[2].shutdown()
		w.config.Trusting = true
		obs := w.observe(w.nodes[0])
		w.effect(w.nodes[0], &obs, &plan.MemberStop{Node: "b", ExpectToken: "x"}, false)
	}},
	{"bootstrap", func(w *world) {
		_ = w.createIncarnation(w.nodes[0], &plan.IncarnationCreate{Number: 2, Token: "other"})
	}},
	{"backup", func(w *world) {
		w.steps(1)
		w.store.backups = nil
		removeVoter(w, 2)
	}},
	{"grace", func(w *world) { removeVoter(w, 2) }},
	{"newest", func(w *world) {
		_ = w.try(&plan.BackupPrune{Remove: []string{w.store.backups[0].Name}})
	}},
	{"check", func(w *world) {
		obs := w.observe(w.nodes[0])
		w.carryOut(w.nodes[0], &obs, &plan.MoveLeader{To: "z"})
	}},
	{"unexplained", func(w *world) {
		w.config.Next = func(cluster.Spec, cluster.Observation) (plan.Operation, []plan.Hold) { return nil, nil }
		w.nodes[2].shutdown()
		w.steps(1)
		w.act(w.nodes[0])
	}},
}

func TestTheWorldSees(t *testing.T) {
	for _, tt := range harms {
		t.Run(tt.invariant, func(t *testing.T) {
			w := running(t, 3, 1)
			w.steps(5)
			if w.broken != nil {
				t.Fatal(*w.broken)
			}
			tt.harm(w)
			if w.broken == nil || w.broken.invariant != tt.invariant {
				t.Errorf("the world says %v", w.broken)
			}
		})
	}
}
