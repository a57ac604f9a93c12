package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/internal/backoff"
)

// A view is an observation with what several rules read off it.
type view struct {
	spec   cluster.Spec
	policy cluster.Policy
	obs    cluster.Observation
	holds  []Hold

	voters   []cluster.Member
	learners []cluster.Member
	// healthy counts the voters by which the cluster runs, serving those among them
	// on which a step may rely: the others did not serve this time.
	healthy, serving int
	// asked is how many voters the spec asks for, also where nobody is removed for it.
	asked int
	// frozen says that no membership change may begin: one is unfinished, or
	// its ground is not firm.
	frozen bool
	// sealing says that clients are kept away for a restore that is under way.
	sealing bool
	// unrecorded is the one voter that may be removed even so: its node does not
	// answer, and the lease voters' record does not have it yet.
	unrecorded cluster.NodeName
}

func newView(spec cluster.Spec, obs cluster.Observation) *view {
	l := &view{spec: spec, policy: spec.Policy.WithDefaults(), obs: obs, asked: spec.MemberCount}
	for _, m := range obs.Members {
		if m.Learner {
			l.learners = append(l.learners, m)
			continue
		}
		l.voters = append(l.voters, m)
		if m.Healthy {
			l.healthy++
		}
		if l.serves(m) {
			l.serving++
		}
	}
	if (obs.Store.SpecMissing || !obs.Store.Reachable) && spec.MemberCount > 0 {
		// What is remembered may be an old spec: it is no reason to remove anyone.
		l.spec.MemberCount = max(spec.MemberCount, len(l.voters))
	}
	return l
}

// serves reports whether a step may rely on m.
func (l *view) serves(m cluster.Member) bool { return m.Healthy && m.Condition.Serves() }

func (l *view) hold(r Reason, format string, args ...any) {
	l.holds = append(l.holds, Hold{Reason: r, Text: fmt.Sprintf(format, args...)})
}

// node returns the node of that name, nil if it is not known.
func (l *view) node(name cluster.NodeName) *cluster.Node {
	for i := range l.obs.Nodes {
		if l.obs.Nodes[i].Name == name {
			return &l.obs.Nodes[i]
		}
	}
	return nil
}

// nodeOf returns the node that hosts m. A member that has never started has
// no name yet; its peer URLs are then its only stable identity.
func (l *view) nodeOf(m cluster.Member) *cluster.Node {
	if m.Name != "" {
		return l.node(m.Name)
	}
	for i := range l.obs.Nodes {
		if overlap(l.obs.Nodes[i].URLs.Peer, m.PeerURLs) {
			return &l.obs.Nodes[i]
		}
	}
	return nil
}

// memberOf returns the member that n hosts, nil for none.
func (l *view) memberOf(n *cluster.Node) *cluster.Member {
	for i := range l.obs.Members {
		if h := l.nodeOf(l.obs.Members[i]); h != nil && h.Name == n.Name {
			return &l.obs.Members[i]
		}
	}
	return nil
}

// runsMember reports whether n's disk and assignment can be those of m.
func (l *view) runsMember(n *cluster.Node, m cluster.Member) bool {
	if n.Assigned == nil || n.Assigned.Token != l.obs.Token {
		return false
	}
	return n.Disk.MemberID == 0 || n.Disk.MemberID == m.ID
}

// version returns the version that the cluster runs: that of most members'
// nodes, and of the older one where two are even. Without a running member it
// is the spec's.
func (l *view) version() etcdversion.Version {
	var best etcdversion.Version
	bestCount := 0
	for _, m := range l.obs.Members {
		n := l.nodeOf(m)
		if n == nil || n.Assigned == nil {
			continue
		}
		v, count := n.Assigned.Version, 0
		for _, o := range l.obs.Members {
			if h := l.nodeOf(o); h != nil && h.Assigned != nil && h.Assigned.Version == v {
				count++
			}
		}
		if count > bestCount || count == bestCount && v.Compare(best) < 0 {
			best, bestCount = v, count
		}
	}
	if bestCount == 0 {
		return l.spec.EtcdVersion
	}
	return best
}

// joinVersion returns the version that a new member on n would run: that of the cluster, or,
// where n has no binaries of it, the patch of it that the spec asks for. A machine may come
// with that one alone (decision 0177).
func (l *view) joinVersion(n *cluster.Node) etcdversion.Version {
	version, want := l.version(), l.spec.EtcdVersion
	if !slices.Contains(n.Versions, version) && minorOf(want) == minorOf(version) && slices.Contains(n.Versions, want) {
		return want
	}
	return version
}

