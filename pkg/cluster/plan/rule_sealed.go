package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A version that no running cluster can be changed to is reached by a restore of what
// runs, where an operator has queued that: a sealed request. Nothing that was
// acknowledged is lost by it, since clients are kept away from all members first, and
// then the backup is taken. So they wait for as long as the backup and its staging take.
// Everything that can be known to fail is checked while they are still served.

// restoreSealed is [view.restore] for a sealed request.
func (l *view) restoreSealed(r cluster.Request) (Operation, verdict) {
	src := l.obs.Store.Source
	if src != nil && src.Request == r.Name {
		r.Backup = src.Backup
	}
	if reason := l.refusalSealed(r); reason != "" {
		l.sealing = l.closed() // until nobody can take the request for one that counts
		return &RequestClose{Name: r.Name, Outcome: OutcomeRefused, Reason: reason}, goOn
	}
	if r.EtcdVersion != l.spec.EtcdVersion {
		l.hold(NotYet, "the restore as etcd %s begins when the spec, which is read again, asks for it", r.EtcdVersion)
		l.sealing = true // what is closed stays closed until then
		return nil, goOn
	}
	if l.rollsFirst(r) {
		return nil, goOn // the rule about versions does it, or says what is in the way
	}
	if l.shrinksFirst() {
		l.hold(NotYet, "the restore as etcd %s begins when the cluster has %d voters", r.EtcdVersion, l.spec.MemberCount)
		l.sealing = true
		return nil, goOn
	}
	l.sealing = true
	if op, done := l.seal(r); !done {
		// Before anything is closed the members are maintained: what has to be well may be
		// replaced.
		l.frozen = l.frozen || op != nil || l.sealBegun()
		return op, verdict(op != nil)
	}
	l.frozen = true
	if src == nil || src.Request != r.Name || !l.storeReady("the restore as etcd "+r.EtcdVersion.String()) {
		l.hold(Restoring, "what the store says of the restore as etcd %s is not known yet", r.EtcdVersion)
		return nil, goOn
	}
	if r.Backup != "" {
		if reason := l.givenUp(r); reason != "" {
			return &RequestClose{Name: r.Name, Outcome: OutcomeRefused, Reason: reason}, goOn
		}
		return l.restore(r)
	}
	if newest := l.obs.Store.Own(); len(newest) > 0 && newest[0].Name != src.Newest {
		l.hold(Restoring, "whether the newest backup is the one to restore is not known yet")
		return nil, goOn
	}
	return l.takeFor(r, r.BackupReason()), goOn
}

// refusalSealed says why a sealed request cannot be carried out, or is not meant any
// more, empty if nothing speaks against it.
func (l *view) refusalSealed(r cluster.Request) string {
	// The spec is written first, and may have been read before.
	known := l.obs.Store.Reachable && !l.obs.Store.SpecMissing
	if known && r.EtcdVersion != l.spec.EtcdVersion && l.age(r.At) > specTime {
		return fmt.Sprintf("the spec asks for etcd %s, and no more for %s", l.spec.EtcdVersion, r.EtcdVersion)
	}
	if reason := l.refusal(r); reason != "" {
		return reason
	}
	if r.EtcdVersion != l.spec.EtcdVersion {
		return "" // it is not meant yet, or no more: see above
	}
	members, differs := l.runners()
	if len(members) == 0 {
		return "" // what runs is not known
	}
	if !differs && len(members) == len(l.obs.Members) {
		return fmt.Sprintf("all members run etcd %s", r.EtcdVersion)
	}
	if !l.open(members) {
		return "" // it has begun
	}
	if r.Backup != "" {
		return "clients were let in after its backup was taken: ask again"
	}
	if _, lack := NextVersion(members, r.EtcdVersion, l.obs.ClusterVersion); lack == nil || !lack.Restore {
		if restoresTo(r.EtcdVersion) {
			return "" // on the way to where it is needed
		}
		return fmt.Sprintf("members change to etcd %s without a restore", r.EtcdVersion)
	}
	return ""
}

// specTime is how old a request may be that the spec, as it was read, does not ask for yet.
const specTime = 10 * time.Second

// open reports whether clients are served by some of the members.
func (l *view) open(members []Runner) bool {
	return slices.ContainsFunc(members, func(m Runner) bool { return l.admits(l.node(m.Name)) })
}

// rollsFirst reports whether the members have to come nearer to the version before the
// restore: from 3.7 to 3.5 by downgrades, and then to 3.4.
func (l *view) rollsFirst(r cluster.Request) bool {
	members, _ := l.runners()
	if len(members) == 0 || !l.open(members) {
		return false
	}
	_, lack := NextVersion(members, r.EtcdVersion, l.obs.ClusterVersion)
	return lack == nil || !lack.Restore || !l.obs.Downgrade.IsZero()
}

// shrinksFirst reports whether voters that the spec does not want are removed before clients
// are kept away from the others. One of them may be closed for that already, and does not
// show that the sealing has begun. Where it has, all are closed, and those that the spec
// wants restore.
func (l *view) shrinksFirst() bool {
	return len(l.voters) > l.spec.MemberCount && !l.sealBegun()
}

