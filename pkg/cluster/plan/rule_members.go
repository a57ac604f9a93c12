package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// ruleQuorum lets no rule below it run without a healthy majority.
func ruleQuorum(l *view) (Operation, verdict) {
	if len(l.voters) > 0 && l.obs.Leader != 0 && l.healthy >= cluster.Quorum(len(l.voters)) {
		return nil, goOn
	}
	if op := l.restartForQuorum(); op != nil {
		return op, stop
	}
	for i := range l.obs.Nodes {
		if n := &l.obs.Nodes[i]; full(n) && l.memberOf(n) != nil {
			l.holdFull(n)
		}
	}
	if l.waitsForUnstarted() || l.gray() || l.proven() {
		return nil, stop
	}
	if l.restoredAbsent() {
		return nil, stop
	}
	reason := QuorumLost
	if rec := l.record(); rec != nil && rec.Token == l.obs.Token && l.obs.Store.Created.IsZero() {
		reason = Bootstrap
	} else if rec != nil && rec.Restored != nil && rec.Token == l.obs.Token && l.request(cluster.RequestRestore) != nil {
		reason = Restoring
	}
	if len(l.voters) > 0 {
		l.hold(reason, "%d of %d voters are healthy, a majority is %d: %s", l.healthy, len(l.voters),
			cluster.Quorum(len(l.voters)), l.describe())
	} else {
		l.hold(reason, "no member answers: %s", l.describe())
	}
	return nil, stop
}

// served returns the voters through which etcd's quorum has answered in this
// observation.
func (l *view) served() (list []string) {
	for _, m := range l.voters {
		if m.Served && l.obs.Leader != 0 {
			list = append(list, l.called(m))
		}
	}
	return list
}

// proven holds, and reports true, where too few voters are seen to be healthy
// and etcd's quorum has answered all the same: what does not answer is daemons, or
// members that this observer cannot reach. Nothing is built on that, and nothing
// is lost.
func (l *view) proven() bool {
	through := l.served()
	if len(through) == 0 {
		return false
	}
	l.hold(NodeUnreachable, "etcd has a quorum, which answered through %s; %d of %d voters are seen to be healthy, "+
		"and nothing is changed before a majority is: %s",
		strings.Join(through, ", "), l.healthy, len(l.voters), l.describe())
	return true
}

// ruleDiffers says whose data is not that of the others. What is to be done
// about it other rules know: such a member is unhealthy, or its process does not
// start.
func ruleDiffers(l *view) (Operation, verdict) {
	for i := range l.obs.Nodes {
		if n := &l.obs.Nodes[i]; n.Differs != "" && n.Reachable {
			l.hold(DataDiffers, "%s: %s", n.Name, n.Differs)
		}
	}
	return nil, goOn
}

// restoredAbsent holds where the newest incarnation began with restored data that
// no node which answers has, so that only those that do not answer can know
// whether it ever began.
func (l *view) restoredAbsent() bool {
	rec := l.restored()
	if rec == nil || len(l.obs.Members) > 0 || rec.Token != l.obs.Token {
		return false
	}
	var unreachable []cluster.NodeName
	for _, n := range l.obs.Nodes {
		switch {
		case !n.Reachable:
			unreachable = append(unreachable, n.Name)
		case n.Staged != nil && n.Staged.Token == rec.Token, n.Prepared != nil && n.Prepared.Token == rec.Token,
			l.tokenOn(&n) == rec.Token:
			return false
		}
	}
	if len(unreachable) == 0 {
		l.hold(QuorumLost, "incarnation %d began with restored data on %s, but no node has its data any more%s", rec.Number,
			voterNames(rec.Voters), l.whoStillRuns(rec))
		return true
	}
	l.hold(Restoring, "incarnation %d was to begin with restored data on %s, but no node that answers has it: bring "+
		"back %s, or remove nodes that are gone for good: etcd-manager-ctl --backup-store=STORE forget-node NAME",
		rec.Number, voterNames(rec.Voters), names(unreachable))
	return true
}

// whoStillRuns says who runs what was there before a restore: a record that does not belong
// in the store hides a cluster that serves. It is empty for nobody.
func (l *view) whoStillRuns(rec *cluster.Incarnation) string {
	var run []cluster.NodeName
	for i := range l.obs.Nodes {
		if n := &l.obs.Nodes[i]; n.Process.State == cluster.ProcessRunning && l.tokenOn(n) != rec.Token {
			run = append(run, n.Name)
		}
	}
	if len(run) == 0 {
		return ""
	}
	return fmt.Sprintf(". The incarnation from before the restore still runs on %s, and may serve clients. If nobody restored this "+
		"cluster, the record is wrong: restore nothing, and delete control/incarnations/%d from the store", names(run), rec.Number)
}

// restartForQuorum starts a stopped voter on its own data.
func (l *view) restartForQuorum() Operation {
	for i := range l.obs.Nodes {
		n := &l.obs.Nodes[i]
		voter := slices.Contains(l.obs.LeaseVoters.Names, n.Name) || l.memberOf(n) != nil
		if voter {
			if op := l.restart(n); op != nil && !l.failing(op) {
				return op
			}
		}
	}
	return nil
}

// restart returns the start of n's member on its own data, nil where an
// operation did not stop it: a process that died is started by its own node.
func (l *view) restart(n *cluster.Node) Operation {
	if !n.Reachable || n.Conflict != "" || n.Assigned == nil || !n.Assigned.Stopped || n.Assigned.Token != l.obs.Token {
		return nil
	}
	if n.Disk.State != cluster.DiskData || n.Disk.Token != l.obs.Token || n.Process.State != cluster.ProcessStopped {
		return nil
	}
	return &MemberStart{Node: n.Name, Token: n.Assigned.Token, Mode: StartRestart, Version: n.Assigned.Version}
}

