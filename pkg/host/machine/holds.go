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
	w := &world{goal: goal, cfg: cfg, obs: obs}
	for _, find := range []func(*world) *Hold{
		(*world).unwritable, (*world).clock, (*world).untouched, (*world).elsewhere, (*world).versionHeld, (*world).nameTaken,
	} {
		add(find(w))
	}
	for _, p := range Phases(goal.Action) {
		if slices.Contains(goal.Skip, p.Name) {
			continue
		}
		op, why := p.next(w)
		for range maxSteps {
			if op == nil || why != nil {
				break
			}
			w.obs = Predict(cfg, w.obs, op)
			op, why = p.next(w)
		}
		if add(why); why != nil && p.Name == "membership" {
			break // what follows depends on it
		}
	}
	return all, nil
}

// nothingStarts holds a command that would end with starting etcd, where the machine does not have
// what is to start it.
func (w *world) nothingStarts() *Hold {
	if w.obs.Host.InitSystem || slices.Contains(w.goal.Skip, "start") {
		return nil
	}
	return hold(InitSystemMissing, OtherInitSystems, "the machine has no %s: %s", w.cfg.Service.InitSystem,
		w.obs.Service.Detail)
}

// unwritable holds what is configured so that the files of it cannot be written.
func (w *world) unwritable() *Hold {
	_, why := w.controlFiles()
	return why
}

// versionHeld holds a version that the data on the disk or the cluster does not take.
func (w *world) versionHeld() *Hold {
	if w.obs.VersionOpen || w.goal.Action == Join && !w.obs.Remote.Answered {
		return nil
	}
	return w.mayRun()
}

// nameTaken holds a join under the name of another member.
func (w *world) nameTaken() *Hold {
	if self, ok := w.self(); w.goal.Action != Join || ok && self.Name == w.cfg.Name {
		return nil
	}
	for _, m := range w.obs.Remote.Members {
		if m.Name == w.cfg.Name {
			return hold(NameTaken, "choose another --name, or remove the old member first: etcdadm remove "+m.ID.String(),
				"the cluster already has a member %s at %s", m.Name, strings.Join(m.PeerURLs, ","))
		}
	}
	return nil
}
