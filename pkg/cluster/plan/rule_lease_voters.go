package plan

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// The order of a change of the voters and of the lease voters' record.
//
// Whatever nodes are lost: as long as etcd's voters have a majority left, the
// lease voters must have one too, or nobody could coordinate a cluster that serves.
// Voters and record cannot change in one step, so they differ by one name in
// between. Of n voters etcd can spare (n-1)/2, rounded down.
//
//   - n is even. A record with one name more has n+1 names and can spare n/2 of
//     them: all that etcd can spare, and the one that is no voter. One with a name
//     less has n-1 names and can spare n/2-1, as many as etcd.
//   - n is odd. A record with one name more can spare no more than etcd, so that
//     the loss of the one that is no voter comes on top. One with a name less can
//     spare one less than etcd.
//
// So the record may differ from the voters while their number is even, and only
// then: an even number of voters changes after the record, an odd one before it.

// ruleLeaseVoters keeps the lease voters' records in step with the voters. The
// record moves by one name at a time, so that the majorities of any two
// neighbouring records overlap.
//
// A node that has lost its record (etcdadm.json) has forgotten its votes, and
// grants nothing until it begins again from a record without it: it leaves the
// lease voters, takes the record, and comes back.
func ruleLeaseVoters(l *view) (Operation, verdict) {
	blank := l.blank()
	voters := without(l.voterNodes(), blank)
	have := l.leaseVoters()
	if len(have) == 0 {
		l.frozen = true
		return nil, goOn // nobody holds the lease of this incarnation, see ruleLeaseVotersLost
	}
	if l.ahead(have, voters) {
		voters = have
	}
	next := oneStep(have, voters)
	if slices.Equal(have, voters) && l.settled(voters) {
		if len(blank) > 0 {
			return l.rejoin(l.node(blank[0])), goOn
		}
		return nil, goOn
	}
	for _, added := range without(next, have) {
		// It became a voter, and went away or lost its state, or its disk hangs. To
		// record it would not succeed.
		why := ""
		if n := l.node(added); n == nil || !n.Reachable {
			why = "does not answer"
		} else if n.Storage.Bad() {
			why = "cannot write it to disk: " + n.Storage.String()
		} else if n.LeaseVoters.Token != l.obs.Token {
			why = "has no record of this incarnation"
		}
		if why != "" {
			l.hold(LeaseVotersDiffer, "%s is a voter but not recorded as a lease voter: its node %s", added, why)
			l.frozen, l.unrecorded = true, added
			return nil, goOn
		}
		if n, self := l.node(added), l.obs.Observer; slices.Contains(have, self) &&
			!slices.Contains(n.LeaseVoters.Names, self) {
			// Its record is an old one, by which it refuses who coordinates now.
			l.frozen = true
			return l.rejoin(n), goOn
		}
	}
	for _, list := range [][]cluster.NodeName{have, next} {
		if unreachable := l.unreachable(list); len(list)-len(unreachable) < cluster.Quorum(len(list)) {
			l.hold(LeaseVotersDiffer, "to record %s, %d of the nodes %s have to answer; unreachable: %s", names(next),
				cluster.Quorum(len(list)), names(list), names(unreachable))
			l.frozen = true
			return nil, goOn
		}
	}
	return &LeaseVotersWrite{Token: l.obs.Token, Names: next, Expect: have}, goOn
}

// leaseVoters returns the names in the record of the present incarnation.
func (l *view) leaseVoters() []cluster.NodeName {
	if l.obs.LeaseVoters.Token != l.obs.Token {
		return nil
	}
	return l.obs.LeaseVoters.Names
}

// ahead reports whether the record differs from the voters by a change that is
// about to be made: an even number of voters changes after the record.
func (l *view) ahead(have, voters []cluster.NodeName) bool {
	if len(l.voters)%2 == 1 || len(have) == 0 {
		return false
	}
	more, fewer := without(have, voters), without(voters, have)
	switch {
	case len(more) == 1 && len(fewer) == 0:
		return slices.ContainsFunc(l.learners, func(m cluster.Member) bool {
			n := l.nodeOf(m)
			return n != nil && n.Name == more[0]
		})
	case len(more) == 0 && len(fewer) == 1:
		return l.leaving() == fewer[0]
	}
	return false
}

// leaving returns the node of the voter whose removal is the next step, empty
// for none. Who is only late counts as serving: the removal waits for it, and the
// record would move back and forth with every late answer.
func (l *view) leaving() cluster.NodeName {
	obs := l.obs
	obs.Members = slices.Clone(obs.Members)
	for i := range obs.Members {
		if m := &obs.Members[i]; m.Condition == cluster.Late {
			m.Condition = cluster.Serving
		}
	}
	calm := newView(l.spec, obs)
	for _, rule := range []func(*view) (Operation, verdict){ruleShrink, ruleReplace} {
		trial := *l
		trial.obs, trial.voters, trial.serving = obs, calm.voters, calm.serving
		trial.holds, trial.frozen = nil, len(l.learners) > 0
		switch op, _ := rule(&trial); op := op.(type) {
		case *Remove:
			return l.hostOf(op.ID)
		case *QuarantineSet: // it goes next
			return op.Node
		case nil:
		default:
			return ""
		}
	}
	return ""
}

