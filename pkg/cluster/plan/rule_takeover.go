package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// ruleTakeOver takes a cluster over that the existing etcd-manager has run: etcd serves,
// each node has the other tool's files, and no node has lease voters, so that nobody can
// hold a lease.
//
// The voters become the lease voters. Nodes that began with different lists might be
// two majorities, and the files differ. So one incarnation record decides, created in
// the store only if there is none, from the member list as the quorum reports it; and
// each voter's node begins with the names in that record. It is not written, and no
// node adopts it, before all that could contradict it is there: each voter's node and
// each other known node answers, none of the voters' nodes has a record of its own, and
// no daemon of the existing tool is heard, which could change the voters meanwhile.
//
// The marker in the store is from the other tool's time, and older than the record. The
// first coordinator writes it again: see [view.begins].
func ruleTakeOver(l *view) (Operation, verdict) {
	if !l.unclaimed() {
		return l.besideExisting()
	}
	if l.declaredLost() != nil {
		return nil, goOn
	}
	rec := l.takenOver()
	if !l.readyToTakeOver(rec) {
		return l.backUpAlone(), stop
	}
	if rec == nil {
		return &IncarnationCreate{
			Number: l.nextNumber(), Token: l.obs.Token, Version: l.version(), Voters: l.startedVoters(),
		}, stop
	}
	for _, n := range l.healthyHosts() {
		if n.LeaseVoters.Token == l.obs.Token {
			continue
		}
		op := &LeaseVotersAdopt{Node: n.Name, Token: l.obs.Token, Names: cluster.InitialMemberNames(rec.Voters)}
		if !l.failing(op) {
			return op, stop
		}
	}
	return nil, stop
}

// unclaimed reports whether etcd serves a cluster in which nobody can have held the
// coordinator's lease: there are no lease voters, or too few nodes have adopted those
// of its record. One whose records were lost after a coordinator had been at work is
// none: see [ruleLeaseVotersLost].
func (l *view) unclaimed() bool {
	if l.obs.Leader == 0 || len(l.voters) == 0 || l.healthy < cluster.Quorum(len(l.voters)) {
		return false
	}
	recorded := slices.ContainsFunc(l.obs.Store.Incarnations, func(i cluster.Incarnation) bool {
		return i.Token == l.obs.Token
	})
	if recorded && l.takenOver() == nil {
		return false
	}
	have := l.leaseVoters()
	if len(have) == 0 {
		return true
	}
	rec := l.takenOver()
	return rec != nil && initial(l.obs.LeaseVoters, *rec) && len(l.granting(have)) < cluster.Quorum(len(have))
}

// takenOver returns the record by which the cluster is being taken over, nil for none.
func (l *view) takenOver() *cluster.Incarnation {
	if rec := newestRecord(l.obs); rec != nil && rec.Token == l.obs.Token && l.begins(*rec) {
		return rec
	}
	return nil
}

// begins reports whether no coordinator has been at work since rec was written. From then
// on nobody begins with its voters: the lease voters may have changed, one by one.
func (l *view) begins(rec cluster.Incarnation) bool {
	created := l.obs.Store.Created
	return rec.Restored == nil && !created.Equal(cluster.MarkerUnknown) && (created.IsZero() || created.Before(rec.At))
}

// initial reports whether e is what a lease voter of rec begins with.
func initial(e cluster.LeaseVoters, rec cluster.Incarnation) bool {
	names := cluster.InitialMemberNames(rec.Voters)
	slices.Sort(names)
	return e.Token == rec.Token && e.Term == 0 && e.Seq == 0 && slices.Equal(e.Names, names)
}

// startedVoters returns the voters that have started, in the form of etcd's initial
// cluster. One that never has is of no node; it has promised nothing.
func (l *view) startedVoters() []cluster.InitialMember {
	var list []cluster.InitialMember
	for _, m := range l.voters {
		if !neverStarted(m) {
			list = append(list, cluster.InitialMember{Name: m.Name, PeerURLs: m.PeerURLs})
		}
	}
	sortInitialMembers(list)
	return list
}