// free returns the nodes that could take a new member now, by name, and says
// for the others that come close why not.
func (l *view) free() (free []*cluster.Node, why []string) {
	for i := range l.obs.Nodes {
		n := &l.obs.Nodes[i]
		if l.memberOf(n) != nil {
			continue
		}
		lack := l.lacks(n, l.joinVersion(n))
		if lack == "" && (n.Disk.State != cluster.DiskEmpty || n.Assigned != nil) {
			lack = fmt.Sprintf("%s still holds old data", n.Name)
		}
		if lack != "" {
			why = append(why, lack)
			continue
		}
		free = append(free, n)
	}
	return free, why
}

// lacks says why n could not take a new member, whatever data is in the way;
// empty where it could.
func (l *view) lacks(n *cluster.Node, version etcdversion.Version) string {
	switch {
	case !n.Reachable:
		return fmt.Sprintf("%s does not answer", n.Name)
	case n.Conflict != "":
		return fmt.Sprintf("%s is the name of two daemons", n.Name)
	case n.Disk.State == cluster.DiskUnreadable:
		return fmt.Sprintf("%s has an unreadable disk", n.Name)
	case !slices.Contains(n.Versions, version):
		return fmt.Sprintf("%s has no binaries of etcd %s%s", n.Name, version, l.broken(n.Name, version))
	case n.FactsAge > maxFactsAge:
		return fmt.Sprintf("%s has not been able to read its disk for %s", n.Name, n.FactsAge.Round(time.Second))
	case n.Storage.Bad() || n.Storage.State == cluster.StorageSlow:
		return fmt.Sprintf("%s has a bad disk: %s", n.Name, n.Storage)
	case l.tooSmall(n):
		return l.lacksRoom(n)
	case l.retryDelay(n) > 0:
		return fmt.Sprintf("%s has repeatedly failed to join, and is retried in %s", n.Name,
			l.retryDelay(n).Round(time.Second))
	}
	return ""
}

// room is how much space a new member needs: the database is received beside
// the one that is there, and grows meanwhile; and the log makes files of 64 MiB
// beforehand.
func (l *view) room() int64 {
	var size int64
	for _, m := range l.obs.Members {
		size = max(size, m.DBSize)
	}
	return 2*size + 3*64<<20
}

// lacksRoom says how much space a node needs, and what of it can be deleted.
func (l *view) lacksRoom(n *cluster.Node) string {
	text := fmt.Sprintf("%s has %d MiB free and needs %d MiB", n.Name, n.FreeBytes>>20, l.room()>>20)
	var aside int64
	for _, s := range n.SetAside {
		aside += s.Bytes
	}
	if aside > 0 {
		text += fmt.Sprintf("; its data-trashcan has %d MiB of earlier data", aside>>20)
	}
	return text
}

func (l *view) tooSmall(n *cluster.Node) bool { return n.FreeBytes > 0 && n.FreeBytes < l.room() }

// retryDelay returns for how long no new member is tried on n: it has set data of
// this incarnation aside several times in the last hours. A member that left and
// came back once, or twice, is not held up.
func (l *view) retryDelay(n *cluster.Node) time.Duration {
	failed, last := 0, time.Time{}
	for _, s := range n.SetAside {
		if s.Of(l.obs.Token) && l.age(s.At) < 6*time.Hour {
			failed, last = failed+1, s.At
		}
	}
	if failed < 3 {
		return 0
	}
	return max(0, backoff.Doubled(time.Minute, time.Hour, failed-2)-l.age(last))
}

// newest returns the newest backup of this cluster that does not lie in the future and is not
// known to be damaged, nil for none.
func (l *view) newest() *cluster.Backup {
	own := l.obs.Store.Own()
	for i := range own {
		b := &own[i]
		if b.At.Sub(l.obs.At) <= l.policy.MaxClockSkew && !b.Damaged {
			return b
		}
	}
	return nil
}

// age returns how old t is at this observation; a time in the future has age zero.
func (l *view) age(t time.Time) time.Duration { return max(0, l.obs.At.Sub(t)) }

