package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// lastBackup takes a backup of what still runs. ok says that there is one, or
// that none can be had or is wanted.
func (l *view) lastBackup(r cluster.Request) (op Operation, ok bool) {
	if r.Sealed {
		return nil, true // what is restored is what runs
	}
	running := len(l.voters) > 0 && l.obs.Leader != 0 && l.healthy >= cluster.Quorum(len(l.voters))
	if r.SkipBackup || !running || l.backupSince(r) != nil {
		return nil, true
	}
	return l.takeFor(r, "before-restore"), false
}

// backupSince returns a backup that was begun after a request, nil for none.
// Names show seconds: one of the same second may be older.
func (l *view) backupSince(r cluster.Request) *cluster.Backup {
	if b := l.newest(); b != nil && b.At.After(r.At) {
		return b
	}
	return nil
}

// takeFor takes a backup for a request, and holds for the rest of the second
// in which that was made.
func (l *view) takeFor(r cluster.Request, reason string) Operation {
	switch {
	case l.obs.BackingUp != "":
		l.hold(NotYet, "a backup is under way: %s", l.obs.BackingUp)
		return nil
	case l.obs.At.Sub(r.At) < time.Second && l.obs.At.Sub(r.At) > -time.Minute:
		l.hold(NotYet, "the backup %s will be taken in the next second", reason)
		return nil
	}
	return l.take(reason)
}

// stagedFor returns what the nodes have staged for a request, nil where nothing
// is or it no longer fits.
func (l *view) stagedFor(r cluster.Request) *cluster.Staged {
	count, version := wanted(l.spec, r)
	for _, n := range l.obs.Nodes {
		s := n.Staged
		if !n.Reachable || s == nil || s.Request != r.Name || s.Backup != r.Backup || s.Version != version {
			continue
		}
		if s.Revision <= l.obs.HighWater() || s.Revision > l.highestBegin() {
			continue
		}
		if len(s.Voters) != count && !oneShortOf(len(s.Voters), count) {
			continue
		}
		if l.spoiled(r, *s) && l.enough(r, count, version) {
			continue
		}
		fits := !slices.ContainsFunc(s.Voters, func(initialMember cluster.InitialMember) bool {
			v := l.node(initialMember.Name)
			return v == nil || !v.Reachable || v.Storage.Bad() || v.Conflict != "" ||
				!slices.Equal(v.URLs.Peer, initialMember.PeerURLs)
		})
		if fits {
			return s
		}
	}
	return nil
}

// spoiled reports whether one of the voters of what is staged cannot restore it.
func (l *view) spoiled(r cluster.Request, s cluster.Staged) bool {
	return slices.ContainsFunc(s.Voters, func(initialMember cluster.InitialMember) bool {
		n := l.node(initialMember.Name)
		return n != nil && l.cannotStage(r, n) != ""
	})
}

// enough reports whether there are nodes to restore on without those that
// cannot.
func (l *view) enough(r cluster.Request, count int, version etcdversion.Version) bool {
	able := 0
	for i := range l.obs.Nodes {
		if n := &l.obs.Nodes[i]; l.unableToRestore(r, n, version) == nil {
			able++
		}
	}
	return able >= count || oneShortOf(able, count)
}

// cannotStage says why a node does not restore what others can: it refuses, or it
// still fails, after the time that a learner has, where all others that were asked with
// it are ready. Empty is for one that may.
func (l *view) cannotStage(r cluster.Request, n *cluster.Node) string {
	s := n.Staged
	if !n.Reachable || s == nil || s.Request != r.Name || s.Ready || s.Problem == "" {
		return ""
	}
	if s.Refused {
		return s.Problem
	}
	if l.age(r.At) < l.policy.LearnerTimeout {
		return ""
	}
	others := 0
	for _, initialMember := range s.Voters {
		v := l.node(initialMember.Name)
		if initialMember.Name == n.Name {
			continue
		}
		if v == nil || v.Staged == nil || v.Staged.Request != r.Name || !v.Staged.Ready {
			return ""
		}
		others++
	}
	if others == 0 {
		return ""
	}
	return s.Problem
}

// chooseStage decides on which nodes to restore, or holds.
func (l *view) chooseStage(r cluster.Request) *cluster.Staged {
	count, version := wanted(l.spec, r)
	able := l.ableToRestore(r, version)
	if len(able) < count && !(oneShortOf(len(able), count) && l.age(r.At) >= l.policy.BootstrapGrace) {
		l.hold(WaitingForNodes, "restoring %d members, %d nodes are ready; a smaller cluster is restored with --member-count",
			count, len(able))
		return nil
	}
	s := &cluster.Staged{Request: r.Name, Backup: r.Backup, Token: l.obs.Nonce, Version: version,
		Revision: l.obs.HighWater() + aboveAll}
	for _, n := range able[:min(count, len(able))] {
		s.Voters = append(s.Voters, cluster.InitialMember{Name: n.Name, PeerURLs: n.URLs.Peer})
	}
	sortInitialMembers(s.Voters)
	s.Token = l.triedToken(*s)
	return s
}

// ableToRestore returns the nodes that could be voters of a restored cluster:
// those that run voters now first, the others by name.
func (l *view) ableToRestore(r cluster.Request, version etcdversion.Version) []*cluster.Node {
	var voters, others []*cluster.Node
	for i := range l.obs.Nodes {
		n := &l.obs.Nodes[i]
		switch why := l.unableToRestore(r, n, version); {
		case why != nil && why.Text != "":
			if !slices.Contains(l.holds, *why) {
				l.holds = append(l.holds, *why)
			}
		case why != nil:
		case slices.Contains(l.obs.LeaseVoters.Names, n.Name):
			voters = append(voters, n)
		default:
			others = append(others, n)
		}
	}
	return append(voters, others...)
}

