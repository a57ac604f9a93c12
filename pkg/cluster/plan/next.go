package plan

import (
	"fmt"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// Next returns the one operation to do now, nil for none, and the reasons for
// what is not done. A cluster that is not converged always gets an operation
// or at least one hold.
//
// The zero Spec means that there is none.
func Next(spec cluster.Spec, obs cluster.Observation) (Operation, []Hold) {
	l := newView(spec, obs)
	for _, r := range rules {
		op, verdict := r(l)
		if op != nil && !l.failing(op) {
			return op, l.holds
		}
		if verdict == stop || op != nil && l.blocks(op) {
			break
		}
	}
	return nil, l.holds
}

// maxFactsAge is the age from which nothing is planned on what a node has on its
// disk: it may be from before the last step.
const maxFactsAge = time.Second

// failing reports, with a hold, whether op failed a moment ago and has to
// wait, or is for a node that could not carry it out: its disk hangs, or has not
// been read for a while.
func (l *view) failing(op Operation) bool {
	if name, ok := Target(op); ok {
		if n := l.node(name); n != nil && n.Reachable && n.Storage.Bad() {
			l.holdHung(n)
			return true
		} else if n != nil && n.Reachable && n.FactsAge > maxFactsAge {
			l.hold(NotYet, "the disk of %s was last read %s ago, and reading it again takes long", n.Name,
				n.FactsAge.Round(time.Second))
			return true
		}
	}
	f := l.failure(op)
	if f != nil {
		l.hold(OperationFailed, "%s: %s", f.Line, f.Text)
	}
	return f != nil
}

// failure returns the failure of op for which it has to wait, nil for none.
func (l *view) failure(op Operation) *cluster.Failure {
	if len(l.obs.Failures) == 0 {
		return nil
	}
	line := Line(op)
	for i, f := range l.obs.Failures {
		if f.Line == line && f.Retry.After(l.obs.At) {
			return &l.obs.Failures[i]
		}
	}
	return nil
}

// blocks reports whether the rules after op's have to wait while op cannot be
// done. One node that fails must not keep the others from being maintained:
// only a backup blocks, since nothing is to be deleted without one. A change of
// the members that cannot be made keeps others from beginning.
func (l *view) blocks(op Operation) bool {
	switch op.(type) {
	case *BackupTake:
		return true
	case *AddLearner, *Promote, *Remove, *MemberUpdate, *MoveLeader, *LeaseVotersWrite:
		l.frozen = true
	}
	return false
}

// verdict says whether the rules after this one are asked.
type verdict bool

const (
	goOn verdict = false
	stop verdict = true
)

// rules in the order in which they are asked. Earlier ones make the ground
// safe for later ones: no rule below quorum runs without a healthy majority,
// and no membership change begins while an earlier one is unfinished. The
// lease voters' record follows a removal before the removed node is cleared, since
// that takes the node's record and with it, perhaps, a majority.
var rules = []func(*view) (Operation, verdict){
	ruleName,
	ruleSpec,
	rulePaused,
	ruleConflict,
	ruleTakeOver,
	ruleLeaseVotersLost,
	ruleRestore,
	ruleBootstrap,
	ruleDiffers,
	ruleAddress,
	ruleQuorum,
	ruleHealth,
	ruleDisk,
	ruleRestart,
	ruleLeaseVoters,
	ruleEvicted,
	ruleRecord,
	ruleQuarantine,
	ruleAlarm,
	ruleMoved,
	ruleLearner,
	ruleShrink,
	ruleReplace,
	ruleGrow,
	ruleVersion,
	ruleGone,
	ruleUncounted,
	ruleForeign,
	ruleRequests,
	ruleBackup,
	ruleInspect,
	ruleClock,
	rulePrune,
	ruleDiscard,
}

// Plan is the whole plan: what would be done, one after the other, if
// everything went as predicted.
type Plan struct {
	Operations []Operation
	// Holds are those of the last observation.
	Holds []Hold
}

// maxSteps bounds a plan. Growing from nothing to seven members on nodes full
// of stale data has fewer than sixty steps; the rest is for deleting a hundred
// thousand old backups, some at a time.
const maxSteps = 2200

// Make returns the whole plan by repeating [Next] over [Predict].
func Make(spec cluster.Spec, obs cluster.Observation) (Plan, error) { return repeat(spec, obs, Next) }

// repeat is Make with what returns the next step.
func repeat(spec cluster.Spec, obs cluster.Observation,
	next func(cluster.Spec, cluster.Observation) (Operation, []Hold)) (Plan, error) {
	var p Plan
	for range maxSteps {
		op, holds := next(spec, obs)
		p.Holds = holds
		if op == nil {
			return p, nil
		}
		if err := Check(spec, obs, op); err != nil {
			return p, fmt.Errorf("step %d, %s: %w", len(p.Operations)+1, Line(op), err)
		}
		p.Operations = append(p.Operations, op)
		obs = Predict(obs, op)
		if w, ok := op.(*SpecWrite); ok {
			spec.MemberCount, spec.EtcdVersion = w.MemberCount, w.EtcdVersion
		}
	}
	return p, fmt.Errorf("no end after %d steps", maxSteps)
}

// Converged reports whether obs is what spec asks for. Periodic work (backups,
// retention) does not count.
func Converged(spec cluster.Spec, obs cluster.Observation) bool {
	for _, r := range obs.Store.Requests {
		if r.Kind != cluster.RequestPause {
			return false
		}
	}
	voters := 0
	for _, m := range obs.Members {
		if m.Learner || !m.Healthy || m.Name == "" {
			return false
		}
		voters++
	}
	if voters != spec.MemberCount || obs.Leader == 0 || !obs.Downgrade.IsZero() {
		return false
	}
	for _, n := range obs.Nodes {
		hosts := false
		for _, m := range obs.Members {
			hosts = hosts || m.Name == n.Name
		}
		if !n.Reachable {
			continue
		}
		if hosts && (n.Assigned == nil || n.Assigned.Quarantined || n.Assigned.Version != spec.EtcdVersion) {
			return false
		}
		if !hosts && (n.Assigned != nil || n.Process.State != cluster.ProcessStopped || n.Disk.State == cluster.DiskData) {
			return false
		}
	}
	return true
}
