package machine

import (
	"slices"
	"strings"
)

// Holds returns everything that would hold an init or a join back, as far as it can be
// foreseen, each once. The first is that of [Plan].
func Holds(goal Goal, cfg Config, obs Observation) ([]Hold, error) {
	_, first, err := Plan(goal, cfg, obs)
	if err != nil || first == nil {
		return nil, err
	}
	all := []Hold{*first}
	add := func(h *Hold) {
		// A phase that needs what another one would have made says nothing new.
		if h != nil && h.Reason != NotConfigured && !slices.Contains(all, *h) {
			all = append(all, *h)
		}
	}
	if first.Reason == Managed {
		return all, nil
	}
	p := &planner{goal: goal, cfg: cfg, obs: obs}
	for _, find := range []func(*planner) *Hold{
		(*planner).unwritable, (*planner).clock, (*planner).untouched, (*planner).elsewhere,
		(*planner).versionHeld, (*planner).nameTaken,
	} {
		add(find(p))
	}
	for _, phase := range Phases(goal.Action) {
		if slices.Contains(goal.Skip, phase.Name) {
			continue
		}
		op, why := phase.next(p)
		for range maxSteps {
			if op == nil || why != nil {
				break
			}
			p.obs = Predict(cfg, p.obs, op)
			op, why = phase.next(p)
		}
		if add(why); why != nil && phase.Name == "membership" {
			break // what follows depends on it
		}
	}
	return all, nil
}

// nothingStarts holds a command that would end with starting etcd, where the machine does not have
// what is to start it.
func (p *planner) nothingStarts() *Hold {
	if p.obs.Host.InitSystem || slices.Contains(p.goal.Skip, "start") {
		return nil
	}
	return hold(InitSystemMissing, OtherInitSystems, "the machine has no %s: %s", p.cfg.Service.InitSystem,
		p.obs.Service.Detail)
}

// unwritable holds what is configured so that the files of it cannot be written.
func (p *planner) unwritable() *Hold {
	_, why := p.controlFiles()
	return why
}

// versionHeld holds a version that the data on the disk or the cluster does not take.
func (p *planner) versionHeld() *Hold {
	if p.obs.VersionOpen || p.goal.Action == Join && !p.obs.Remote.Answered {
		return nil
	}
	return p.mayRun()
}

// nameTaken holds a join under the name of another member.
func (p *planner) nameTaken() *Hold {
	if self, ok := p.self(); p.goal.Action != Join || ok && self.Name == p.cfg.Name {
		return nil
	}
	for _, m := range p.obs.Remote.Members {
		if m.Name == p.cfg.Name {
			return hold(NameTaken, "choose another --name, or remove the old member first: etcdadm remove "+m.ID.String(),
				"the cluster already has a member %s at %s", m.Name, strings.Join(m.PeerURLs, ","))
		}
	}
	return nil
}
