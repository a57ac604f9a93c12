package sim

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// TestVersionHistories is TestHistories where machines have several versions, and the
// spec asks for one after the other.
func TestVersionHistories(t *testing.T) { play(t, Config{Versions: true}) }

// TestVersionReach makes sure that the histories get to where the rules about versions
// are.
func TestVersionReach(t *testing.T) {
	seen := map[string]int{}
	next := func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
		op, holds := plan.Next(spec, obs)
		if op != nil {
			seen["operation "+plan.KindOf(op).Path]++
		}
		if c, ok := op.(*plan.MemberChangeVersion); ok {
			switch d := c.To.Minor - c.ExpectVersion.Minor; {
			case d > 0 && len(c.AcceptHazards) > 0:
				seen["a minor up with accepted hazards"]++
			case d > 0:
				seen["a minor up"]++
			case d < 0:
				seen["a minor down"]++
			default:
				seen["a patch"]++
			}
		}
		for _, h := range holds {
			seen["hold "+string(h.Reason)]++
		}
		return op, holds
	}
	want := []string{
		"operation member change-version", "operation member force-snapshot", "operation downgrade enable",
		"operation downgrade cancel", "a minor up with accepted hazards", "a minor up", "a minor down", "a patch",
		"hold version-differs", "hold version-hazard", "hold version-failed", "hold binary-missing",
	}
	for _, k := range versionKinds {
		want = append(want, "fault "+string(k))
	}
	missing := func() (list []string) {
		for _, what := range want {
			if seen[what] == 0 {
				list = append(list, what)
			}
		}
		return list
	}
	for seed := range uint64(2000) {
		h, err := Run(seed, Config{Next: next, Versions: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range h.Faults {
			seen["fault "+string(f.Kind)]++
		}
		if seed%20 == 0 && len(missing()) == 0 {
			t.Logf("all is reached after %d histories", seed)
			return
		}
	}
	t.Errorf("no history has %q", missing())
}

// withVersion returns a world with a cluster of three of a version.
func withVersion(t *testing.T, v string) *world {
	t.Helper()
	w := running(t, 3, 0)
	w.config.Versions = true
	w.spec.EtcdVersion = etcdversion.Must(v)
	for _, n := range w.nodes {
		n.has = universe
		a := *n.assigned
		a.Version = w.spec.EtcdVersion
		n.assigned, n.process = &a, cluster.ProcessStopped
	}
	w.steps(30)
	return w
}

// change returns the order to change the member on a node.
func (w *world) change(name cluster.NodeName, to string) *plan.MemberChangeVersion {
	n := w.node(name)
	return &plan.MemberChangeVersion{
		Node: name, ExpectToken: n.disk.token, ExpectMemberID: n.disk.id, ExpectVersion: n.assigned.Version,
		To: etcdversion.Must(to),
	}
}

// The world's etcd refuses, and dies, as real ones do (the facts were seen).
func TestWhatEtcdStartsOn(t *testing.T) {
	old, storage := etcdversion.Must("3.5.0"), etcdversion.Must("3.6.0")
	tests := []struct {
		name, binary string
		data         content
		dies         bool
	}{
		{"3.6 on data of 3.5", "3.6.16", content{cluster: old}, false},
		{"3.6 on keys of the v2 store", "3.6.16", content{cluster: old, v2content: true}, true},
		{"3.5 on keys of the v2 store", "3.5.35", content{cluster: old, v2content: true}, false},
		{"3.6 on a log of 3.4", "3.6.16", content{cluster: old, v2log: true}, true},
		{"3.6 on a log of 3.5", "3.6.16", content{cluster: old, oldLog: true}, false},
		{"3.7 on a log of 3.5", "3.7.3", content{cluster: storage, oldLog: true}, true},
		{"3.5 on data of 3.6", "3.5.35", content{cluster: storage}, true},
		{"3.5 on data of which the storage is still 3.6", "3.5.35", content{cluster: old, storage: storage}, true},
		{"3.4 on data of 3.6, silently", "3.4.25", content{cluster: storage, storage: storage}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(1, Config{Versions: true})
			n := w.nodes[0]
			n.disk = disk{data: true, content: tt.data}
			if why := w.dies(n, etcdversion.Must(tt.binary)); (why != "") != tt.dies {
				t.Errorf("it dies of %q", why)
			}
		})
	}
}

// A node that is ordered to start what its data does not allow refuses; one that does as
// it is ordered shows the invariant.
func TestTheWorldKnowsVersions(t *testing.T) {
	follower := func(w *world) cluster.NodeName {
		g := w.groups[0]
		for _, m := range g.members {
			if m.id != g.leader {
				return m.name
			}
		}
		return ""
	}
	leader := func(w *world) cluster.NodeName { return w.groups[0].find(w.groups[0].leader).name }
	tests := []struct {
		name, from, to string
		who            func(*world) cluster.NodeName
		before         func(*world, *node)
		broken         string
		obeys          bool // the node does: who orders it checks
	}{
		{"the leader", "3.6.0", "3.6.16", leader, nil, "version", false},
		{"two minors", "3.5.35", "3.7.3", follower, nil, "version", false},
		{"older on newer data", "3.6.16", "3.5.35", follower, nil, "older-data", false},
		{"while another is between", "3.6.0", "3.6.16", follower, func(w *world, n *node) {
			for _, o := range w.nodes {
				if o != n {
					o.change = &cluster.VersionChange{Token: o.disk.token, From: etcdversion.Must("3.5.35"), To: o.assigned.Version}
					return
				}
			}
		}, "between", true},
		{"removed members", "3.5.21", "3.6.16", follower, func(_ *world, n *node) {
			n.disk.zombies = true
		}, "zombies", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := withVersion(t, tt.from)
			name := tt.who(w)
			if tt.before != nil {
				tt.before(w, w.node(name))
			}
			op := w.change(name, tt.to)
			if err := w.try(op); err == nil && !tt.obeys {
				t.Error("it is done")
			}
			w.config.Trusting = true
			_ = w.try(op)
			w.steps(1)
			if w.broken == nil || w.broken.invariant != tt.broken {
				t.Errorf("broken is %v, want %s", w.broken, tt.broken)
			}
		})
	}
}

// A version that dies is reverted by the node itself, one that hangs when its time is
// over; where the cluster version has risen, neither.
func TestANodeTakesAVersionBack(t *testing.T) {
	for _, stalls := range []bool{false, true} {
		w := withVersion(t, "3.5.35")
		g := w.groups[0]
		n := g.members[0].host
		if g.members[0].id == g.leader {
			n = g.members[1].host
		}
		n.bad = map[etcdversion.Version]bad{version: {to: 1 << 30, stalls: stalls}}
		w.mustDo(t, w.change(n.name, version.String()))
		w.steps(5)
		w.pass(startTimeout + time.Second)
		w.steps(5)
		if c := n.changing(); c == nil || !c.Back || c.Failed == "" || n.assigned.Version != c.From {
			t.Errorf("stalls is %t: it has %+v, change %+v", stalls, n.assigned, c)
		}
		if m := g.memberOn(n); !w.follows(g, m) || n.etcd.of.String() != "3.5.35" {
			t.Errorf("stalls is %t: etcd %s runs", stalls, n.etcd.of)
		}
	}
}
