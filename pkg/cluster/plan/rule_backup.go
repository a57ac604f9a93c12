package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
)

// maxPrune bounds how many backups one operation deletes, so that a command
// line stays readable and a wrong clock does bounded harm before someone looks.
const maxPrune = 50

// ruleClock lets nothing be deleted by age where clocks cannot be trusted.
// Backups go on: one too many does no harm.
func ruleClock(l *view) (Operation, verdict) {
	v := goOn
	for _, n := range l.obs.Nodes {
		if n.Reachable && n.ClockSkew.Abs() > l.policy.MaxClockSkew {
			l.hold(ClockSkew, "the clock of %s differs by %s", n.Name, n.ClockSkew.Round(1e6))
			v = stop
		}
	}
	for _, b := range l.obs.Store.Own() {
		if ahead := b.At.Sub(l.obs.At); ahead > l.policy.MaxClockSkew {
			l.hold(ClockSkew, "backup %s is dated %s in the future", b.Name, ahead.Round(1e9))
			return nil, stop
		}
	}
	return nil, v
}

// ruleGone says that the store holds nothing as new as it did. What is signed
// can be old all the same, and a rolled-back store has no newer one.
func ruleGone(l *view) (Operation, verdict) {
	seen, err := retention.ParseName(l.obs.Store.NewestSeen)
	if err != nil || !l.obs.Store.Reachable || !l.obs.Store.BackupsKnown || l.obs.Store.BackupsProblem != "" {
		return nil, goOn
	}
	if slices.ContainsFunc(l.obs.Store.Backups, func(b cluster.Backup) bool {
		return b.Name == l.obs.Store.NewestSeen && b.Foreign != ""
	}) {
		return nil, goOn // a daemon of before took it for one of this cluster
	}
	var newest *cluster.Backup
	own := l.obs.Store.Own()
	for i, b := range own {
		if !b.At.Before(seen) {
			return nil, goOn
		}
		if newest == nil || b.At.After(newest.At) {
			newest = &own[i]
		}
	}
	if newest == nil {
		l.hold(BackupsGone, "the store holds no backup; %s was there", l.obs.Store.NewestSeen)
	} else {
		l.hold(BackupsGone, "the newest backup is %s; %s was there, which is %s newer", newest.Name, l.obs.Store.NewestSeen,
			seen.Sub(newest.At).Round(time.Second))
	}
	return nil, goOn
}

// ruleUncounted says that there are backups and none counts, which a list of
// backups that is empty does not show it.
func ruleUncounted(l *view) (Operation, verdict) {
	s := l.obs.Store
	if !s.Reachable || !s.BackupsKnown || s.BackupsProblem != "" || len(s.Backups) > 0 || len(s.Uncounted) == 0 {
		return nil, goOn
	}
	count := fmt.Sprintf("%d", len(s.Uncounted))
	if len(s.Uncounted) >= cluster.MaxUncounted {
		count += " or more"
	}
	newest := s.Uncounted[0]
	l.hold(BackupsUncounted,
		"none of the %s folders in the store that look like backups counts as one; the newest is %s: %s", count,
		newest.Name, newest.Why)
	return nil, goOn
}

// ruleForeign says that another cluster has backed up into this store since the incarnation
// began. Older ones are left alone: somebody may have copied them to restore one.
func ruleForeign(l *view) (Operation, verdict) {
	rec := l.record()
	if rec == nil {
		return nil, goOn
	}
	for _, b := range l.obs.Store.Backups {
		if b.Foreign != "" && b.At.After(rec.At) {
			l.hold(BackupsForeign, "%s is a backup of the cluster %q, taken since this one runs", b.Name, b.Foreign)
			break
		}
	}
	return nil, goOn
}

// ruleBackup takes the periodic backup.
func ruleBackup(l *view) (Operation, verdict) {
	if b := l.newest(); b != nil && l.age(b.At) < l.policy.BackupInterval || l.obs.BackingUp != "" {
		return nil, goOn
	}
	if !l.storeReady("the periodic backup") {
		return nil, stop
	}
	return l.take("interval"), goOn
}

