package plan

import (
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/retention"
)

// maxPrune bounds how many backups one operation deletes, so that a command
// line stays readable and a wrong clock does bounded harm before someone looks.
const maxPrune = 50

// ruleClock stops decisions by age where clocks cannot be trusted.
func ruleClock(l *look) (Operation, verdict) {
	v := goOn
	for _, n := range l.obs.Nodes {
		if n.Reachable && n.ClockSkew.Abs() > l.policy.MaxClockSkew {
			l.hold(ClockSkew, "the clock of %s differs by %s", n.Name, n.ClockSkew.Round(1e6))
			v = stop
		}
	}
	if b := l.obs.Store.Backups; len(b) > 0 && b[0].At.Sub(l.obs.At) > l.policy.MaxClockSkew {
		l.hold(ClockSkew, "backup %s lies %s in the future", b[0].Name, b[0].At.Sub(l.obs.At).Round(1e9))
		v = stop
	}
	return nil, v
}

// ruleBackup takes the periodic backup.
func ruleBackup(l *look) (Operation, verdict) {
	if b := l.newest(); b != nil && l.age(b.At) < l.policy.BackupInterval {
		return nil, goOn
	}
	if !l.storeReady("the periodic backup") {
		return nil, stop
	}
	return l.take("interval"), goOn
}

// rulePrune deletes what the retention rules let go, oldest first.
func rulePrune(l *look) (Operation, verdict) {
	if !l.obs.Store.Reachable {
		return nil, goOn
	}
	policy := retention.Policy{Hourly: l.policy.HourlyRetention, Daily: l.policy.DailyRetention}
	var remove []string
	verdicts := retention.Keep(policy, l.obs.At, l.obs.Store.Backups)
	for i := len(verdicts) - 1; i >= 0 && len(remove) < maxPrune; i-- {
		if !verdicts[i].Keep {
			remove = append(remove, verdicts[i].Backup.Name)
		}
	}
	if len(remove) == 0 {
		return nil, goOn
	}
	return &BackupPrune{Remove: remove}, goOn
}

// ruleDiscard bounds, in time and number, the old data that nodes keep.
func ruleDiscard(l *look) (Operation, verdict) {
	for _, n := range l.obs.Nodes {
		if !n.Reachable || len(n.SetAside) == 0 {
			continue
		}
		oldest := n.SetAside[0]
		if len(n.SetAside) > l.policy.SetAsideMax || l.age(oldest.At) > l.policy.SetAsideKeep {
			return &DataDiscard{Node: n.Name, Name: oldest.Name}, goOn
		}
	}
	return nil, goOn
}

// coversRisk reports whether the store has a backup that is fresh at obs.At.
func coversRisk(policy cluster.Policy, obs cluster.Observation) bool {
	for _, b := range obs.Store.Backups {
		if age := obs.At.Sub(b.At); age >= -policy.MaxClockSkew && age <= policy.BackupFresh {
			return true
		}
	}
	return false
}