// sealBegun reports whether clients are kept away from a voter that stays.
func (l *view) sealBegun() bool {
	return slices.ContainsFunc(l.voters, func(m cluster.Member) bool { return l.quarantined(m) && !l.surplus(m) })
}

// seal keeps clients away from all members, one after the other and the leader last,
// after it has checked all that the restore needs. done says that it has.
func (l *view) seal(r cluster.Request) (op Operation, done bool) {
	if l.closed() {
		return nil, true
	}
	members, _ := l.runners()
	begun := l.sealBegun()
	if !begun && (l.obs.Leader == 0 || l.healthy < cluster.Quorum(len(l.voters))) {
		return nil, false // the rest says what becomes of it
	}
	if !begun && !l.canRestore(r, members) {
		return nil, false
	}
	if !begun {
		// A store that takes no backup would keep clients away for nothing.
		if op, ok := l.covered("close"); !ok {
			return op, false
		}
	}
	if begun && l.serving < len(l.voters) {
		return l.unsealable(r), false
	}
	var leader *cluster.Node
	for _, m := range l.voters {
		n := l.nodeOf(m)
		switch {
		case n == nil || n.Assigned == nil:
			l.hold(NodeUnreachable, "%s cannot be closed to clients: its daemon is not known", l.called(m))
			return nil, false
		case n.Assigned.Quarantined:
		case m.ID == l.obs.Leader:
			leader = n
		default:
			return &QuarantineSet{Node: n.Name}, false
		}
	}
	if leader == nil {
		l.holdOpen()
		return nil, false
	}
	return &QuarantineSet{Node: leader.Name}, false
}

// holdOpen says who else may serve clients when they are kept away from all voters.
func (l *view) holdOpen() {
	for i := range l.obs.Nodes {
		if n := &l.obs.Nodes[i]; l.admits(n) {
			l.hold(NotYet, "the backup to restore waits until %s is known to serve no clients", n.Name)
		}
	}
}

// admits reports whether clients may be let in on n. Who is no member any more commits
// nothing of what they write, and a learner takes no writes.
func (l *view) admits(n *cluster.Node) bool {
	m := l.memberOf(n)
	spare := l.obs.Leader != 0 && m == nil || m != nil && m.Learner
	return n.Assigned != nil && !n.Assigned.Quarantined && !spare
}

// closed reports whether clients are kept away from all that runs, and from what does not
// answer.
func (l *view) closed() bool {
	some := false
	for i := range l.obs.Nodes {
		n := &l.obs.Nodes[i]
		if some = some || n.Assigned != nil; l.admits(n) {
			return false
		}
	}
	return some && !slices.ContainsFunc(l.voters, func(m cluster.Member) bool {
		n := l.nodeOf(m)
		return n == nil || n.Assigned == nil
	})
}

// canRestore holds, and reports false, where the restore could not go on to its end.
func (l *view) canRestore(r cluster.Request, members []Runner) bool {
	before := len(l.holds)
	l.versionGates(members, r.EtcdVersion)
	if !l.storeReady("the restore as etcd " + r.EtcdVersion.String()) {
		return false
	}
	for _, m := range members {
		why := l.unableToRestore(r, l.node(m.Name), r.EtcdVersion)
		if why != nil && !slices.ContainsFunc(l.holds[before:], func(h Hold) bool { return h.Reason == why.Reason }) {
			l.holds = append(l.holds, *why)
		}
	}
	return len(l.holds) == before
}

// unsealable is for a voter that fails while clients are being kept away: it is waited for,
// and then the restore is given up, so that clients come in again.
func (l *view) unsealable(r cluster.Request) Operation {
	for _, m := range l.voters {
		if !l.serves(m) && !m.UnhealthySince.IsZero() && l.age(m.UnhealthySince) > max(l.policy.Grace, closeTimeout) {
			return &RequestClose{Name: r.Name, Outcome: OutcomeRefused,
				Reason: fmt.Sprintf("%s failed while clients were being kept away: ask again when it serves", l.called(m))}
		}
	}
	l.hold(QuorumMargin, "clients are kept away from all members when all voters serve: %s", l.describe())
	return nil
}

// givenUp says why a restore is given up for which clients are kept away, empty where it is
// not: the members could serve them, and for longer than a voter may be missing too few nodes
// can restore the backup.
func (l *view) givenUp(r cluster.Request) string {
	i := slices.IndexFunc(l.obs.Store.Backups, func(b cluster.Backup) bool { return b.Name == r.Backup })
	if i < 0 || l.age(l.obs.Store.Backups[i].At) <= max(l.policy.Grace, closeTimeout) ||
		l.obs.Leader == 0 || l.healthy < cluster.Quorum(len(l.voters)) {
		return ""
	}
	count, version := wanted(l.spec, r)
	if s := l.stagedFor(r); s != nil && !l.spoiled(r, *s) || l.enough(r, count, version) {
		return ""
	}
	var unable []string
	for j := range l.obs.Nodes {
		if why := l.unableToRestore(r, &l.obs.Nodes[j], version); why != nil && why.Text != "" {
			unable = append(unable, why.Text)
		}
	}
	if len(unable) == 0 {
		unable = []string{fmt.Sprintf("there are %d of %d", len(l.obs.Nodes), count)}
	}
	return fmt.Sprintf("clients had been kept away, and too few nodes could restore: %s; ask again when they can",
		strings.Join(unable, "; "))
}

