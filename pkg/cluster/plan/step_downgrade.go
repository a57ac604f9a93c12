package plan

import (
	"fmt"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// oldestDowngrade is the oldest minor version to which etcd can downgrade a cluster
// that runs: its downgrade API turns data of 3.6 into data of 3.5.
var oldestDowngrade = etcdversion.Version{Major: 3, Minor: 5}

// minorOf returns v without its patch.
func minorOf(v etcdversion.Version) etcdversion.Version {
	return etcdversion.Version{Major: v.Major, Minor: v.Minor}
}

// down is for members of one minor version that are to run an earlier one.
func down(members []Runner, want, low etcdversion.Version) (etcdversion.Version, *NoWay) {
	if restoresTo(want) && (!members[0].Restores || low.Minor == oldestDowngrade.Minor) {
		return want, &NoWay{
			Why: fmt.Sprintf("members run etcd %s, and a running etcd cannot be downgraded to %d.%d", low, want.Major,
				want.Minor),
			Do:      fmt.Sprintf("set the spec back to %s", low),
			Restore: true,
		}
	}
	if want.Minor == low.Minor-1 {
		return want, nil
	}
	next, ok := newestOf(members, low.Minor-1)
	if !ok {
		return want, missingBetween(members, low, want, low.Minor-1)
	}
	return next, nil
}

// missingBetween says that no patch of a minor version on the way is on every node.
func missingBetween(members []Runner, low, want etcdversion.Version, minor int) *NoWay {
	return &NoWay{
		Why: fmt.Sprintf("the way from %s to %s leads through %d.%d, and no version of that is on every node (%s)", low, want,
			low.Major, minor, holdings(members)),
		Do: fmt.Sprintf("put binaries of one %d.%d on every node: etcdadm download --version=%d.%d.PATCH", low.Major, minor,
			low.Major, minor),
	}
}

// endDowngrade is for a downgrade that etcd has enabled. It reports wait where nothing
// else may be done about versions: the members all run its version, and etcd ends it by
// itself; or the spec asks for a later version, or no member can go so far down in one
// step, and it is cancelled.
func (l *view) endDowngrade(members []Runner) (op Operation, wait bool) {
	to := l.obs.Downgrade
	if to.IsZero() {
		return nil, false
	}
	above, far := false, true
	for _, m := range members {
		far = far && m.Assigned.Minor > to.Minor+1
		above = above || m.Assigned.Compare(to) > 0 && m.Assigned.Minor != to.Minor
	}
	switch {
	case !far && l.spec.EtcdVersion.Minor <= to.Minor && above:
		return nil, false
	case !far && l.spec.EtcdVersion.Minor <= to.Minor:
		l.waitForAll(fmt.Sprintf("the downgrade to etcd %d.%d is finished, and etcd will notice that within seconds",
			to.Major, to.Minor))
	default:
		return l.cancelDowngrade(), true
	}
	return nil, true
}

// cancelDowngrade cancels what etcd has enabled, or holds while a member is between two
// versions.
func (l *view) cancelDowngrade() Operation {
	to := l.obs.Downgrade
	for _, m := range l.obs.Members {
		if n := l.nodeOf(m); n != nil && n.Change.Pending() && n.Change.Token == l.obs.Token {
			l.hold(NotYet, "the downgrade to etcd %d.%d will be cancelled when no member is between two versions", to.Major,
				to.Minor)
			return nil
		}
	}
	return &DowngradeCancel{ExpectTo: to}
}

// takesNobody reports whether etcd takes no new member: a downgrade is enabled. Who joins wants the
// cluster version to be still that from before, which it is for some seconds at most. Cancelled, what
// has changed by then stays, and the change goes on when the member has joined.
func (l *view) takesNobody() bool { return !l.obs.Downgrade.IsZero() }

// enableFirst returns what has to be done before the first member is changed to an
// earlier minor version: etcd prepares the data for it. It holds while etcd does.
func (l *view) enableFirst(next etcdversion.Version, members []Runner) (op Operation, wait bool) {
	low, high := members[0].Assigned, members[0].Assigned
	for _, m := range members {
		if m.Assigned.Compare(low) < 0 {
			low = m.Assigned
		}
		if m.Assigned.Compare(high) > 0 {
			high = m.Assigned
		}
	}
	if high.Minor <= next.Minor {
		return nil, false
	}
	seen, first := l.obs.ClusterVersion, low.Minor > next.Minor
	to := minorOf(next)
	switch {
	case first && seen.IsZero():
		l.hold(NotYet, "the change to etcd %s waits until a member reports the cluster version", next)
		return nil, true
	case first && l.obs.Downgrade.IsZero() && minorOf(seen) == minorOf(low):
		return &DowngradeEnable{To: to, ExpectClusterVersion: minorOf(seen)}, true
	case first && l.obs.Downgrade != to:
		l.hold(NotYet, "the change to etcd %s waits: the cluster version is %d.%d, and etcd's leader changes it within seconds",
			next, seen.Major, seen.Minor)
		return nil, true
	}
	for _, m := range l.obs.Members {
		n := l.nodeOf(m)
		if n == nil || n.Assigned == nil || n.Assigned.Version.Minor <= next.Minor {
			continue
		}
		if seen.AtLeast(high.Major, high.Minor) || minorOf(m.Storage).Compare(to) > 0 || first && m.Storage.IsZero() {
			l.hold(NotYet, "the change to etcd %s waits until etcd has made the data of %s data of %d.%d, which takes some "+
				"seconds", next, n.Name, to.Major, to.Minor)
			wait = true
		}
	}
	return nil, wait
}

// enableDowngrade predicts that etcd has prepared all data.
func (p *prediction) enableDowngrade(op *DowngradeEnable) {
	p.Downgrade, p.ClusterVersion = op.To, op.To
	for i := range p.Members {
		p.Members[i].Storage = op.To
	}
}

// cancelDowngrade predicts that the leader raises the cluster version, where all
// members run a later one.
func (p *prediction) cancelDowngrade() {
	p.Downgrade = etcdversion.Version{}
	p.raiseClusterVersion()
}

// raiseClusterVersion predicts what the leader does: the cluster version becomes the
// lowest minor version that a member runs, if that is later, and each member follows
// with its data.
func (p *prediction) raiseClusterVersion() {
	var low etcdversion.Version
	for i, m := range p.Members {
		h := p.node(m.Name)
		if h.Assigned == nil {
			return
		}
		if v := minorOf(h.Assigned.Version); i == 0 || v.Compare(low) < 0 {
			low = v
		}
	}
	if p.ClusterVersion.IsZero() || p.ClusterVersion.Compare(low) >= 0 || !p.Downgrade.IsZero() {
		return
	}
	p.ClusterVersion = low
	for i := range p.Members {
		if m := &p.Members[i]; !m.Storage.IsZero() {
			m.Storage = low
		}
	}
}