// ruleRequests carries out a request for a backup.
func ruleRequests(l *view) (Operation, verdict) {
	r := l.request(cluster.RequestBackup)
	if r == nil || !l.storeReady("the requested backup") {
		return nil, goOn
	}
	if b := l.backupSince(*r); b != nil {
		return &RequestClose{Name: r.Name, Outcome: OutcomeDone, Reason: "backup " + b.Name}, goOn
	}
	return l.takeFor(*r, "request"), goOn
}

// ruleInspect has the newest backup verified, and restored for a trial, at the
// intervals of the policy.
func ruleInspect(l *view) (Operation, verdict) {
	b := l.newest()
	if b == nil || !l.obs.Store.Reachable || l.obs.BackingUp != "" {
		return nil, goOn
	}
	verified, drilled := l.obs.Store.Inspected()
	due := func(last time.Time, every time.Duration) bool { return every > 0 && l.age(last) >= every }
	sources, _ := l.sources()
	for _, node := range sources {
		var op Operation = &BackupDrill{Node: node, Name: b.Name}
		if !due(drilled, l.policy.DrillInterval) {
			if op = (&BackupVerify{Node: node, Name: b.Name}); !due(verified, l.policy.VerifyInterval) {
				return nil, goOn
			}
		}
		if !l.failing(op) {
			return op, goOn
		}
	}
	return nil, goOn
}

// rulePrune deletes what the retention rules let go, oldest first, and after
// that what backups that were broken off have left.
func rulePrune(l *view) (Operation, verdict) {
	if !l.obs.Store.Reachable {
		return nil, goOn
	}
	policy := retention.Policy{
		Hourly: l.policy.HourlyRetention, Daily: l.policy.DailyRetention, MaxCount: l.policy.MaxBackups,
		MaxBytes: l.policy.MaxBackupBytes,
	}
	expired := retention.Expired(policy, l.obs.At, l.obs.Store.Own())
	var remove []string
	for _, b := range slices.Backward(expired) {
		if len(remove) < maxPrune {
			remove = append(remove, b.Name)
		}
	}
	if len(remove) == 0 {
		remove = slices.Clone(l.obs.Store.Leftovers[:min(len(l.obs.Store.Leftovers), maxPrune)])
	}
	if len(remove) == 0 {
		return nil, goOn
	}
	return &BackupPrune{Remove: remove}, goOn
}

// ruleDiscard bounds, in time and number, the old data that nodes keep.
func ruleDiscard(l *view) (Operation, verdict) {
	for _, n := range l.obs.Nodes {
		if !n.Reachable {
			continue
		}
		if old := l.needless(n.SetAside); old != nil {
			if op := (&DataDiscard{Node: n.Name, Name: old.Name, ExpectAt: MomentOf(old.At)}); !l.failing(op) {
				return op, goOn
			}
		}
	}
	return nil, goOn
}

// minSetAsideTime is for how long data stays aside however much there is of it:
// someone has to have the time to look.
const minSetAsideTime = time.Hour

// relatedFailuresWindow is the longest time between two times of setting data aside that
// belong together: joins that fail again and again, restores of one wrong backup after
// another.
const relatedFailuresWindow = 24 * time.Hour

// needless returns what is to be discarded of list, which is ordered by age.
// What was set aside first of a row is what the node held before its troubles
// began, and goes by age only; so does the newest, which may be the first of the next
// row. What came in between is, as a rule, from joins that failed and restores that
// were not the right ones: of that the oldest goes by number. A row is a day apart
// from the next, so that few are left.
func (l *view) needless(list []cluster.SetAside) *cluster.SetAside {
	if len(list) > 0 && l.age(list[0].At) > l.policy.SetAsideKeep {
		return &list[0]
	}
	if len(list) <= l.policy.SetAsideMax {
		return nil
	}
	for i := 1; i < len(list)-1; i++ {
		if list[i].At.Sub(list[i-1].At) <= relatedFailuresWindow && l.age(list[i].At) > minSetAsideTime {
			return &list[i]
		}
	}
	return nil
}
