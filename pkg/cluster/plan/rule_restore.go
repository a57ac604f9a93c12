package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// aboveAll is how far above the highest revision that was ever seen a restored
// cluster begins: marks are written now and then, and what runs goes on while
// the restore is prepared. At ten thousand writes a second it is a day.
const aboveAll cluster.Revision = 1_000_000_000

// restoreRoom is the space that a restore needs besides the snapshot and the
// database made of it: the write-ahead log begins with 64 MiB.
const restoreRoom = 256 << 20

// ruleRestore carries out a queued restore.
//
// Everything that can fail happens beside what runs: each voter to be fetches
// the backup and has its data directory made. Then the incarnation's record
// decides, once and for good, and the nodes change over. A node that dies in
// between finds in the record what to do; until the record is there, the
// restore can be given up without a trace.
func ruleRestore(l *view) (Operation, verdict) {
	again := l.recordAgain()
	if again != nil && !l.failing(again) {
		return again, goOn
	}
	if rec := l.restored(); rec != nil && again == nil { // by an older record nobody changes over
		if op := l.changeOver(*rec); op != nil {
			return op, stop
		}
		if op := l.followSpec(*rec); op != nil {
			return op, goOn
		}
	}
	request, decided := l.restoreRequest()
	if op := l.discardStaged(request); op != nil {
		return op, goOn
	}
	if request == nil && decided != nil {
		return l.closeRestored(*decided), goOn
	}
	if request == nil {
		return nil, goOn
	}
	if request.Sealed {
		return l.restoreSealed(*request)
	}
	return l.restore(*request)
}

// request returns the oldest request of a kind, nil for none.
func (l *view) request(kind cluster.RequestKind) *cluster.Request {
	for i := range l.obs.Store.Requests {
		if r := &l.obs.Store.Requests[i]; r.Kind == kind {
			return r
		}
	}
	return nil
}

// restoreRequest returns the oldest restore that is yet to be decided on, and
// the oldest that is decided. A restored cluster that does not come up must not
// keep another restore from being begun.
func (l *view) restoreRequest() (open, decided *cluster.Request) {
	for i := range l.obs.Store.Requests {
		r := &l.obs.Store.Requests[i]
		switch {
		case r.Kind != cluster.RequestRestore:
		case open == nil && !l.carriedOut(r.Name):
			open = r
		case decided == nil && l.carriedOut(r.Name):
			decided = r
		}
	}
	return open, decided
}

// restored returns the newest incarnation's record if it began with restored
// data.
func (l *view) restored() *cluster.Incarnation {
	if rec := l.record(); rec != nil && rec.Restored != nil {
		return rec
	}
	return nil
}

// carriedOut reports whether an incarnation was restored for the request.
func (l *view) carriedOut(name string) bool {
	return slices.ContainsFunc(l.obs.Store.Incarnations, func(i cluster.Incarnation) bool {
		return i.Restored != nil && i.Restored.Request == name
	})
}

// changeOver takes the nodes from the incarnation that they run to the restored
// one. Those of its voters come first, and of them those that run nothing: with
// a majority of them the restored incarnation has lease voters, whose lease is
// needed for the rest.
func (l *view) changeOver(rec cluster.Incarnation) Operation {
	var ranks [4][]Operation
	for i := range l.obs.Nodes {
		n := &l.obs.Nodes[i]
		staged := n.Staged != nil && n.Staged.Token == rec.Token
		old := n.Assigned != nil && n.Assigned.Token != rec.Token
		if !n.Reachable || n.Conflict != "" || !staged && !old {
			continue
		}
		op := &RestoreSwitch{Node: n.Name, Token: rec.Token}
		if old {
			op.ExpectToken = n.Assigned.Token
		}
		switch {
		case staged && initialMemberGone(l.obs, *n, rec.Token):
			// It came too late: what it staged must not be taken for a place.
			ranks[2] = append(ranks[2], &RestoreDiscard{Node: n.Name, Token: rec.Token})
		case staged && !n.Staged.Ready:
			// All were ready when the record was written: it has lost that, and was reported again
			// by who could not see the record.
			l.hold(Restoring, "%s", progress(n))
		case !staged:
			// Nothing of its own replaces what it runs: what does must be there.
			if l.obs.Ended(n.Assigned.Token) && l.obs.Token == rec.Token && l.obs.Leader != 0 {
				ranks[3] = append(ranks[3], op)
			}
		case old:
			ranks[1] = append(ranks[1], op)
		default:
			ranks[0] = append(ranks[0], op)
		}
	}
	for _, ops := range ranks {
		for _, op := range ops {
			if !l.failing(op) {
				return op
			}
		}
	}
	return nil
}

