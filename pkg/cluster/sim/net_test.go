package sim

import (
	"testing"
	"time"
)

// TestOneWay makes sure that a one-way partition stops what one side asks, and
// nothing else.
func TestOneWay(t *testing.T) {
	w := running(t, 3, 0)
	a, b, g := w.nodes[0], w.nodes[1], w.groups[0]
	w.cut(a, b, false)
	w.steps(3)
	if g.leader == 0 || !w.linked(a, b) {
		t.Error("the members do not go on")
	}
	if obs := w.observe(a); obs.Nodes[1].Reachable || !obs.Nodes[2].Reachable {
		t.Error("a does not see what it should")
	}
	if obs := w.observe(b); !obs.Nodes[0].Reachable {
		t.Error("b does not see a")
	}
}

// TestAStarHasALeader makes sure that two members that reach a third, and not each
// other, go on if that leads, and that one without a majority of links does not.
func TestAStarHasALeader(t *testing.T) {
	w := running(t, 3, 0)
	a, b, c, g := w.nodes[0], w.nodes[1], w.nodes[2], w.groups[0]
	g.leader = g.memberOn(a).id
	w.cut(a, b, true)
	w.cut(a, c, true)
	w.steps(1)
	if g.leader == 0 || g.leader == g.memberOn(a).id {
		t.Errorf("%s leads after the leader was cut off", g.leader)
	}
	w.healNetwork()
	w.network.to = w.step + 10
	w.cut(a, b, true)
	w.steps(1)
	if leader := g.find(g.leader); leader == nil {
		t.Error("nobody leads a star")
	}
	w.cut(b, c, true)
	w.steps(1)
	if leader := g.find(g.leader); leader == nil || leader.host != c {
		t.Error("the middle of the star does not lead")
	}
}

// TestALateRequestArrives makes sure that what comes late is decided then.
func TestALateRequestArrives(t *testing.T) {
	w := running(t, 3, 0)
	b := w.nodes[1]
	c := b.candidate
	c.Learn(b.leaseVoters(), b.grantor.Durable.Term)
	c.Enter(b.leaseVoters().Token)
	c.Learn(b.leaseVoters(), b.grantor.Durable.Term)
	r, err := c.Campaign(b.mono(w.now))
	if err != nil {
		t.Fatal(err)
	}
	w.network.late = []lateRequest{{to: w.nodes[2], req: r.Request, due: w.now.Add(time.Minute)}}
	w.deliver()
	if w.nodes[2].grantor.Durable.Grant.Holder == b.name {
		t.Fatal("it came early")
	}
	w.now = w.now.Add(time.Minute)
	w.deliver()
	if got := w.nodes[2].grantor.Durable; got.Term != r.Request.Term || got.Grant.Holder != b.name ||
		len(w.network.late) > 0 {
		t.Errorf("the late request left %+v", got)
	}
}
