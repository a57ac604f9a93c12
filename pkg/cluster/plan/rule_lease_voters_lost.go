package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// ruleLeaseVotersLost makes the voters of a cluster that serves its lease voters where
// no majority of the recorded ones can grant a lease, and an operator has declared
// those that do not answer to be gone for good.
//
// Voters and lease voters change in an order that never leads here (see
// [ruleLeaseVoters]). What may is lost state files beside lost machines, and a
// cluster that another release left half-way. It is not done without a person's
// word: a machine that does not answer may still coordinate, on its own side of a
// partition, with lease voters that do not answer either.
//
// With that word it is safe. Each known node answers or is gone, so that whoever
// could grant on the old record, or on one that is newer than all that can be
// seen, is among those that answer, and has reported; without those that are gone and
// those that have lost their record, they are no majority. From the adoption on a
// node grants on no older record, and the new one needs a majority of the
// voters: a second recovery shares a node with it. That these are the voters is
// what etcd's quorum reports to each node that adopts.
func ruleLeaseVotersLost(l *view) (Operation, verdict) {
	r := l.request(cluster.RequestLeaseVoters)
	if l.obs.Leader == 0 || len(l.voters) == 0 || l.healthy < cluster.Quorum(len(l.voters)) {
		return nil, goOn
	}
	have := l.leaseVoters()
	able := l.granting(have)
	if len(have) > 0 && len(able) >= cluster.Quorum(len(have)) {
		if r == nil || !l.obs.Store.Reachable {
			return nil, goOn
		}
		return &RequestClose{Name: r.Name, Outcome: OutcomeDone,
			Reason: "a majority of the lease voters " + names(have) + " can grant the coordinator's lease"}, goOn
	}
	if first := l.beforeRecovery(have); first != "" {
		l.hold(LeaseVotersLost, "%s; %s", l.whyLost(have), first)
		return nil, goOn
	}
	if r = l.declaredLost(); r == nil {
		when := "if the nodes that do not answer are gone for good"
		if len(l.absent(have)) == 0 {
			when = "to make the voters the lease voters"
		}
		l.hold(LeaseVotersLost, "%s; %s: etcd-manager-ctl --backup-store=STORE recover-lease-voters%s", l.whyLost(have), when,
			lostFlag(l.absent(have)))
		return nil, goOn
	}
	return l.recoverLeaseVoters(*r, have), goOn
}

// beforeRecovery says what a person has to do before the lease voters can be
// recovered, empty for nothing.
func (l *view) beforeRecovery(have []cluster.NodeName) string {
	recorded := l.recorded(have)
	if hung := without(recorded, l.granting(have)); len(have) > 0 && len(recorded) >= cluster.Quorum(len(have)) {
		// It grants again when its disk does, and no word makes it forget what it has
		// granted.
		return fmt.Sprintf("restart the machine of %s first, or turn it off if its disk is gone for good", names(hung))
	}
	for _, m := range l.voters {
		if neverStarted(m) {
			return fmt.Sprintf("voter %s has never started: start its etcd, or remove it with etcdctl member remove %s; a "+
				"lease voter needs a node", l.called(m), m.ID)
		}
	}
	if len(l.healthyHosts()) < cluster.Quorum(len(l.voters)) {
		return "start the daemons of the voters' nodes"
	}
	return ""
}

// recorded returns those lease voters that answer and have a record.
func (l *view) recorded(have []cluster.NodeName) []cluster.NodeName {
	return slices.DeleteFunc(slices.Clone(have), func(name cluster.NodeName) bool {
		n := l.node(name)
		return n == nil || !n.Reachable || n.LeaseVoters.Token != l.obs.Token || len(n.LeaseVoters.Names) == 0
	})
}

// granting returns those of them whose disk takes the record of a grant.
func (l *view) granting(have []cluster.NodeName) []cluster.NodeName {
	return slices.DeleteFunc(l.recorded(have), func(name cluster.NodeName) bool { return l.node(name).Storage.Bad() })
}

// answering returns those in list that answer.
func (l *view) answering(list []cluster.NodeName) []cluster.NodeName {
	return slices.DeleteFunc(slices.Clone(list), func(name cluster.NodeName) bool {
		n := l.node(name)
		return n == nil || !n.Reachable
	})
}