// backUpAlone takes the periodic backup where nobody can hold a lease yet and the existing
// tool takes none: each daemon by itself, of its own member. That of the first source takes it
// when it is due, that of each further one an interval later, if there still is none; and all
// of them another interval later where a voter's node does not answer. A daemon of the
// existing tool may be there, and take it, where one without a member does not.
func (l *view) backUpAlone() Operation {
	if !l.obs.Store.Reachable || !l.obs.Store.BackupsKnown || l.obs.BackingUp != "" {
		return nil
	}
	sources, _ := l.sources()
	late := slices.Index(sources, l.obs.Observer)
	if late < 0 {
		return nil
	}
	if slices.ContainsFunc(l.voters, func(m cluster.Member) bool {
		n := l.nodeOf(m)
		return !neverStarted(m) && (n == nil || !n.Reachable)
	}) {
		late++
	}
	last := l.obs.Since.Add(-l.policy.BackupInterval)
	if b := l.newest(); b != nil {
		last = b.At
	}
	if l.age(last) < time.Duration(late+1)*l.policy.BackupInterval {
		return nil
	}
	if op := (&BackupTake{Node: l.obs.Observer, Reason: "interval"}); !l.failing(op) {
		return op
	}
	return nil
}

// readyToTakeOver reports whether all is there that a takeover needs, with a hold if not.
func (l *view) readyToTakeOver(rec *cluster.Incarnation) bool {
	before := len(l.holds)
	switch {
	case !l.obs.Store.Reachable:
		l.hold(StoreUnreachable, "the cluster cannot be taken over without the store: %s", l.storeProblem())
	case l.obs.Store.RecordsProblem != "":
		l.hold(RecordInvalid, "%s", l.obs.Store.RecordsProblem)
	case rec == nil && l.obs.Store.Created.Equal(cluster.MarkerUnknown):
		l.hold(RecordInvalid, "it is unknown whether the store has the marker etcd-cluster-created: it has too many "+
			"objects in its directory control; delete those that are not of the cluster")
	}
	l.holdExisting("the cluster is taken over when it is gone")
	var missing, listening []string
	for _, m := range l.voters {
		if why := l.unfitVoter(m); why != "" {
			missing = append(missing, why)
		} else if n := l.nodeOf(m); n != nil && !n.Neighbours.Listened {
			listening = append(listening, string(n.Name))
		}
	}
	missing = append(missing, l.inTheWay()...)
	started := l.startedVoters()
	if serving := len(l.healthyHosts()); len(missing) == 0 && serving < cluster.Quorum(len(started)) {
		missing = append(missing, fmt.Sprintf("%d of %d members are healthy", serving, len(started)))
	}
	if rec != nil && voterNames(rec.Voters) != voterNames(started) {
		missing = append(missing, fmt.Sprintf("the voters are %s, and by incarnation record %d they are %s: to make the "+
			"voters the lease voters: etcd-manager-ctl --backup-store=STORE recover-lease-voters", voterNames(started),
			rec.Number, voterNames(rec.Voters)))
	}
	if len(missing) > 0 {
		l.hold(TakingOver, "etcd serves, and no etcd-manager of this kind has coordinated incarnation %s yet; %s%s",
			l.obs.Token, strings.Join(missing, "; "), l.goneForGood())
	} else if len(listening) > 0 {
		l.hold(TakingOver, "%s %s still listening for daemons of the existing etcd-manager", strings.Join(listening, ", "),
			are(listening))
	}
	return len(l.holds) == before
}

