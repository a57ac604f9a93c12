package machine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// A planner is what the phases decide by: the goal, the configuration and the observation.
type planner struct {
	goal Goal
	cfg  Config
	obs  Observation
	// decided is what was decided about a handover.
	decided handoverDecision
}

// Next returns the first step towards the goal, or what holds it back. Neither
// means that there is nothing left to do. cfg is complete, and goal settled: see
// [Settle].
func Next(goal Goal, cfg Config, obs Observation) (*Step, *Hold) {
	p := &planner{goal: goal, cfg: cfg, obs: obs}
	if goal.Action == ToManager || goal.Action == FromManager {
		if why := p.decideHandover(); why != nil {
			return nil, why
		}
		return p.first()
	}
	if obs.Host.Manager != "" && goal.Action != Remove {
		return nil, hold(Managed, "etcd-manager-ctl status",
			"an etcd-manager with its data in %s runs the etcd of this machine", obs.Host.Manager)
	}
	if goal.Action == Join && obs.Remote.Differ {
		return nil, p.unreachable()
	}
	if obs.Record.Undoing && goal.Phase == "" && (goal.Action == Join || goal.Action == Init) {
		// A join that is being undone is undone first.
		if step, why := Next(Undo, cfg, obs); step != nil || why != nil {
			return step, why
		}
	}
	if (goal.Action == Init || goal.Action == Join) && goal.Phase == "" {
		// What cannot be written, or started, is said before anything is done.
		if why := p.nothingStarts(); why != nil {
			return nil, why
		}
		if _, why := p.controlFiles(); why != nil {
			return nil, why
		}
		if why := p.clock(); why != nil && !slices.Contains(goal.Skip, "certificates") {
			return nil, why
		}
	}
	if goal.Phase == "" {
		// Before anything is done: what is in the way stays as it is.
		var why *Hold
		switch goal.Action {
		case Init:
			if why = p.untouched(); why == nil {
				why = p.fitting()
			}
		case Join:
			if why = p.elsewhere(); why == nil {
				why = p.refused()
			}
			if why == nil {
				why = p.fitting()
			}
		case Reset:
			why = p.dataElsewhere()
		}
		if why != nil {
			return nil, why
		}
	}
	return p.first()
}

// first returns the first step of the phases that is to be done.
func (p *planner) first() (*Step, *Hold) {
	goal := p.goal
	for _, phase := range Phases(goal.Action) {
		if goal.Phase != "" && phase.Name != goal.Phase || slices.Contains(goal.Skip, phase.Name) {
			continue
		}
		op, why := phase.next(p)
		if why != nil {
			return nil, why
		}
		if op != nil {
			return &Step{Phase: phase.Name, Do: op}, nil
		}
	}
	return nil, nil
}

// Undo is the goal that undoes a join that cannot finish: the learner goes,
// and so does its copy of the data.
var Undo = Goal{Action: Reset, KeepFiles: true, DiscardData: true}

// maxSteps bounds a plan; the longest has some fifteen steps.
const maxSteps = 50

// Plan returns all steps towards the goal as far as they can be foreseen, and
// what holds the rest back.
func Plan(goal Goal, cfg Config, obs Observation) ([]Step, *Hold, error) {
	goal, why := Settle(goal, obs)
	if why != nil {
		return nil, why, nil
	}
	var steps []Step
	for range maxSteps {
		step, why := Next(goal, cfg, obs)
		if step == nil {
			return steps, why, nil
		}
		steps = append(steps, *step)
		obs = Predict(cfg, obs, step.Do)
	}
	return steps, nil, fmt.Errorf("the plan does not end: after %d steps the next one is still %q", maxSteps,
		steps[len(steps)-1].Text())
}

// change returns an operation on the member list when it is safe, and the hold
// when it is not.
func (p *planner) change(op plan.Operation) (Operation, *Hold) {
	err := plan.Check(cluster.Spec{Policy: cluster.Policy{Unbacked: true}}, p.obs.cluster(p.cfg), op)
	if err == nil {
		return &Membership{op}, nil
	}
	var breaks *plan.UnsafeError
	switch {
	case !errors.As(err, &breaks):
	case breaks.Invariant == "quorum":
		return nil, lacking("%s", breaks.Text)
	case breaks.Invariant == "one-change":
		h := hold(LearnerPending, "if it does not come up: etcdadm remove, with the learner's ID", "%s", breaks.Text)
		h.Wait, h.Others = true, true
		return nil, h
	}
	return nil, hold(QuorumMargin, "etcdadm status", "%v", err)
}

// Cluster returns what is seen of the cluster in the form that the operations
// on it are checked against.
func (o Observation) Cluster(cfg Config) cluster.Observation { return o.cluster(cfg) }

func (o Observation) cluster(cfg Config) cluster.Observation {
	return cluster.Observation{
		At: o.At, Members: o.Remote.Members, Leader: o.Remote.Leader, Downgrade: o.Remote.Downgrade,
		Nodes: []cluster.Node{{
			Name: cfg.Name, Reachable: true, URLs: URLs(cfg),
			Disk: cluster.Disk{State: o.Data.State, MemberID: o.Data.MemberID},
		}},
	}
}