// ruleEvicted clears nodes that hold what no longer belongs to the cluster:
// members that were removed, and data of old incarnations. It runs under a
// healthy majority, whose member list is the proof.
func ruleEvicted(l *view) (Operation, verdict) {
	for i := range l.obs.Nodes {
		n := &l.obs.Nodes[i]
		if !n.Reachable || n.Conflict != "" || n.Disk.State == cluster.DiskUnreadable || l.fits(n) {
			continue
		}
		if l.frozen && slices.Contains(l.obs.LeaseVoters.Names, n.Name) {
			continue // the lease voters' record may be needed until the new one is written
		}
		if token := l.tokenOn(n); !superseded(l.obs, token) {
			l.hold(StoreUnreachable, "%s has data of incarnation %s, which may be newer than this one: %s", n.Name, token,
				l.storeProblem())
			continue
		}
		if !l.policy.Unbacked && l.beganAbove(n) {
			l.hold(StoreNotShared, "%s has data of incarnation %s, of which there is no record in this store, and which began "+
				"above all revisions of this one: it was restored by another store, or the record is lost; delete by hand "+
				"what you do not need", n.Name, l.tokenOn(n))
			continue
		}
		if slices.Contains(mayServe(l.obs), n.Name) {
			continue // ruleRecord says so
		}
		var op Operation = &DataSetAside{Node: n.Name, Token: l.tokenOn(n), ExpectMemberID: n.Disk.MemberID}
		if n.Process.State != cluster.ProcessStopped {
			op = &MemberStop{Node: n.Name, ExpectToken: l.tokenOn(n), ExpectMemberID: n.Disk.MemberID}
		}
		if !l.failing(op) {
			return op, goOn
		}
	}
	return nil, goOn
}

// beganAbove reports whether what n has is of a later incarnation than what runs,
// though no record shows it: its mark is as far above all that was seen here as a
// restore begins above what was there before.
func (l *view) beganAbove(n *cluster.Node) bool {
	token := l.tokenOn(n)
	if token == "" || token == l.obs.Token || recordedToken(l.obs, token) {
		return false
	}
	high := l.obs.Revision
	for i := range l.obs.Nodes {
		if o := &l.obs.Nodes[i]; o.Name != n.Name && l.tokenOn(o) == l.obs.Token {
			high = max(high, o.Revision)
		}
	}
	return n.Revision-high >= aboveAll/2
}

// superseded reports whether data of incarnation token is known not to be of a
// later incarnation than the present one: what runs may itself be what was left
// behind by a restore, out of reach of the store in which that is recorded.
func superseded(obs cluster.Observation, token cluster.Token) bool {
	if token == "" || token == obs.Token || obs.Store.Reachable {
		return true
	}
	number := func(token cluster.Token) int {
		for _, i := range obs.Store.Incarnations {
			if i.Token == token {
				return i.Number
			}
		}
		return 0
	}
	return number(token) > 0 && number(token) < number(obs.Token)
}

// fits reports whether what n holds belongs to the cluster, or is nothing. It
// holds where a current member's data is in the wrong place: that is never
// touched.
func (l *view) fits(n *cluster.Node) bool {
	m, owner := l.memberOf(n), l.ownerOf(n)
	assigned := n.Assigned != nil && n.Assigned.Token == l.obs.Token
	// A member that has only just begun may not know its id yet.
	young := m != nil && n.Disk.State == cluster.DiskData && n.Disk.Token == l.obs.Token && n.Disk.MemberID == 0
	switch {
	case m != nil && m.Healthy && owner == nil && !young:
		l.hold(NameConflict, "member %s (%s) is healthy, but %s does not have its data", m.Name, m.ID, n.Name)
		return true
	case n.Assigned == nil && n.Disk.State == cluster.DiskEmpty:
		return true
	case owner != nil && (m == nil || m.ID != owner.ID):
		l.hold(NameConflict, "%s has the data of member %s (%s)", n.Name, owner.Name, owner.ID)
		return true
	case (owner != nil || young) && assigned:
		return true
	case (owner != nil || young) && m.Name != "":
		l.hold(DiskUnreadable, "%s has the data of a member but no state file for it: restore its file state or "+
			"etcdadm.json; or, to have the member replaced, stop its daemon, move the directory data away and start it", n.Name)
		return true
	case m == nil:
		return false
	case n.Disk.State == cluster.DiskEmpty:
		// A learner whose first start was cut off begins again.
		return assigned && (m.Name != "" || n.Process.State != cluster.ProcessStopped)
	}
	return false
}

// ownerOf returns the current member whose data is on n's disk, by id: the
// machine may have changed its name since. It is nil for none.
func (l *view) ownerOf(n *cluster.Node) *cluster.Member {
	if n.Disk.State != cluster.DiskData || n.Disk.Token != l.obs.Token || n.Disk.MemberID == 0 {
		return nil
	}
	for i := range l.obs.Members {
		if l.obs.Members[i].ID == n.Disk.MemberID {
			return &l.obs.Members[i]
		}
	}
	return nil
}

// tokenOn returns the incarnation that n holds, on its disk or in its state
// file.
func (l *view) tokenOn(n *cluster.Node) cluster.Token {
	if n.Disk.Token != "" {
		return n.Disk.Token
	}
	if n.Assigned != nil {
		return n.Assigned.Token
	}
	return ""
}

// ruleRestart starts members that an operation had stopped.
func ruleRestart(l *view) (Operation, verdict) {
	for _, m := range l.obs.Members {
		n := l.nodeOf(m)
		if n == nil || !l.runsMember(n, m) {
			continue
		}
		if op := l.restart(n); op != nil && !l.failing(op) {
			return op, goOn
		}
	}
	return nil, goOn
}