// absent returns the known nodes, and the lease voters, that do not answer. One whose
// disk hangs does: it is not to be declared lost.
func (l *view) absent(have []cluster.NodeName) []cluster.NodeName {
	list := without(have, l.answering(have))
	for _, n := range l.obs.Nodes {
		if !n.Reachable && !slices.Contains(list, n.Name) {
			list = append(list, n.Name)
		}
	}
	slices.Sort(list)
	return list
}

func (l *view) whyLost(have []cluster.NodeName) string {
	if len(have) == 0 {
		return "etcd serves, but no node that answers has the lease voters' record of incarnation " + string(l.obs.Token)
	}
	var why []string
	for _, name := range without(have, l.granting(have)) {
		if n := l.node(name); n == nil || !n.Reachable {
			why = append(why, fmt.Sprintf("%s does not answer", name))
		} else if slices.Contains(l.recorded(have), name) {
			why = append(why, fmt.Sprintf("the disk of %s takes no writes", name))
		} else {
			why = append(why, fmt.Sprintf("%s has lost its record", name))
		}
	}
	return fmt.Sprintf("etcd serves, but no majority of the lease voters %s can grant the coordinator's lease: %s",
		names(have), strings.Join(why, ", "))
}

func lostFlag(lost []cluster.NodeName) string {
	if len(lost) == 0 {
		return ""
	}
	return " --lost=" + strings.ReplaceAll(names(lost), ", ", ",")
}

// declaredLost returns the oldest request that declares nodes to be gone for
// good: one for just that, or else a restore that does.
func (l *view) declaredLost() *cluster.Request {
	if r := l.request(cluster.RequestLeaseVoters); r != nil {
		return r
	}
	if r, _ := l.restoreRequest(); r != nil && len(r.Lost) > 0 {
		return r
	}
	return nil
}

func (l *view) recoverLeaseVoters(r cluster.Request, have []cluster.NodeName) Operation {
	absent := l.absent(have)
	if missing := without(absent, r.Lost); len(missing) > 0 {
		l.hold(LeaseVotersLost, "%s; no answer from %s, which --lost did not name: etcd-manager-ctl --backup-store=STORE "+
			"delete-command %s, then recover-lease-voters%s",
			l.whyLost(have), names(missing), r.Name, lostFlag(absent))
		return nil
	}
	if back := l.answering(r.Lost); len(back) > 0 {
		l.hold(LeaseVotersLost, "%s %s declared to be gone for good and answers: etcd-manager-ctl --backup-store=STORE "+
			"delete-command %s", names(back), are(back), r.Name)
		return nil
	}
	voters := l.voterNodes()
	lost := slices.Concat(r.Lost, without(have, l.recorded(have)))
	slices.Sort(lost)
	lost = slices.Compact(lost)
	for _, n := range l.healthyHosts() {
		if n.LeaseVoters.Token == l.obs.Token && slices.Equal(n.LeaseVoters.Names, voters) {
			continue
		}
		op := &LeaseVotersRecover{
			Node: n.Name, Token: l.obs.Token, Term: l.termAbove(), Names: voters, Expect: have, Lost: lost,
		}
		if !l.failing(op) {
			return op
		}
	}
	return nil
}

// healthyHosts returns the nodes of healthy voters that answer and run them.
func (l *view) healthyHosts() []*cluster.Node {
	var list []*cluster.Node
	for _, m := range l.voters {
		if n := l.nodeOf(m); m.Healthy && n != nil && n.Reachable && n.Conflict == "" && l.runsMember(n, m) {
			list = append(list, n)
		}
	}
	return list
}

func are[T any](list []T) string {
	if len(list) == 1 {
		return "is"
	}
	return "are"
}

// roomForTerms is by how much the term of a recovered record is above all that
// were seen, at least: daemons that cannot get the lease go on to ask for it, each
// time in the next term.
const roomForTerms = 100

// termAbove returns a term for a recovered record. It is the same in many observations,
// so that an order that fails is known when it comes again. What no other node could
// follow counts for nothing: see [lease.InReach].
func (l *view) termAbove() cluster.Term {
	terms := []cluster.Term{l.obs.LeaseVoters.Term}
	for _, n := range l.obs.Nodes {
		terms = append(terms, n.Lease.Term, n.LeaseVoters.Term)
	}
	slices.Sort(terms)
	var high cluster.Term
	for _, t := range terms {
		if lease.InReach(high, t) {
			high = t
		}
	}
	return (high/roomForTerms + 2) * roomForTerms
}