// followSpec writes what a restore asked for into the spec, before the restored
// cluster is grown or shrunk to something else.
func (l *view) followSpec(rec cluster.Incarnation) Operation {
	_, r := l.restoreRequest()
	if r == nil || r.Name != rec.Restored.Request || !l.obs.Store.Reachable || l.obs.Store.SpecMissing {
		return nil
	}
	if r.Sealed {
		return nil // it was asked for in the spec, where an operator may have changed it since
	}
	if len(l.obs.LeaseVoters.Names) == 0 {
		return nil // nobody can have the lease that it needs; the rest says what is missing
	}
	count, version := wanted(l.spec, *r)
	if count == l.spec.MemberCount && version == l.spec.EtcdVersion {
		return nil
	}
	op := &SpecWrite{MemberCount: count, EtcdVersion: version, Request: r.Name}
	if l.failing(op) {
		return nil
	}
	return op
}

// wanted returns what a restored cluster is to be.
func wanted(spec cluster.Spec, r cluster.Request) (count int, version etcdversion.Version) {
	count, version = spec.MemberCount, spec.EtcdVersion
	if r.MemberCount != 0 {
		count = r.MemberCount
	}
	if !r.EtcdVersion.IsZero() {
		version = r.EtcdVersion
	}
	return count, version
}

// closeRestored ends a request whose cluster serves its clients.
func (l *view) closeRestored(r cluster.Request) Operation {
	rec := l.record()
	if i := l.uncommittedFor(r.Name); i != nil {
		return &RequestClose{
			Name: r.Name, Outcome: OutcomeRefused,
			Reason: fmt.Sprintf("incarnation %d, which was to begin with it, never began: no node has the restored data; "+
				"request the restore again", i.Number),
		}
	}
	if rec == nil || rec.Restored == nil || rec.Restored.Request != r.Name {
		return &RequestClose{Name: r.Name, Outcome: OutcomeDone, Reason: "it was already carried out"}
	}
	if l.obs.Token != rec.Token || l.obs.Leader == 0 || l.healthy < cluster.Quorum(len(l.voters)) {
		l.hold(Restoring, "the cluster restored from %s is coming up: %s", rec.Restored.Backup, l.describe())
		return nil
	}
	for _, m := range l.voters {
		if n := l.nodeOf(m); n != nil && n.Reachable && l.quarantined(m) && !l.surplus(m) {
			l.hold(Restoring, "%s is to be opened to clients", n.Name)
			return nil
		}
	}
	return &RequestClose{
		Name: r.Name, Outcome: OutcomeDone,
		Reason: fmt.Sprintf("restored %s on %s, from revision %d on", rec.Restored.Backup, voterNames(rec.Voters),
			rec.Restored.Revision),
	}
}

// discardStaged deletes what is staged for a restore that nobody asks for any
// more.
func (l *view) discardStaged(request *cluster.Request) Operation {
	if !l.obs.Store.Reachable {
		return nil
	}
	for _, n := range l.obs.Nodes {
		s := n.Staged
		if !n.Reachable || s == nil || request != nil && s.Request == request.Name {
			continue
		}
		if recordedToken(l.obs, s.Token) && !initialMemberGone(l.obs, n, s.Token) {
			continue
		}
		if rec := newestRecord(l.obs); rec != nil && rec.Token == s.Token && l.obs.Uncommitted(*rec) {
			continue // it proves that this never began, until there is a newer record
		}
		if !recordedToken(l.obs, s.Token) && l.decidedElsewhere(n.Name, s.Token) {
			continue
		}
		if op := (&RestoreDiscard{Node: n.Name, Token: s.Token}); !l.failing(op) {
			return op
		}
	}
	return nil
}