// covered makes sure that a fresh backup exists before a risky step: it
// returns the operation that takes one, or a hold where none can be taken, or
// ok. Without a store there is none.
func (l *view) covered(step string) (op Operation, ok bool) {
	if l.policy.Unbacked {
		return nil, true
	}
	if b := l.newest(); l.obs.Store.BackupsKnown && b != nil && l.age(b.At) <= l.policy.BackupFresh {
		return nil, true
	}
	if !l.storeReady("a backup before " + step) {
		return nil, false
	}
	if l.obs.BackingUp != "" {
		l.hold(NotYet, "a backup before %s is under way: %s", step, l.obs.BackingUp)
		return nil, false
	}
	return l.take("before-" + step), false
}

// take returns the operation that takes a backup, or holds where no node can.
// A node on which it has just failed is asked again only if no other is there.
func (l *view) take(reason string) Operation {
	sources, apart := l.sources()
	switch {
	case len(sources) > 0:
	case len(apart) > 0:
		l.hold(StoreNotShared, "the backup %s would not arrive in this store: the records of %s are not in it", reason,
			names(apart))
		return nil
	default:
		l.hold(NodeUnreachable, "cannot take the backup %s: no reachable node has a healthy, up-to-date voter and a "+
			"correct clock", reason)
		return nil
	}
	for _, node := range sources {
		if op := (&BackupTake{Node: node, Reason: reason}); l.failure(op) == nil {
			return op
		}
	}
	return &BackupTake{Node: sources[0], Reason: reason}
}

// storeReady reports whether the store can be used, with a hold if not.
func (l *view) storeReady(what string) bool {
	if l.obs.Store.Reachable && l.obs.Store.BackupsKnown {
		return true
	}
	if !l.obs.Store.Reachable {
		l.hold(StoreUnreachable, "%s needs the control store: %s", what, l.storeProblem())
	} else if problem := l.obs.Store.BackupsProblem; problem != "" {
		l.hold(StoreUnreachable, "%s waits for the list of backups: %s", what, problem)
	} else {
		l.hold(StoreUnreachable, "%s waits for the list of backups", what)
	}
	return false
}

// storeProblem says why the store did not answer.
func (l *view) storeProblem() string {
	for _, g := range l.obs.Gaps {
		if g.Source == "store" {
			return g.Text
		}
	}
	return "no answer"
}

// sources returns the nodes to read a backup from, best first: healthy
// followers, then the leader, which should keep its disk and network for
// writes, then those with a slow or full disk. A node writes its own time into the backup's name, so its clock
// must be right. It writes to the store that it has: apart are those whose store is
// not the observer's, where nobody would find the backup.
func (l *view) sources() (sources, apart []cluster.NodeName) {
	var leader, slow []cluster.NodeName
	for _, m := range l.voters {
		n := l.nodeOf(m)
		switch {
		case !l.serves(m) || m.Behind(l.applied()) || n == nil || !n.Reachable || n.ClockSkew.Abs() > l.policy.MaxClockSkew:
		case n.Storage.Bad() || n.Process.NoReport != nil:
		case !n.Published && n.Name != l.obs.Observer:
			apart = append(apart, n.Name)
		case m.Condition == cluster.Slow || l.short(m):
			slow = append(slow, n.Name)
		case m.ID == l.obs.Leader:
			leader = append(leader, n.Name)
		default:
			sources = append(sources, n.Name)
		}
	}
	return slices.Concat(sources, leader, slow), apart
}

// overlap reports whether two lists of peer URLs have an address in common.
func overlap(a, b []string) bool { return cluster.SharePeerURL(a, b) }

func names[T ~string](list []T) string {
	words := make([]string, len(list))
	for i, s := range list {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

// initialMembers returns the member list in the form of etcd's initial cluster, by
// name.
func (l *view) initialMembers() []cluster.InitialMember {
	var initialMembers []cluster.InitialMember
	for _, m := range l.obs.Members {
		name := m.Name
		if n := l.nodeOf(m); name == "" && n != nil {
			name = n.Name
		}
		if name != "" {
			initialMembers = append(initialMembers, cluster.InitialMember{Name: name, PeerURLs: m.PeerURLs})
		}
	}
	sortInitialMembers(initialMembers)
	return initialMembers
}

func sortInitialMembers(initialMembers []cluster.InitialMember) {
	slices.SortFunc(initialMembers, func(a, b cluster.InitialMember) int {
		return strings.Compare(string(a.Name), string(b.Name))
	})
}
