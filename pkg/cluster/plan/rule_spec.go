package plan

import (
	"fmt"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func ruleSpec(l *view) (Operation, verdict) {
	if l.obs.Store.SpecProblem != "" {
		l.hold(SpecInvalid, "%s", l.obs.Store.SpecProblem)
		return nil, stop
	}
	if l.spec.MemberCount == 0 && l.spec.EtcdVersion.IsZero() {
		if !l.obs.Store.Reachable {
			l.hold(StoreUnreachable, "the spec is unknown: %s", l.storeProblem())
			return nil, stop
		}
		l.hold(SpecMissing, "the control store%s has no spec", located(l.obs.Store))
		return nil, stop
	}
	if err := l.spec.Validate(); err != nil {
		l.hold(SpecInvalid, "%v", err)
		return nil, stop
	}
	if !l.spec.EtcdVersion.Managed() {
		l.hold(SpecInvalid, "etcd version is %s, the oldest that can be managed is 3.4.0", l.spec.EtcdVersion)
		return nil, stop
	}
	return nil, goOn
}

// located is where a store is, behind its name in a text.
func located(s cluster.Store) string {
	if s.Location == "" {
		return ""
	}
	return " " + s.Location
}

func rulePaused(l *view) (Operation, verdict) {
	if r, ok := l.obs.Store.Pause(); ok {
		text := fmt.Sprintf("by %s since %s", orUnknown(r.By), r.At.UTC().Format("2006-01-02 15:04:05Z"))
		if r.Reason != "" {
			text += ": " + r.Reason
		}
		l.hold(Paused, "%s", text)
		return nil, stop
	}
	return nil, goOn
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func ruleConflict(l *view) (Operation, verdict) {
	for _, n := range l.obs.Nodes {
		if n.Conflict != "" {
			l.hold(NameConflict, "%s is used by the daemons at %s and %s", n.Name, n.Address, n.Conflict)
		}
	}
	return nil, goOn
}

func ruleDisk(l *view) (Operation, verdict) {
	for _, n := range l.obs.Nodes {
		if n.Reachable && n.Disk.State == cluster.DiskUnreadable {
			l.hold(DiskUnreadable, "%s: %s", n.Name, n.Disk.Problem)
		}
	}
	return nil, goOn
}

func ruleAlarm(l *view) (Operation, verdict) {
	for _, m := range l.obs.Members {
		for _, a := range m.Alarms {
			l.hold(Alarm, "%s on %s (%s)", a, m.Name, m.ID)
		}
	}
	return nil, goOn
}
