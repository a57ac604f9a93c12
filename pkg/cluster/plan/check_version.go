package plan

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// changeVersion makes sure that the node is the one that is meant, that etcd can
// run the two versions side by side, and that the cluster does without the member
// meanwhile, and if it does not come back.
func (c checker) changeVersion(spec cluster.Spec, op *MemberChangeVersion) error {
	n, err := c.node(op.Node)
	if err != nil {
		return err
	}
	m, member := c.hosted(n)
	switch {
	case !n.Reachable || n.Assigned == nil || !member:
		return unsafe("version", "%s runs no member", op.Node)
	case n.Disk.State != cluster.DiskData || n.Disk.Token != op.ExpectToken || n.Assigned.Token != op.ExpectToken:
		return &StaleError{Want: "incarnation " + string(op.ExpectToken), Got: string(n.Disk.Token)}
	case n.Disk.MemberID != op.ExpectMemberID || m.ID != op.ExpectMemberID:
		return &StaleError{Want: "member " + op.ExpectMemberID.String(), Got: n.Disk.MemberID.String()}
	case n.Assigned.Version == op.To:
		return nil // nothing to do
	case n.Assigned.Version != op.ExpectVersion:
		return &StaleError{Want: "etcd " + op.ExpectVersion.String(), Got: n.Assigned.Version.String()}
	case spec.EtcdVersion.Minor > op.To.Minor && op.To.Minor == op.ExpectVersion.Minor &&
		op.To.Compare(op.ExpectVersion) < 0:
		return unsafe("version", "etcd %s is an earlier patch than %s, and the spec asks for %s", op.To, op.ExpectVersion,
			spec.EtcdVersion)
	case !hasVersion(n, op.To):
		return unsafe("version", "%s has no binaries of etcd %s", op.Node, op.To)
	}
	if reason, ok := spec.AcceptsRisk(); op.AcceptRisk != "" && (!ok || reason != op.AcceptRisk) {
		return unsafe("version", "the spec does not accept the risk of etcd %s for that reason", spec.EtcdVersion)
	}
	if err := c.compared(op); err != nil {
		return err
	}
	if err := c.mixes(m, op); err != nil {
		return err
	}
	if err := c.reaches(spec, op.ExpectVersion, op.To); err != nil {
		return err
	}
	for _, h := range cluster.HazardsBySnapshot(n.Hazards, op.To) {
		if h.Kind != cluster.HazardOldLog && op.To.Minor > op.ExpectVersion.Minor {
			return unsafe("version", "the data of %s has what etcd %s does not tolerate, %s; %s", op.Node, op.To, h,
				h.Fix(op.To))
		}
	}
	if op.To.Minor > op.ExpectVersion.Minor && n.OldLog.State == cluster.HazardPresent &&
		op.To.Major == 3 && op.To.Minor == 7 {
		return unsafe("version", "the log of %s has entries that etcd %s cannot read, after its last raft snapshot; "+
			"etcdadm member force-snapshot", op.Node, op.To)
	}
	if err := c.spares(spec, m, op.To); err != nil {
		return err
	}
	return c.backup("changing the version of a member")
}

// compared makes sure that no change begins before each member's data is known to be
// that of the others: later, digests of two versions would prove nothing.
func (c checker) compared(op *MemberChangeVersion) error {
	var comparing cluster.NodeName
	for _, n := range c.obs.Nodes {
		if _, member := c.hosted(n); !member || n.Assigned == nil {
			continue
		}
		if n.Assigned.Version != op.ExpectVersion {
			return nil // it has begun
		}
		if n.Comparing {
			comparing = n.Name
		}
	}
	if comparing != "" {
		return passing("version", "the data of %s has not been compared with that of the others yet", comparing)
	}
	return nil
}

