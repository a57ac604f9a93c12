package plan

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func ruleSpec(l *look) (Operation, verdict) {
	if l.obs.Store.SpecProblem != "" {
		l.hold(SpecInvalid, "%s", l.obs.Store.SpecProblem)
		return nil, stop
	}
	if l.spec.MemberCount == 0 && l.spec.EtcdVersion.IsZero() {
		if !l.obs.Store.Reachable {
			l.hold(StoreUnreachable, "the spec is not known: %s", l.gap("store"))
			return nil, stop
		}
		l.hold(SpecMissing, "the control store has no spec")
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

func rulePaused(l *look) (Operation, verdict) {
	if r, ok := l.obs.Store.Pause(); ok {
		l.hold(Paused, "by %s since %s: %s", orUnknown(r.By), r.At.UTC().Format("2006-01-02 15:04:05Z"), orUnknown(r.Reason))
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

func ruleRequests(l *look) (Operation, verdict) {
	for _, r := range l.obs.Store.Requests {
		if r.Kind != cluster.RequestPause {
			l.hold(RequestUnsupported, "request %s (%s) cannot be carried out by this release", r.Name, r.Kind)
		}
	}
	return nil, goOn
}

func ruleConflict(l *look) (Operation, verdict) {
	for _, n := range l.obs.Nodes {
		if n.Conflict != "" {
			l.hold(NameConflict, "%s is used by the daemons at %s and %s", n.Name, n.Address, n.Conflict)
		}
	}
	return nil, goOn
}

// ruleEndpoints keeps hosts files up to date. It comes before founding:
// members may find each other by these names only.
func ruleEndpoints(l *look) (Operation, verdict) {
	if l.policy.DNSSuffix == "" {
		return nil, goOn
	}
	want := hostEntries(l.obs.Nodes, l.policy.DNSSuffix)
	for _, n := range l.obs.Nodes {
		if n.Reachable && n.Conflict == "" && !slices.Equal(n.Hosts, want) {
			return &EndpointsWrite{Node: n.Name, Entries: want}, goOn
		}
	}
	return nil, goOn
}

// hostEntries returns one entry for each node with a known address, by
// address and name.
func hostEntries(nodes []cluster.Node, suffix string) []cluster.HostEntry {
	var entries []cluster.HostEntry
	for _, n := range nodes {
		address, err := netip.ParseAddrPort(n.Address)
		if err != nil {
			continue
		}
		entries = append(entries, cluster.HostEntry{Address: address.Addr().String(), Name: string(n.Name) + "." + strings.TrimPrefix(suffix, ".")})
	}
	slices.SortFunc(entries, func(a, b cluster.HostEntry) int {
		if c := strings.Compare(a.Address, b.Address); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return entries
}

func ruleDisk(l *look) (Operation, verdict) {
	for _, n := range l.obs.Nodes {
		if n.Reachable && n.Disk.State == cluster.DiskUnreadable {
			l.hold(DiskUnreadable, "%s: %s", n.Name, n.Disk.Problem)
		}
	}
	return nil, goOn
}

func ruleAlarm(l *look) (Operation, verdict) {
	for _, m := range l.obs.Members {
		for _, a := range m.Alarms {
			l.hold(Alarm, "%s on %s (%s)", a, m.Name, m.ID)
		}
	}
	return nil, goOn
}

func ruleVersion(l *look) (Operation, verdict) {
	for _, m := range l.obs.Members {
		n := l.nodeOf(m)
		if n != nil && n.Assigned != nil && n.Assigned.Version != l.spec.EtcdVersion {
			l.hold(VersionDiffers, "%s runs etcd %s, the spec says %s", n.Name, n.Assigned.Version, l.spec.EtcdVersion)
		}
	}
	return nil, goOn
}