// hostOf returns the name of the node that hosts a voter, empty where no node
// is known and it has no name.
func (l *view) hostOf(id cluster.MemberID) cluster.NodeName {
	for _, m := range l.voters {
		if m.ID != id {
			continue
		}
		if n := l.nodeOf(m); n != nil {
			return n.Name
		}
		return m.Name
	}
	return ""
}

// recordAhead returns the write that must come before an even number of voters
// changes: the record with one name more, or one less. It is nil where the
// record has changed already, or is to change later.
func (l *view) recordAhead(name cluster.NodeName, votes bool) Operation {
	have := l.leaseVoters()
	if len(l.voters)%2 == 1 || len(have) == 0 || slices.Contains(have, name) == votes {
		return nil
	}
	next := without(have, []cluster.NodeName{name})
	if votes {
		next = append(next, name)
		slices.Sort(next)
	}
	return &LeaseVotersWrite{Token: l.obs.Token, Names: next, Expect: have}
}

// removeVoter returns the next step towards the removal of a voter that etcd
// can spare.
func (l *view) removeVoter(m cluster.Member) Operation {
	if op := l.recordAhead(l.hostOf(m.ID), false); op != nil {
		return op
	}
	return &Remove{ID: m.ID, ExpectName: m.Name, ExpectVoters: len(l.voters)}
}

// joinLeaseVoters has a learner's node take the record before it becomes a voter:
// one without it could not be recorded.
func (l *view) joinLeaseVoters(n *cluster.Node, m cluster.Member) (Operation, verdict) {
	if n.Disk.State != cluster.DiskData || n.Disk.Token != l.obs.Token || !l.runsMember(n, m) {
		l.hold(LearnerBehind, "%s has not taken the lease voters' record", n.Name)
		return nil, goOn
	}
	return l.rejoin(n), goOn
}

// rejoin has a node that runs its member take the lease voters' record.
func (l *view) rejoin(n *cluster.Node) Operation {
	return &MemberStart{Node: n.Name, Token: l.obs.Token, Mode: StartRestart, Version: n.Assigned.Version}
}

// blank returns the nodes of voters that answer and have no lease voters' record of
// this incarnation. Where all are blank there never was one.
func (l *view) blank() []cluster.NodeName {
	var blank []cluster.NodeName
	for _, m := range l.voters {
		n := l.nodeOf(m)
		if n != nil && n.Reachable && l.runsMember(n, m) && n.Disk.Token == l.obs.Token &&
			n.Process.State == cluster.ProcessRunning && n.LeaseVoters.Token != l.obs.Token {
			blank = append(blank, n.Name)
		}
	}
	slices.Sort(blank)
	if len(blank) == len(l.voters) || l.obs.LeaseVoters.Token != l.obs.Token {
		return nil
	}
	return blank
}

// without returns what list has and other has not.
func without(list, other []cluster.NodeName) []cluster.NodeName {
	return slices.DeleteFunc(slices.Clone(list), func(n cluster.NodeName) bool { return slices.Contains(other, n) })
}

// settled reports whether a majority of the voters' nodes have the record that
// they are the lease voters.
func (l *view) settled(voters []cluster.NodeName) bool {
	count := 0
	for _, name := range voters {
		if n := l.node(name); n != nil && n.Reachable && n.LeaseVoters.Token == l.obs.Token &&
			slices.Equal(n.LeaseVoters.Names, voters) {
			count++
		}
	}
	return count >= cluster.Quorum(len(voters))
}

// unreachable returns those of the named nodes that do not answer, or could write
// nothing down: their disks hang.
func (l *view) unreachable(list []cluster.NodeName) []cluster.NodeName {
	var unreachable []cluster.NodeName
	for _, name := range list {
		if n := l.node(name); n == nil || !n.Reachable || n.Storage.Bad() {
			unreachable = append(unreachable, name)
		}
	}
	return unreachable
}

// voterNodes returns the names of the nodes that host voters, sorted.
func (l *view) voterNodes() []cluster.NodeName {
	var list []cluster.NodeName
	for _, m := range l.voters {
		if n := l.nodeOf(m); n != nil {
			list = append(list, n.Name)
		} else if m.Name != "" {
			list = append(list, m.Name)
		}
	}
	slices.Sort(list)
	return list
}

// oneStep returns the list that is one name nearer to want than have is.
func oneStep(have, want []cluster.NodeName) []cluster.NodeName {
	if slices.Equal(have, want) {
		return want
	}
	next := slices.Clone(have)
	for _, name := range want {
		if !slices.Contains(have, name) {
			next = append(next, name)
			slices.Sort(next)
			return next
		}
	}
	return slices.DeleteFunc(next, func() func(cluster.NodeName) bool {
		done := false
		return func(name cluster.NodeName) bool {
			if done || slices.Contains(want, name) {
				return false
			}
			done = true
			return true
		}
	}())
}