// closeTimeout is how long a member may take to end and to start again when clients are kept
// away from it: etcd waits some seconds for their streams.
const closeTimeout = 30 * time.Second

// restoresTo reports whether a version is reached from later ones by a restore only.
func restoresTo(v etcdversion.Version) bool { return v.Compare(oldestDowngrade) < 0 }

// cannotRaise says why a node cannot raise the revision of what it restores as a version,
// empty where it can: with that version's own tool, or that of a later patch of 3.5.
func (l *view) cannotRaise(n *cluster.Node, v etcdversion.Version) string {
	if v.Compare(cluster.FirstRaise) >= 0 || cluster.Raiser(n.Versions) != (etcdversion.Version{}) {
		return ""
	}
	return fmt.Sprintf("etcd %s cannot raise the revision of what it restores, and %s has no %s or later patch of 3.5 "+
		"that can; on it: etcdadm download --version=3.5.PATCH", v, n.Name, cluster.FirstRaise)
}

// byRestore is the command line by which an operator has a version reached by a restore.
func (l *view) byRestore(lack *NoWay) string {
	if !lack.Restore || l.policy.FixedSpec || l.policy.Unbacked {
		return ""
	}
	return fmt.Sprintf("; or, by a backup and a restore, in which clients wait and nothing that was acknowledged is "+
		"lost: etcd-manager-ctl --backup-store=STORE --etcd-version=%s configure-cluster --allow-restore",
		l.spec.EtcdVersion)
}

// sealed makes sure that what a sealed restore stands on is not taken away: as long as it
// is queued and not decided, no member is opened to clients, and its backup is taken when
// all are closed.
func (c checker) sealed(op Operation) error {
	r := c.obs.SealedRequest()
	if r == nil {
		return nil
	}
	switch op := op.(type) {
	case *QuarantineLift:
		if c.closed() == nil {
			return unsafe("restore", "what clients wrote to %s would be lost in the restore that is queued; to give "+
				"that up: etcd-manager-ctl --backup-store=STORE delete-command %s", op.Node, r.Name)
		}
	case *BackupTake:
		if op.Reason == r.BackupReason() {
			return c.closed()
		}
	case *RestoreStage:
		if op.Request == r.Name {
			return c.takenFor(*r, op.Backup)
		}
	case *IncarnationCreate:
		if op.Request == r.Name {
			return errors.Join(c.takenFor(*r, op.Backup), c.closed())
		}
	}
	return nil
}

// takenFor makes sure that a backup is the one that was taken for a sealed request.
func (c checker) takenFor(r cluster.Request, backup string) error {
	if src := c.obs.Store.Source; src == nil || src.Request != r.Name || src.Backup != backup {
		return unsafe("restore", "%s is not known to be the backup that was taken for %s when clients were kept away", backup,
			r.Name)
	}
	return nil
}

// closed makes sure that clients are kept away from all voters.
func (c checker) closed() error {
	var open []string
	for _, n := range c.obs.Nodes {
		m, member := c.hosted(n)
		takesNone := c.obs.Leader != 0 && !member || member && m.Learner
		if n.Assigned != nil && !n.Assigned.Quarantined && !takesNone {
			open = append(open, string(n.Name))
		}
	}
	for _, m := range c.obs.Members {
		known := slices.ContainsFunc(c.obs.Nodes, func(n cluster.Node) bool {
			h, ok := c.hosted(n)
			return ok && h.ID == m.ID && n.Assigned != nil
		})
		if !known && !m.Learner {
			open = append(open, "member "+m.ID.String())
		}
	}
	if len(open) > 0 {
		return unsafe("restore", "clients may still write to %s, and what they write would be lost",
			strings.Join(open, ", "))
	}
	return nil
}

// seal allows the restart that closes a member to clients, for a sealed restore, where all
// voters are healthy: a cluster of one or two can be closed in no other way.
func (c checker) seal(op *QuarantineSet) error {
	if voters, healthy := c.count(0); c.obs.SealedRequest() != nil && healthy == voters {
		return nil
	}
	return c.stop(op.Node)
}

// takeSealed predicts that the backup that was taken is the one of the sealed request.
func (p *prediction) takeSealed(op *BackupTake, name string) {
	r := p.SealedRequest()
	if r == nil || op.Reason != r.BackupReason() {
		return
	}
	src := cluster.Source{Request: r.Name, Backup: name, Newest: name, Revision: p.Revision}
	if a := p.node(op.Node).Assigned; a != nil {
		src.Version = a.Version
	}
	p.Store.Source = &src
}