// forceSnapshot makes sure that the node is the one that is meant.
func (c checker) forceSnapshot(op *MemberForceSnapshot) error {
	n, err := c.node(op.Node)
	if err != nil {
		return err
	}
	m, member := c.hosted(n)
	switch {
	case !n.Reachable || n.Assigned == nil || !member:
		return unsafe("version", "%s runs no member", op.Node)
	case n.Disk.Token != op.ExpectToken || n.Assigned.Token != op.ExpectToken:
		return &StaleError{Want: "incarnation " + string(op.ExpectToken), Got: string(n.Disk.Token)}
	case n.Disk.MemberID != op.ExpectMemberID || m.ID != op.ExpectMemberID:
		return &StaleError{Want: "member " + op.ExpectMemberID.String(), Got: n.Disk.MemberID.String()}
	}
	if v := n.Assigned.Version; n.OldLog.State == "" && v.Major == 3 && v.Minor == 6 {
		return passing("version", "%s has not checked its member's log yet: it does when the cluster version is 3.6", op.Node)
	}
	return nil
}

func hasVersion(n cluster.Node, v etcdversion.Version) bool {
	for _, has := range n.Versions {
		if has == v {
			return true
		}
	}
	return false
}

// mixes makes sure that the members' versions go together once m runs the new one.
func (c checker) mixes(target cluster.Member, op *MemberChangeVersion) error {
	from, to := op.ExpectVersion, op.To
	step := to.Minor - from.Minor
	if from.Major != to.Major || step < -1 || step > 1 {
		return unsafe("version", "etcd %s and %s are more than one minor version apart", from, to)
	}
	known := c.obs.ClusterVersion
	if !known.IsZero() && (known.Major > to.Major || known.Minor > to.Minor) {
		return unsafe("version", "the cluster version is %d.%d, and etcd %s is older", known.Major, known.Minor, to)
	}
	if step == 1 && !known.IsZero() && known.Minor < from.Minor {
		return c.notRisen(from, to)
	}
	if step == 1 {
		if err := c.migrated(from, to); err != nil {
			return err
		}
	}
	older := 0 // other voters that keep the cluster version down
	for _, m := range c.obs.Members {
		v := c.versionOf(m)
		if v.IsZero() {
			return unsafe("version", "the etcd version of %s is unknown", m.ID)
		}
		if d := v.Minor - to.Minor; m.ID != target.ID && (d > 1 || d < -1) {
			return unsafe("version", "%s runs etcd %s, which is not compatible with %s", m.Name, v, to)
		}
		if m.ID != target.ID && !m.Learner && v.Minor <= to.Minor {
			older++
		}
		found := slices.DeleteFunc(cluster.HazardsFrom(c.hazardsOf(m), v, to), op.accepts)
		if step == 1 && len(found) > 0 {
			refuse := unsafe
			if found[0].State == cluster.HazardPending {
				refuse = passing
			}
			return refuse("version", "%s runs etcd %s, and %s is safe to reach from %s on, or from data without %s",
				m.Name, v, to,
				to.UpgradeFloor(), found[0])
		}
	}
	if step == -1 {
		return c.older(target, to, older)
	}
	return nil
}

// migrated refuses a version where the data of a member of from is still that of the minor
// version before.
func (c checker) migrated(from, to etcdversion.Version) error {
	for _, m := range c.obs.Members {
		if c.versionOf(m).Minor == from.Minor && !m.Storage.IsZero() && m.Storage.Minor < from.Minor {
			return passing("version", "the data of %s is still of etcd %d.%d, and etcd %s does not follow it", m.Name,
				m.Storage.Major, m.Storage.Minor, to)
		}
	}
	return nil
}

// notRisen refuses a version that does not follow the cluster version. etcd raises that one
// within seconds once all members run from.
func (c checker) notRisen(from, to etcdversion.Version) error {
	refuse := passing
	for _, m := range c.obs.Members {
		if v := c.versionOf(m); v.Major != from.Major || v.Minor < from.Minor {
			refuse = unsafe
		}
	}
	known := c.obs.ClusterVersion
	return refuse("version", "the cluster version is still %d.%d, and etcd %s does not follow it", known.Major, known.Minor, to)
}

// accepts reports whether the operator has accepted a hazard.
func (op *MemberChangeVersion) accepts(h cluster.Hazard) bool {
	return slices.Contains(op.AcceptHazards, h.Kind)
}

