package machine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// below has the cluster run a patch that is older than etcd advises before 3.6.
func below(o *machine.Observation) { o.Remote.Lowest = etcdversion.Must("3.5.31") }

// hazard has one kind of hazard in the data, and no other.
func hazard(kind cluster.HazardKind, state cluster.HazardState) func(*machine.Observation) {
	return func(o *machine.Observation) {
		o.Data.Hazards = cluster.NoHazards()
		for i, h := range o.Data.Hazards {
			if h.Kind == kind {
				o.Data.Hazards[i] = cluster.Hazard{Kind: kind, State: state, What: "it"}
			}
		}
	}
}

// What is in the data counts, and not the number: of a member that is upgraded in
// place before anything is installed, of a learner before it has its vote.
func TestHazards(t *testing.T) {
	a, self := healthy("a", 0xa, "10.0.0.1"), healthy("b", 0xb, "10.0.0.2")
	for _, c := range []struct {
		lowest  string
		kind    cluster.HazardKind
		state   cluster.HazardState
		held    bool
		waiting bool // of a learner
	}{
		{"3.5.21", cluster.HazardMembers, cluster.HazardAbsent, false, false},
		{"3.5.21", cluster.HazardMembers, cluster.HazardPresent, true, false},
		{"3.5.21", cluster.HazardV2Content, cluster.HazardPresent, true, false},
		{"3.5.21", cluster.HazardV2Log, cluster.HazardUnknown, true, true},
		{"3.5.21", cluster.HazardOldLog, cluster.HazardPresent, false, false},
		{"3.5.35", cluster.HazardV2Log, cluster.HazardPresent, true, false},
		{"3.5.35", cluster.HazardMembers, cluster.HazardUnknown, false, false},
		{"3.5.35", cluster.HazardV2Content, cluster.HazardPresent, true, false},
	} {
		for _, learner := range []bool{false, true} {
			for _, risk := range []string{"", "seen by hand"} {
				self.Learner = learner
				obs := ready(a, self)
				obs.Data = machine.Data{State: cluster.DiskData, MemberID: 0xb, ClusterID: 0xc1, Ready: true}
				obs.Record = machine.Record{Action: machine.Join, Served: true}
				obs.Remote.Lowest = etcdversion.Must(c.lowest)
				obs.Binaries.Etcd = etcdversion.Must(c.lowest)
				if learner {
					obs.Local = &cluster.Report{ID: 0xb, Version: v36, Learner: true, Leader: 0xa}
				}
				hazard(c.kind, c.state)(&obs)
				goal := machine.Goal{Action: machine.Join, AcceptVersionRisk: risk}
				if learner {
					goal.Phase = "health"
				}
				step, why := machine.Next(goal, desired(), obs)
				// No word makes 3.6 start on such a log.
				never := c.kind == cluster.HazardV2Log && c.state == cluster.HazardPresent && !learner
				switch held := c.held && (risk == "" || never); {
				case held != (why != nil && why.Reason == machine.VersionHazard):
					t.Errorf("%+v, learner %v, %q: %v, %v", c, learner, risk, step, why)
				case held && (why.Momentary != (learner && c.waiting) || why.Hint() == ""):
					t.Errorf("%+v: %+v", c, why)
				}
			}
		}
	}
}

// Without a version, nothing is installed before the cluster has its own.
func TestVersionOfTheCluster(t *testing.T) {
	obs := ready(healthy("a", 0xa, "10.0.0.1"))
	obs.Remote, obs.VersionOpen = machine.Remote{Problem: "nobody listens"}, true
	obs.Binaries = machine.Binary{}
	if step, why := machine.Next(machine.Goal{Action: machine.Join}, desired(), obs); why == nil ||
		why.Reason != machine.ClusterUnreachable || !why.Wait {
		t.Errorf("%v, %v", step, why)
	}
}

// Below the floor, preflight says that the data was checked instead.
func TestWarningBelowTheFloor(t *testing.T) {
	obs := ready(healthy("a", 0xa, "10.0.0.1"))
	below(&obs)
	for risk, want := range map[string]string{
		"": "the data that the member gets from the others is checked before it becomes a voter", "seen": "the risk is accepted: seen",
	} {
		found := machine.Preflight(machine.Goal{Action: machine.Join, AcceptVersionRisk: risk}, desired(), obs)
		if !slices.ContainsFunc(found, func(f machine.Finding) bool {
			return f.ID == "EtcdPatch" && !f.Fatal && strings.Contains(f.Text, want)
		}) {
			t.Errorf("%q: %v", risk, found)
		}
	}
}