// unableToRestore says why a node cannot be a voter of a restored cluster, nil if
// it can. The text is empty where the operator knows.
func (l *view) unableToRestore(r cluster.Request, n *cluster.Node, version etcdversion.Version) *Hold {
	room := 2*l.snapshotSize(r) + restoreRoom
	because := func(rule Reason, form string, args ...any) *Hold { return &Hold{rule, fmt.Sprintf(form, args...)} }
	switch {
	case slices.Contains(r.Lost, n.Name):
		return &Hold{}
	case !n.Reachable:
		return because(NodeUnreachable, "%s does not answer", n.Name)
	case l.awaitsSwitch(n):
		return because(Restoring, "%s has yet to switch to incarnation %s, which was restored before", n.Name,
			n.Staged.Token)
	case n.Storage.Bad():
		return because(DiskHung, "%s", l.diskTrouble(n))
	case n.Conflict != "" || n.Disk.State == cluster.DiskUnreadable:
		return because(DiskUnreadable, "%s cannot take a restore: %s%s", n.Name, n.Conflict, n.Disk.Problem)
	case !slices.Contains(n.Versions, version):
		return because(BinaryMissing, "%s has no binaries of etcd %s%s", n.Name, version, l.broken(n.Name, version))
	case l.cannotRaise(n, version) != "":
		return because(BinaryMissing, "%s", l.cannotRaise(n, version))
	case !n.Published && n.Name != l.obs.Observer && len(l.policy.StaticNodes) == 0:
		return because(StoreNotShared, "the record of %s is not in this store", n.Name)
	case n.FreeBytes > 0 && n.FreeBytes < room && (n.Staged == nil || n.Staged.Request != r.Name):
		return because(DiskFull, "%s has %d MiB free, the restore needs %d MiB", n.Name, n.FreeBytes>>20, room>>20)
	}
	if why := l.cannotStage(r, n); why != "" {
		return because(Restoring, "%s cannot restore %s: %s", n.Name, r.Backup, why)
	}
	if why := l.refusesOrders(r, n); why != "" {
		return because(Restoring, "%s", why)
	}
	return nil
}

// awaitsSwitch reports whether n has yet to change over to what it has staged: a
// later restore must not take the place of that.
func (l *view) awaitsSwitch(n *cluster.Node) bool {
	return n.Staged != nil && recordedToken(l.obs, n.Staged.Token) && !initialMemberGone(l.obs, *n, n.Staged.Token)
}

// compressed is how many times smaller a backup is than its snapshot, at most,
// where nothing says how large that is. Kubernetes' data is five times smaller.
const compressed = 8

func (l *view) snapshotSize(r cluster.Request) int64 {
	if src := l.obs.Store.Source; src != nil && src.Request == r.Name && src.Size > 0 {
		return src.Size
	}
	if r.Sealed {
		var size int64
		for _, m := range l.obs.Members {
			size = max(size, m.DBSize)
		}
		return size
	}
	for _, b := range l.obs.Store.Backups {
		if b.Name == r.Backup {
			return compressed * b.Size
		}
	}
	return 0
}

// oneShortOf is as view.oneShort, for a count that a request asks for.
func oneShortOf(n, count int) bool {
	return n == count-1 && n > 0 && cluster.Quorum(n) == cluster.Quorum(count)
}

// stage has the voters restore, waits for all of them, and then decides.
func (l *view) stage(r cluster.Request, want cluster.Staged) Operation {
	ready := 0
	var failed Operation
	for _, initialMember := range want.Voters {
		n := l.node(initialMember.Name)
		if l.awaitsSwitch(n) {
			l.hold(Restoring, "%s has yet to switch to incarnation %s, which was restored before", n.Name, n.Staged.Token)
			continue
		}
		if n.Staged == nil || n.Staged.Token != want.Token {
			op := stageOn(n.Name, r, want)
			if n.Staged != nil {
				op.Replaces = n.Staged.Token
			}
			if !l.failing(op) {
				return op
			}
			failed = op
			continue
		}
		if n.Staged.Ready {
			ready++
			continue
		}
		l.hold(Restoring, "%s", progress(n))
	}
	if ready < len(want.Voters) || failed != nil {
		return nil
	}
	// Also where there was none to be had, or no leader, when this began.
	if op, ok := l.lastBackup(r); !ok {
		return op
	}
	return &IncarnationCreate{
		Number: l.nextNumber(), Token: want.Token, Version: want.Version, Voters: want.Voters,
		Request: r.Name, Backup: r.Backup, Revision: want.Revision, Before: without(l.obs.LeaseVoters.Names, r.Lost),
	}
}

// progress says how far a node is with what it stages.
func progress(n *cluster.Node) string {
	s := n.Staged
	switch {
	case s.Problem != "":
		return fmt.Sprintf("%s cannot restore %s and will retry: %s", n.Name, s.Backup, s.Problem)
	case s.Total > 0 && s.Done < s.Total:
		return fmt.Sprintf("%s fetches %s: %d of %d MiB", n.Name, s.Backup, s.Done>>20, s.Total>>20)
	}
	return fmt.Sprintf("%s makes a data directory from %s", n.Name, s.Backup)
}