// hazardsOf returns what is known of a member's data.
func (c checker) hazardsOf(m cluster.Member) []cluster.Hazard {
	for _, n := range c.obs.Nodes {
		if h, ok := c.hosted(n); ok && h.ID == m.ID {
			return n.Hazards
		}
	}
	return nil
}

// versionOf returns what a member runs: what it says itself, or what its node says.
func (c checker) versionOf(m cluster.Member) etcdversion.Version {
	if !m.Version.IsZero() {
		return m.Version
	}
	for _, n := range c.obs.Nodes {
		if h, ok := c.hosted(n); ok && h.ID == m.ID && n.Assigned != nil {
			return n.Assigned.Version
		}
	}
	return etcdversion.Version{}
}

// spares makes sure that the cluster is well, and stays so without m, and that no other
// member has failed with the version that m is to run, zero for none.
func (c checker) spares(spec cluster.Spec, target cluster.Member, to etcdversion.Version) error {
	voters, reliable := c.count(0)
	_, left := c.count(target.ID)
	for _, m := range c.obs.Members {
		switch {
		case m.Learner:
			return unsafe("one-change", "member %s is a learner", m.ID)
		case len(m.Alarms) > 0:
			return unsafe("version", "%s has raised an alarm", m.Name)
		}
	}
	for _, n := range c.obs.Nodes {
		h, ok := c.hosted(n)
		if ok && h.ID != target.ID && n.Change != nil && n.Change.Token == c.obs.Token &&
			!(n.Change.Back && n.Change.Failed != "") {
			return unsafe("one-change", "%s is between etcd %s and %s", n.Name, n.Change.From, n.Change.To)
		}
		if ok && h.ID != target.ID && n.Change != nil && n.Change.Token == c.obs.Token && n.Change.To == to {
			return unsafe("version", "%s did not come up with etcd %s: %s", n.Name, to, n.Change.Failed)
		}
	}
	switch {
	case c.obs.Leader == target.ID && voters > 1:
		return unsafe("version", "%s leads, and its leadership has to be moved first", target.Name)
	case reliable < voters:
		return unsafe("quorum", "%d of %d voters serve, but all of them must", reliable, voters)
	case left < cluster.Quorum(voters) && spec.MemberCount > voters:
		return unsafe("quorum", "changing %s would leave %d healthy voters of %d", target.Name, left, voters)
	}
	return nil
}

// reaches makes sure that a step between two minor versions is begun only where the way
// goes on from there to what the spec asks for: each member's node has its binaries, and
// those of one version of each minor version between.
func (c checker) reaches(spec cluster.Spec, from, to etcdversion.Version) error {
	want := spec.EtcdVersion
	up, down := from.Minor < to.Minor && to.Minor < want.Minor, from.Minor > to.Minor && to.Minor > want.Minor
	if want.Major != to.Major || !up && !down || !c.obs.Downgrade.IsZero() {
		return nil
	}
	var hosts []cluster.Node
	for _, n := range c.obs.Nodes {
		_, member := c.hosted(n)
		if !member || n.Assigned == nil {
			continue
		}
		if minorOf(n.Assigned.Version) != minorOf(from) {
			return nil // it has begun
		}
		if n.Reachable {
			hosts = append(hosts, n)
		}
	}
	has := map[etcdversion.Version]int{}
	for _, n := range hosts {
		if !hasVersion(n, want) {
			return unsafe("version", "%s has no binaries of etcd %s, and the way there leads by %s", n.Name, want, to)
		}
		for _, v := range n.Versions {
			has[v]++
		}
	}
	for minor := max(min(to.Minor, want.Minor)+1, oldestDowngrade.Minor); minor < max(to.Minor, want.Minor); minor++ {
		found := false
		for v, n := range has {
			found = found || v.Major == want.Major && v.Minor == minor && v.Pre == "" && n == len(hosts)
		}
		if !found {
			return unsafe("version", "no version of etcd %d.%d is on every node, and the way from %s to %s leads through it",
				want.Major, minor, to, want)
		}
	}
	return nil
}