// decidedElsewhere holds, and reports true, where another store may have the record of
// what n has staged: a node has changed over to it, or one that has staged it too does
// not share this store.
func (l *view) decidedElsewhere(name cluster.NodeName, token cluster.Token) bool {
	if by := l.changedOver(token); by != "" {
		l.hold(StoreNotShared, "%s has staged incarnation %s, to which %s has switched by a record that is not in "+
			"this store", name, token, by)
		return true
	}
	for _, n := range l.obs.Nodes {
		if n.Reachable && n.Staged != nil && n.Staged.Token == token && !n.Published && n.Name != l.obs.Observer &&
			len(l.policy.StaticNodes) == 0 {
			l.hold(StoreNotShared, "%s has staged incarnation %s, which no request in this store asks for, and the record of %s, "+
				"which has staged it too, is not in it", name, token, n.Name)
			return true
		}
	}
	return false
}

// changedOver returns a node that has changed over to an incarnation, which no node does
// before its record is written; empty for none.
func (l *view) changedOver(token cluster.Token) cluster.NodeName {
	for _, n := range l.obs.Nodes {
		if changedTo(n, token) {
			return n.Name
		}
	}
	return ""
}

// changedTo reports whether a node has changed over to an incarnation.
func changedTo(n cluster.Node, token cluster.Token) bool {
	promised := n.Prepared != nil && n.Prepared.Token == token && n.Prepared.Backup != ""
	return promised || n.Disk.Token == token || n.Assigned != nil && n.Assigned.Token == token
}

// initialMemberGone reports whether what n has staged for incarnation token is of no more
// use: the node runs a member of it already, or came too late, and its place was
// given to another; or the incarnation can never begin.
func initialMemberGone(obs cluster.Observation, n cluster.Node, token cluster.Token) bool {
	if n.Assigned != nil && n.Assigned.Token == token {
		return true
	}
	if rec := newestRecord(obs); rec != nil && rec.Token == token && obs.Uncommitted(*rec) {
		return true // so many others have lost it that it never begins
	}
	if obs.Token != token || obs.Leader == 0 {
		return newestRecord(obs) != nil && newestRecord(obs).Token != token
	}
	return !slices.ContainsFunc(obs.Members, func(m cluster.Member) bool {
		return !m.Learner && len(m.ClientURLs) == 0 && (m.Name == n.Name || overlap(m.PeerURLs, n.URLs.Peer))
	})
}

func recordedToken(obs cluster.Observation, token cluster.Token) bool {
	return slices.ContainsFunc(obs.Store.Incarnations, func(i cluster.Incarnation) bool { return i.Token == token })
}

// restore takes the next step towards the record of the restored incarnation.
// As soon as a node has something staged nothing else is begun.
func (l *view) restore(r cluster.Request) (Operation, verdict) {
	if reason := l.refusal(r); reason != "" {
		return &RequestClose{Name: r.Name, Outcome: OutcomeRefused, Reason: reason}, goOn
	}
	if src := l.obs.Store.Source; src == nil || src.Request != r.Name || !l.storeReady("the restore of "+r.Backup) {
		l.hold(Restoring, "what the store says about %s is not known yet", r.Backup)
		return nil, goOn
	}
	if problem := cmp.Or(l.obs.Store.RecordsProblem, l.obs.Store.RevisionProblem); problem != "" {
		l.hold(RecordInvalid, "%s", problem)
		return nil, goOn
	}
	if l.obs.Leader != 0 && !recordedToken(l.obs, l.obs.Token) {
		// The store may be a copy from before what runs began, or have been emptied, and
		// the record of a restore ends only what has one. The request may be as old as the
		// copy. The record of what runs, which comes next, settles which is older.
		l.hold(Restoring, "the store has no record of the running incarnation %s: it is written first", l.obs.Token)
		return nil, goOn
	}
	if !l.roomAbove() {
		return nil, goOn
	}
	staged := l.stagedFor(r)
	if missing := l.unreachableElsewhere(r); len(l.obs.LeaseVoters.Names) == 0 && len(missing) > 0 {
		lost := slices.Sorted(slices.Values(slices.Concat(r.Lost, missing)))
		l.hold(WaitingForNodes, "%s did not answer and may run the cluster; if all that do not are gone for good, request the "+
			"restore with%s, or remove them with etcd-manager-ctl --backup-store=STORE forget-node NAME", names(missing),
			lostFlag(lost))
		return nil, goOn
	}
	if staged == nil {
		if op, ok := l.lastBackup(r); !ok {
			return op, verdict(op != nil)
		}
	}
	if staged == nil {
		if staged = l.chooseStage(r); staged == nil {
			return nil, goOn
		}
	}
	// What runs is maintained, and stays as it is.
	l.frozen = true
	return l.stage(r, *staged), goOn
}
