package machine

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// EarlyVote returns how a machine that joins is to get its vote as soon as its etcd has
// caught up, and the cluster to check that against: nil where that has to wait for the
// step that does it. A member of a newer minor version than the others' is checked
// before. Of the phases by themselves, start votes too, but for a static pod: that starts
// when the phase is over.
func EarlyVote(goal Goal, cfg Config, obs Observation) (*plan.Promote, cluster.Observation) {
	p := &planner{goal: goal, cfg: cfg, obs: obs}
	starts := goal.Phase == "start" && cfg.Service.InitSystem != Kubelet
	votes := (goal.Phase == "" || goal.Phase == "health" || starts) && !slices.Contains(goal.Skip, "health")
	self, ok := p.self()
	if goal.Action != Join || !votes || !obs.Remote.Answered || !ok || !self.Learner {
		return nil, cluster.Observation{}
	}
	low, want := obs.Remote.Lowest, cfg.Version.Release()
	if low.IsZero() || !low.AtLeast(want.Major, want.Minor) || self.Name != "" && self.Name != cfg.Name {
		return nil, cluster.Observation{}
	}
	// It has no name in the list before it has served. The rules are those for a learner
	// that does.
	as := func(healthy bool) {
		p.obs.Remote.Members = slices.Clone(obs.Remote.Members)
		for i := range p.obs.Remote.Members {
			if m := &p.obs.Remote.Members[i]; m.ID == self.ID {
				m.Name, m.Healthy, m.ClientURLs = cfg.Name, healthy, URLs(cfg).Client
				if m.Condition == cluster.Unstarted || m.Condition == cluster.Down {
					m.Condition = ""
				}
			}
		}
	}
	as(true)
	voters, _ := p.obs.Remote.voters()
	op := &plan.Promote{Name: cfg.Name, ExpectVoters: voters}
	if _, why := p.change(op); why != nil {
		return nil, cluster.Observation{}
	}
	as(false)
	return op, p.obs.cluster(cfg)
}
