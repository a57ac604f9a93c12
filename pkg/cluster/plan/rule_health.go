package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// ruleHealth reports members that are neither well nor gone, and has one that
// is well lead instead of one that is not. What is hung or stuck for good is
// taken out by [ruleReplace].
func ruleHealth(l *view) (Operation, verdict) {
	l.unreported()
	l.unlinked()
	var op Operation
	for _, m := range l.obs.Members {
		n := l.nodeOf(m)
		switch m.Condition {
		case cluster.Hung:
			if n != nil {
				l.holdHung(n)
			}
		case cluster.Slow:
			l.hold(DiskSlow, "%s: %s", l.called(m), m.Why)
		case cluster.Late, cluster.Stuck:
			l.hold(NotServing, "%s: %s", l.called(m), m.Why)
		case cluster.Unstarted:
			if neverStarted(m) {
				l.hold(NeverStarted, "voter %s was added by somebody else and has never started; it is removed after the grace "+
					"time, if the others are a majority", l.called(m))
			}
		}
		if l.short(m) {
			l.holdShort(n)
		}
		if m.ID == l.obs.Leader && l.diskRank(m) > 0 {
			op = l.moveFromSlow(m)
		}
	}
	return op, goOn
}

// moveFromSlow returns the operation that has a voter lead whose disk is good, nil
// where there is none: moving on from one slow or full disk to the next is no gain.
func (l *view) moveFromSlow(leader cluster.Member) Operation {
	to := l.nextLeader(leader)
	for _, m := range l.voters {
		if to != "" && m.Name == to && l.diskRank(m) == 0 {
			if l.starves(m) && !l.starves(leader) && leader.Healthy {
				return nil // the learner would be cut off: see [view.feed]
			}
			return &MoveLeader{To: to}
		}
	}
	return nil
}

// moveLeader has another voter lead, before the leader is removed.
func (l *view) moveLeader(leader cluster.Member) Operation {
	to := l.nextLeader(leader)
	if to == "" {
		l.hold(QuorumMargin, "%s leads, and no other voter that serves could take over", l.called(leader))
		return nil
	}
	return &MoveLeader{To: to}
}

// holdHung says once that n's disk hangs.
func (l *view) holdHung(n *cluster.Node) {
	h := Hold{Reason: DiskHung, Text: l.diskTrouble(n)}
	if !slices.Contains(l.holds, h) {
		l.holds = append(l.holds, h)
	}
}

// diskTrouble names the machine, the disk, and what to do.
func (l *view) diskTrouble(n *cluster.Node) string {
	return fmt.Sprintf("%s (%s): %s; check the disk (dmesg, the cloud's console) and restart the machine, or start a "+
		"spare node to take its place", n.Name, n.Address, n.Storage)
}

// unreported reports why etcds that run gave their daemons no report.
func (l *view) unreported() {
	for i := range l.obs.Nodes {
		n := &l.obs.Nodes[i]
		why := n.Process.NoReport
		if no := n.Process.NoRoot; n.Reachable && why == nil && no != nil {
			l.hold(AccessDenied, "%s: %s", n.Name, noRoot(*no))
			continue
		}
		switch {
		case !n.Reachable || why == nil:
		case why.Cause == cluster.CauseAuth && why.User == "":
			l.hold(AccessDenied, "%s: authentication is on, and the daemon has no certificate by which etcd could recognise it; "+
				"no backups are taken there. Turn it off (etcdctl auth disable), or use TLS", n.Name)
		case why.Cause == cluster.CauseAuth:
			l.hold(AccessDenied, "%s: authentication is on, and user %s has no permission; no backups are taken there. "+
				"Run, as etcd's user root: etcdctl --user=root user add %s --no-password; "+
				"etcdctl --user=root user grant-role %s root", n.Name, why.User, why.User, why.User)
		default:
			l.hold(NoReport, "%s: its etcd runs but does not report its state: %s", n.Name, why.Text)
		}
	}
}

// noRoot says what a daemon may not do in etcd, and how it may.
func noRoot(no cluster.NoRoot) string {
	state := "authentication is on"
	if !no.On {
		state = "authentication is off, and can be turned on: etcd has the user root. From then on"
	}
	if no.User == "" {
		return state + " the daemon has no certificate by which etcd could know it, and can take no backups and change no " +
			"members. Leave it off, or use TLS"
	}
	if no.On {
		state += ", and"
	}
	return fmt.Sprintf("%s user %s, who lacks the role root, can take no backups and change no members. "+
		"Run, as etcd's user root: etcdctl --user=root user add %s --no-password; "+
		"etcdctl --user=root user grant-role %s root", state, no.User, no.User, no.User)
}

// waitsForUnstarted holds, and reports true, where voters that somebody added
// and that never started are all that is missing for a majority. etcd cannot
// remove them: that takes their votes.
func (l *view) waitsForUnstarted() bool {
	started, running := 0, 0
	var missing []string
	for _, m := range l.voters {
		if neverStarted(m) {
			missing = append(missing, l.called(m))
			continue
		}
		started++
		if n := l.nodeOf(m); n != nil && n.Reachable && n.Process.State == cluster.ProcessRunning && !n.Storage.Bad() {
			running++
		}
	}
	if len(missing) == 0 || running < cluster.Quorum(started) {
		return false
	}
	l.hold(NeverStarted, "%d of %d voters are healthy, a majority is %d, and these were added by somebody else and "+
		"have never started: %s. Start an etcd there, "+
		"with --initial-cluster-state=existing and that peer URL; without a majority etcd removes no member", l.healthy,
		len(l.voters), cluster.Quorum(len(l.voters)), strings.Join(missing, ", "))
	return true
}
