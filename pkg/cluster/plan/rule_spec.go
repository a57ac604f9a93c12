package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func ruleSpec(l *view) (Operation, verdict) {
	if l.obs.Store.SpecProblem != "" {
		l.hold(SpecInvalid, "%s", l.obs.Store.SpecProblem)
		return nil, stop
	}
	if l.spec.MemberCount == 0 && l.spec.EtcdVersion.IsZero() {
		if !l.obs.Store.Reachable {
			l.hold(StoreUnreachable, "the spec is not known: %s", l.storeSilence())
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

func rulePaused(l *view) (Operation, verdict) {
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

func ruleConflict(l *view) (Operation, verdict) {
	for _, n := range l.obs.Nodes {
		if n.Conflict != "" {
			l.hold(NameConflict, "%s is used by the daemons at %s and %s", n.Name, n.Address, n.Conflict)
		}
	}
	return nil, goOn
}

// ruleEndpoints keeps hosts files up to date. It comes before bootstrap:
// members may find each other by these names only.
func ruleEndpoints(l *view) (Operation, verdict) {
	if l.policy.DNSSuffix == "" {
		return nil, goOn
	}
	for _, n := range l.obs.Nodes {
		want := l.hostEntries(n)
		if !n.Reachable || n.Conflict != "" || slices.Equal(n.Hosts, want) {
			continue
		}
		if op := (&EndpointsWrite{Node: n.Name, Entries: want}); !l.failing(op) {
			return op, goOn
		}
	}
	return nil, goOn
}

// hostEntries returns the entries for n's hosts file, by address and name: one
// for each node with a known address, and those that the file has for members
// and lease voters whose address is not known now. An observer that has just begun
// does not know a node that reboots, which is no reason to forget its name.
func (l *view) hostEntries(n cluster.Node) []cluster.HostEntry {
	var entries []cluster.HostEntry
	known := map[string]bool{}
	for _, o := range l.obs.Nodes {
		if address, err := netip.ParseAddrPort(o.Address); err == nil {
			e := cluster.HostEntry{Address: address.Addr().String(), Name: l.hostName(o.Name)}
			entries, known[e.Name] = append(entries, e), true
		}
	}
	kept := map[string]bool{}
	for _, name := range slices.Concat(l.voterNodes(), l.obs.LeaseVoters.Names) {
		kept[l.hostName(name)] = true
	}
	for _, e := range n.Hosts {
		if kept[e.Name] && !known[e.Name] {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b cluster.HostEntry) int {
		return cmp.Or(strings.Compare(a.Address, b.Address), strings.Compare(a.Name, b.Name))
	})
	return entries
}

func (l *view) hostName(name cluster.NodeName) string {
	return string(name) + "." + strings.TrimPrefix(l.policy.DNSSuffix, ".")
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
