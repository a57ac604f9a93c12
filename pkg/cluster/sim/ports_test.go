package sim

import (
	"slices"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// TestPortHistories is TestHistories where peer ports are closed, one way and both.
func TestPortHistories(t *testing.T) { play(t, Config{Ports: true}) }

// TestPortRegressions replays seeds of those histories that have broken an invariant.
func TestPortRegressions(t *testing.T) {
	for seed, name := range map[uint64]string{
		39506137505584866: "nobody coordinates where all data is lost, and what is reported is that",
		32308998217342150: "what was restored later is lost, and what runs gets a record",
	} {
		if _, err := Run(seed, Config{Ports: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAClosedPort makes sure that members of which one reaches the other go on, and that
// the daemon reports; and that they are apart when neither does.
func TestAClosedPort(t *testing.T) {
	w := running(t, 3, 0)
	w.config.Ports = true
	a, b, c := w.nodes[0], w.nodes[1], w.nodes[2]
	w.network.portsTo = 1 << 30
	w.steps(2)
	w.network.ports[b.index()] = 1 << c.index()
	w.steps(1)
	obs := w.observe(a)
	id := func(n *node) cluster.MemberID { return n.disk.id }
	if link, ok := obs.Nodes[1].Link(id(c)); !ok || !link.Broken() || link.Down == 0 {
		t.Errorf("b reports %+v of c", link)
	}
	for _, pair := range [][2]*node{{c, b}, {a, b}, {b, a}} {
		if link, ok := obs.Nodes[pair[0].index()].Link(id(pair[1])); !ok || !link.Tried || link.Broken() {
			t.Errorf("%s reports %+v of %s", pair[0].name, link, pair[1].name)
		}
	}
	if !w.linked(b, c) {
		t.Error("they do not talk over the connection that c opens")
	}
	w.network.ports[c.index()] = 1 << b.index()
	if w.linked(b, c) {
		t.Error("they talk over no connection")
	}
	w.calm()
	w.steps(1)
	if link, _ := w.observe(a).Nodes[1].Link(id(c)); link.Broken() || !w.linked(b, c) {
		t.Errorf("the port stays closed: %+v", link)
	}
}

// TestPortReach makes sure that the histories get to where the rules about peer ports are.
func TestPortReach(t *testing.T) {
	held, reported, waits, unsafe := 0, 0, 0, 0
	next := func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
		op, holds := plan.Next(spec, obs)
		for _, h := range holds {
			switch {
			case h.Reason != plan.PeerUnreachable:
			case containsWord(h.Text, "waits:"):
				waits++
			case containsWord(h.Text, "promoted:"):
				held++
			default:
				reported++
			}
		}
		if blind, _ := plan.Next(spec, unlinked(obs)); blind != nil && plan.Check(spec, obs, blind) != nil {
			unsafe++
		}
		return op, holds
	}
	for i := range uint64(3000) {
		seed := 700 + i
		if _, err := Run(seed, Config{Next: next, Ports: true}); err != nil {
			t.Fatal(err)
		}
		if held > 0 && reported > 0 && waits > 0 && unsafe > 0 {
			t.Logf("all is reached after %d histories", i)
			return
		}
	}
	t.Errorf("a closed port is reported %d times; %d times a learner is not promoted, and %d times something waits; %d times Check "+
		"refuses what who sees no ports would do", reported, held, waits, unsafe)
}

// unlinked is an observation without what it reports of peer ports.
func unlinked(obs cluster.Observation) cluster.Observation {
	obs.Nodes = append([]cluster.Node(nil), obs.Nodes...)
	for i := range obs.Nodes {
		obs.Nodes[i].Links = nil
	}
	return obs
}

// TestWhoseStopTakesTheMiddleAway makes sure that the world shows what who overlooks closed
// ports does: of three of which two reach each other through the third only, that one
// is stopped.
func TestWhoseStopTakesTheMiddleAway(t *testing.T) {
	for _, apart := range []bool{true, false} {
		w := running(t, 3, 0)
		w.config.Ports, w.config.Trusting = true, true
		a, b, c := w.nodes[0], w.nodes[1], w.nodes[2]
		w.network.portsTo = 1 << 30
		w.network.ports[a.index()] = 1 << b.index()
		if apart {
			w.network.ports[b.index()] = 1 << a.index()
		}
		w.steps(3)
		before, stop := w.quorate(), &plan.MemberStop{Node: c.name, ExpectToken: c.disk.token, ExpectMemberID: c.disk.id}
		w.mustDo(t, stop)
		w.checkQuorum(before, stop)
		if lost := w.broken != nil && w.broken.invariant == "quorum"; lost != apart {
			t.Errorf("both ways is %t: broken is %v", apart, w.broken)
		}
	}
}

// TestWhoSeesNoPortsIsCaught makes sure that a planner that overlooks closed ports is
// caught by Check.
func TestWhoSeesNoPortsIsCaught(t *testing.T) {
	blind := func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
		return plan.Next(spec, unlinked(obs))
	}
	catch(t, Config{Next: blind, Ports: true}, 700, "check")
}

// TestBugsAreCaughtBesideClosedPorts makes sure that closed ports hide none of the other
// deliberate bugs.
func TestBugsAreCaughtBesideClosedPorts(t *testing.T) {
	for _, c := range controls {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			catch(t, Config{Next: c.next, Ports: true}, rarePorts[c.name], c.checked)
		})
	}
	for _, c := range versionControls {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			with := Config{Next: c.next, Versions: true, Ports: true, Sealed: slices.Contains(aboutRestores, c.name)}
			catch(t, with, rarePorts[c.name], c.checked)
		})
	}
}

// rarePorts has the seeds to begin with for those that few histories catch.
var rarePorts = map[string]uint64{
	"never recovers the lease voters":          215,
	"takes a member that answers for healthy":  1140,
	"tries on a second member what has failed": 710,
	"takes the word for another version":       120,
	"changes two at once":                      470,
}