// unfitVoter says what keeps a voter's node from taking part, empty for nothing. One
// whose disk is empty may: its member is replaced afterwards.
func (l *view) unfitVoter(m cluster.Member) string {
	if neverStarted(m) {
		return ""
	}
	switch n := l.nodeOf(m); {
	case n == nil:
		return fmt.Sprintf("this etcd-manager does not run on the machine of member %s", m.Name)
	case !n.Reachable:
		return fmt.Sprintf("%s does not answer", n.Name)
	case n.Conflict != "":
		return fmt.Sprintf("%s is the name of two daemons", n.Name)
	case n.Storage.Bad():
		return fmt.Sprintf("the disk of %s takes no writes", n.Name)
	case !n.Published && n.Name != l.obs.Observer:
		return fmt.Sprintf("the record of %s is not in this store", n.Name)
	case n.LeaseVoters.Token == l.obs.Token && !(l.takenOver() != nil && initial(n.LeaseVoters, *l.takenOver())):
		return fmt.Sprintf("%s has another record of lease voters", n.Name)
	case n.Disk.State == cluster.DiskEmpty && n.Assigned == nil:
		return ""
	case n.Disk.State != cluster.DiskData || n.Disk.Token != l.obs.Token || n.Disk.MemberID != m.ID ||
		!l.runsMember(n, m):
		return fmt.Sprintf("%s does not have the data of member %s", n.Name, m.ID)
	}
	return ""
}

// inTheWay says what else may contradict a takeover: nodes about which nothing is known, or
// which are to run an incarnation without a record. One of which the store has a record
// has no quorum: all nodes answer, and it would be the present one.
func (l *view) inTheWay() (why []string) {
	for i := range l.obs.Nodes {
		n := &l.obs.Nodes[i]
		if m := l.memberOf(n); m == nil || m.Learner {
			if !n.Reachable {
				why = append(why, fmt.Sprintf("%s does not answer", n.Name))
			}
		}
		for _, address := range n.Neighbours.Unreachable {
			if text := "no daemon answers at " + address; n.Reachable && !slices.Contains(why, text) {
				why = append(why, text)
			}
		}
		if a := n.Assigned; n.Reachable && a != nil && a.Token != l.obs.Token && !recordedToken(l.obs, a.Token) {
			why = append(why, fmt.Sprintf("%s is to run incarnation %s, of which the store has no record", n.Name, a.Token))
		}
	}
	return why
}

// goneForGood says what to do about nodes that will not come back.
func (l *view) goneForGood() string {
	absent := l.absent(nil)
	unknown := slices.ContainsFunc(l.voters, func(m cluster.Member) bool {
		return l.nodeOf(m) == nil && !neverStarted(m)
	}) ||
		slices.ContainsFunc(l.obs.Nodes, func(n cluster.Node) bool {
			return n.Reachable && len(n.Neighbours.Unreachable) > 0
		})
	if len(absent) == 0 && !unknown {
		return ""
	}
	return "; if what does not answer is gone for good: etcd-manager-ctl --backup-store=STORE recover-lease-voters" +
		lostFlag(absent)
}

// besideExisting keeps a cluster as it is while a daemon of the existing tool may act: it
// is backed up, and what the store lacks is written. What an operator has asked for in
// the store waits too: the other daemon reads the same requests.
func (l *view) besideExisting() (Operation, verdict) {
	if !l.holdExisting("no member is changed while it may act") {
		return nil, goOn
	}
	if rec := newestRecord(l.obs); l.obs.Leader == 0 && rec != nil && rec.Restored != nil {
		return nil, goOn // what ran before has ended
	}
	for _, rule := range []func(*view) (Operation, verdict){
		ruleLeaseVotersLost, ruleQuorum, ruleHealth, ruleRecord, ruleQuarantine, ruleRequests, ruleBackup,
	} {
		if op, v := rule(l); op != nil || v == stop {
			return op, stop
		}
	}
	return nil, stop
}

// holdExisting holds where a daemon of the existing tool may act.
func (l *view) holdExisting(then string) bool {
	by := map[string][]string{}
	for _, n := range l.obs.Nodes {
		if n.Reachable {
			for _, heard := range n.Neighbours.Existing {
				by[heard] = append(by[heard], string(n.Name))
			}
		}
	}
	var list []string
	for _, heard := range slices.Sorted(maps.Keys(by)) {
		list = append(list, fmt.Sprintf("%s (heard by %s)", heard, strings.Join(by[heard], ", ")))
	}
	if len(list) > 0 {
		l.frozen = true
		l.hold(ExistingDaemon, "the existing etcd-manager runs on %s: %s", strings.Join(list, ", "), then)
	}
	return len(list) > 0
}
