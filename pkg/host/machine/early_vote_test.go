package machine_test

import (
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// A learner that has not served yet may have its vote, unless a rule says that somebody
// has to check it first.
func TestEarlyVote(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*machine.Goal, *machine.Config, *machine.Observation)
		want   bool
	}{
		"a join":           {nil, true},
		"the phase health": {func(g *machine.Goal, _ *machine.Config, _ *machine.Observation) { g.Phase = "health" }, true},
		"the phase start":  {func(g *machine.Goal, _ *machine.Config, _ *machine.Observation) { g.Phase = "start" }, true},
		"the phase start of a static pod": {func(g *machine.Goal, c *machine.Config, _ *machine.Observation) {
			g.Phase, c.Service.InitSystem = "start", machine.Kubelet
		}, false},
		"the phase membership": {func(g *machine.Goal, _ *machine.Config, _ *machine.Observation) {
			g.Phase = "membership"
		}, false},
		"without health": {func(g *machine.Goal, _ *machine.Config, _ *machine.Observation) {
			g.Skip = []string{"health"}
		}, false},
		"init": {func(g *machine.Goal, _ *machine.Config, _ *machine.Observation) { g.Action = machine.Init }, false},
		"nobody answers": {func(_ *machine.Goal, _ *machine.Config, o *machine.Observation) {
			o.Remote.Answered = false
		}, false},
		"a voter already": {func(_ *machine.Goal, _ *machine.Config, o *machine.Observation) {
			o.Remote.Members[2].Learner = false
		}, false},
		"not in the list": {func(_ *machine.Goal, _ *machine.Config, o *machine.Observation) {
			o.Remote.Members = o.Remote.Members[:2]
		}, false},
		"of a newer minor version": {func(_ *machine.Goal, _ *machine.Config, o *machine.Observation) {
			o.Remote.Lowest = etcdversion.Must("3.5.35")
		}, false},
		"of an unknown version": {func(_ *machine.Goal, _ *machine.Config, o *machine.Observation) {
			o.Remote.Lowest = etcdversion.Version{}
		}, false},
		"of an older patch": {func(_ *machine.Goal, _ *machine.Config, o *machine.Observation) {
			o.Remote.Lowest = etcdversion.Must("3.6.1")
		}, true},
		"too few voters do well": {func(_ *machine.Goal, _ *machine.Config, o *machine.Observation) {
			o.Remote.Members[0].Healthy, o.Remote.Members[1].Healthy = false, false
		}, false},
		"a member of another name": {func(_ *machine.Goal, _ *machine.Config, o *machine.Observation) {
			o.Remote.Members[2].Name = "z"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			learner := cluster.Member{ID: 0xb, Learner: true, PeerURLs: []string{"https://10.0.0.2:2380"},
				Condition: cluster.Unstarted}
			obs := ready(healthy("a", 0xa, "10.0.0.1"), healthy("c", 0xc, "10.0.0.3"), learner)
			goal, cfg := machine.Goal{Action: machine.Join}, desired()
			if c.change != nil {
				c.change(&goal, &cfg, &obs)
			}
			op, seen := machine.EarlyVote(goal, cfg, obs)
			if (op != nil) != c.want {
				t.Fatalf("the vote is %v", op)
			}
			if op == nil {
				return
			}
			if op.Name != "b" || op.ExpectVoters != 2 {
				t.Errorf("the vote is %+v", op)
			}
			if m := seen.Members[2]; m.Name != "b" || m.Healthy || !m.Learner {
				t.Errorf("it is checked against %+v", m)
			}
			if obs.Remote.Members[2].Name != "" {
				t.Error("what was seen is changed")
			}
		})
	}
}
