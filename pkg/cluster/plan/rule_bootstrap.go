package plan

import (
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// ruleBootstrap brings the first members into being, or finishes a bootstrap
// that was cut short.
func ruleBootstrap(l *view) (Operation, verdict) {
	begun := len(l.obs.Members) > 0 ||
		slices.ContainsFunc(l.obs.Nodes, func(n cluster.Node) bool { return n.Assigned != nil })
	if rec := l.record(); rec != nil && l.obs.Store.RecordsProblem == "" {
		op, waiting := l.finishBootstrap(*rec)
		if op != nil {
			return op, goOn
		}
		if waiting && !begun {
			return nil, stop
		}
	}
	if begun {
		return nil, goOn
	}
	return l.found(), stop
}

// record returns the newest record of an incarnation that ever began, nil for
// none.
func (l *view) record() *cluster.Incarnation { return l.obs.Present() }

// nextNumber returns the number of the next incarnation record.
func (l *view) nextNumber() int {
	if n := len(l.obs.Store.Incarnations); n > 0 {
		return l.obs.Store.Incarnations[n-1].Number + 1
	}
	return 1
}

// finishBootstrap starts the voters of rec that have promised and have not
// started. Their promise, on their own disk, is the proof that they have never
// voted: it goes when their data is there, and it goes with the disk. Waiting
// says that some have failed a moment ago.
func (l *view) finishBootstrap(rec cluster.Incarnation) (op Operation, waiting bool) {
	var ops []Operation
	nodes := l.notStarted(rec)
	for _, n := range nodes {
		// The promise was given to a candidate bootstrap that lost. It proves as
		// well as the right one that the node has never voted, if it reports that the right
		// one was given before: a node that has lost its disk may have promised anything
		// since. That of a restore proves nothing of the kind: the node was a member of
		// what the restore ended.
		if n.Prepared.Token != rec.Token && n.Prepared.Of(rec.Token) && n.Prepared.Backup == "" && n.Assigned == nil &&
			l.obs.Store.Created.IsZero() && rec.Restored == nil {
			ops = append(ops, &MemberPrepare{Node: n.Name, Token: rec.Token, Version: rec.Version, Voters: rec.Voters})
		}
	}
	for _, n := range nodes {
		if n.Prepared.Token == rec.Token {
			ops = append(ops, &MemberStart{
				Node: n.Name, Token: rec.Token, Mode: StartNew, Version: rec.Version, Peers: rec.Voters,
			})
		}
	}
	for _, op := range ops {
		if !l.failing(op) {
			return op, false
		}
	}
	return nil, len(ops) > 0
}

// notStarted returns the nodes that have a promise, have no data yet and are
// still bootstrap voters of rec.
func (l *view) notStarted(rec cluster.Incarnation) []*cluster.Node {
	var list []*cluster.Node
	for _, initialMember := range rec.Voters {
		n := l.node(initialMember.Name)
		switch {
		case n == nil || !n.Reachable || n.Conflict != "" || n.Prepared == nil:
		case n.Disk.State != cluster.DiskEmpty || n.Process.State != cluster.ProcessStopped || !l.stillInitialMember(n, rec):
		case !slices.Contains(n.Versions, rec.Version):
			l.holdMissing(n, rec.Version)
		default:
			list = append(list, n)
		}
	}
	return list
}

// stillInitialMember reports whether nothing says that n lost its place while it was
// away: an initial member that did not come in time is replaced like any other voter.
// As soon as the cluster has had a majority only a member list can show it; one
// that comes from a member without a leader may be old, so the lease voters have
// to agree.
func (l *view) stillInitialMember(n *cluster.Node, rec cluster.Incarnation) bool {
	if len(l.obs.Members) > 0 {
		m := l.memberOf(n)
		if l.obs.Token != rec.Token || m == nil || m.Learner || m.Healthy || len(m.ClientURLs) > 0 {
			return false
		}
	} else if !l.obs.Store.Created.IsZero() && rec.Restored == nil {
		// The marker is older than what was restored, and says nothing of it. A
		// restored voter that comes too late does no harm: its log is behind.
		return false
	}
	e := l.obs.LeaseVoters
	if e.Token != rec.Token || slices.Contains(e.Names, n.Name) {
		return true
	}
	// Of an even number of voters one leaves the record before the list: the
	// removal may have been cut short there. Where it was not, the list is old, and a
	// member that never voted, in a place that it lost, does no harm.
	voters := l.voterNodes()
	return len(l.obs.Members) > 0 && len(voters)%2 == 0 &&
		slices.Equal(without(voters, e.Names), []cluster.NodeName{n.Name}) && len(e.Names) == len(voters)-1
}

// found bootstraps the cluster, where nothing says that one existed.
func (l *view) found() Operation {
	if ev := l.evidence(); len(ev) > 0 {
		if waiting := l.unknown(); len(waiting) > 0 && len(waiting) == len(l.obs.Nodes) {
			// A person's command may ask from a wrong place, or with a wrong port: whether
			// anything is lost, only a machine can know.
			l.hold(WaitingForNodes, "no node answered (%s), but there is a cluster: %s", names(waiting), ev[0])
			return nil
		}
		for _, e := range ev {
			l.hold(ClusterLost, "%s", e)
		}
		return nil
	}
	if !l.storeReady("bootstrap") {
		return nil
	}
	if l.obs.Store.SpecMissing {
		// A spec that a node remembers is another cluster's: this one does not exist yet.
		l.hold(SpecMissing, "the control store%s has no spec", located(l.obs.Store))
		return nil
	}
	if waiting := l.unknown(); len(waiting) > 0 {
		l.hold(WaitingForNodes, "%s did not answer and may hold data", names(waiting))
		return nil
	}
	if l.policy.OnRequest && !asked(l.obs) {
		l.hold(NewCluster, "no node has data, nor the file please-create-new-cluster that asks for a new cluster")
		return nil
	}
	if !l.staticMajority() || !l.promisesHere() {
		return nil
	}
	initialMembers, token := l.promised()
	if initialMembers == nil {
		initialMembers, token = l.chooseInitialMembers(), l.obs.Nonce
	}
	if initialMembers == nil {
		return nil
	}
	if !l.storeDecides(initialMembers, token) {
		return nil
	}
	want := cluster.Prepared{Token: token, Version: l.spec.EtcdVersion, Voters: initialMembers}
	for _, initialMember := range initialMembers {
		if n := l.node(initialMember.Name); !n.Prepared.Same(want) {
			return &MemberPrepare{Node: n.Name, Token: token, Version: l.spec.EtcdVersion, Voters: initialMembers}
		}
	}
	return &IncarnationCreate{Number: 1, Token: token, Version: l.spec.EtcdVersion, Voters: initialMembers}
}

// asked reports whether a node's disk asks for a new cluster.
func asked(obs cluster.Observation) bool {
	return slices.ContainsFunc(obs.Nodes, func(n cluster.Node) bool { return n.Reachable && n.NewCluster })
}

// promisesHere reports whether each bootstrap that was promised is one that this store
// decides: who promised uses it, and it knows of all those with whom.
func (l *view) promisesHere() bool {
	if len(l.policy.StaticNodes) > 0 {
		return true // see storeDecides
	}
	for _, n := range l.obs.Nodes {
		switch {
		case n.Prepared == nil || !n.Reachable:
			continue
		case !n.Published && n.Name != l.obs.Observer:
			l.hold(StoreNotShared, "%s has promised the bootstrap %s, and the record of %s is not in this store: it may have "+
				"begun in another store", n.Name, n.Prepared.Token, n.Name)
			return false
		}
		for _, initialMember := range n.Prepared.Voters {
			if l.node(initialMember.Name) == nil {
				l.hold(StoreNotShared, "%s has promised the bootstrap %s with %s, which this store does not know: it may have "+
					"begun in another store; start the missing nodes, or, if no etcd runs, delete the data directory of %s to drop "+
					"the promise", n.Name, n.Prepared.Token, initialMember.Name, n.Name)
				return false
			}
		}
	}
	return true
}

// storeDecides reports whether this bootstrap and one that is decided on in another
// store cannot both go on. Unless every listed node is known to use this store,
// the list has to decide: the initial members are a majority of it, so that those of
// another bootstrap share a node with them, and a promise that a node has given
// stands, because a record in another store may have been made of it.
func (l *view) storeDecides(initialMembers []cluster.InitialMember, token cluster.Token) bool {
	list := l.policy.StaticNodes
	apart := without(list, l.sharing())
	if len(apart) == 0 {
		return true
	}
	listed := 0
	for _, initialMember := range initialMembers {
		if slices.Contains(list, initialMember.Name) {
			listed++
		}
		if p := l.node(initialMember.Name).Prepared; p != nil && p.Token != token {
			l.hold(StoreNotShared, "%s has promised the bootstrap %s, and %s may have a store of its own in which that was "+
				"decided; start the missing nodes, or, if no etcd runs, delete the data directory of %s to drop the promise",
				initialMember.Name, p.Token, names(apart), initialMember.Name)
			return false
		}
	}
	if need := cluster.Quorum(len(list)); listed < need {
		l.hold(StoreNotShared, "%s may have a store of its own: until that is known, %d of the listed nodes have "+
			"to be initial members, and %d are", names(apart), need, listed)
		return false
	}
	return true
}

// sharing returns the nodes that answer and use this store.
func (l *view) sharing() []cluster.NodeName {
	var list []cluster.NodeName
	for _, n := range l.obs.Nodes {
		if n.Reachable && (n.Published || n.Name == l.obs.Observer) {
			list = append(list, n.Name)
		}
	}
	return list
}

// evidence lists what says that a cluster existed.
func (l *view) evidence() []string {
	var ev []string
	for _, n := range l.obs.Nodes {
		switch {
		case n.Disk.State == cluster.DiskData:
			ev = append(ev, fmt.Sprintf("node %s has data of incarnation %s", n.Name, n.Disk.Token))
		case n.Disk.State == cluster.DiskUnreadable:
			ev = append(ev, fmt.Sprintf("node %s has an unreadable disk: %s", n.Name, n.Disk.Problem))
		case n.Prepared != nil && n.Prepared.Backup != "":
			ev = append(ev, fmt.Sprintf("node %s has restored %s as incarnation %s", n.Name, n.Prepared.Backup,
				n.Prepared.Token))
		}
	}
	if problem := l.obs.Store.RecordsProblem; problem != "" {
		ev = append(ev, fmt.Sprintf("the store has incarnation records that cannot be read: %s", problem))
	}
	// Also that of a restore that never began: the cluster before it was lost.
	if rec := newestRecord(l.obs); rec != nil {
		ev = append(ev, fmt.Sprintf("the store has the record of incarnation %d, bootstrapped by %s on %s", rec.Number,
			orUnknown(string(rec.By)), voterNames(rec.Voters)))
	}
	if t := l.obs.Store.Created; !t.IsZero() {
		ev = append(ev, fmt.Sprintf("the store has the marker etcd-cluster-created of %s",
			t.UTC().Format("2006-01-02 15:04:05Z")))
	}
	if n := len(l.obs.Store.Backups); n > 0 {
		ev = append(ev, fmt.Sprintf("the store has %d backups, the newest is %s", n, l.obs.Store.Backups[0].Name))
	}
	return ev
}

// unknown returns the known nodes that do not answer and may hold data: those that
// never reported to this observer what is on their disks, and those that did, but are not
// known to use this store. They may have begun since, by the record in another one.
func (l *view) unknown() []cluster.NodeName {
	var list []cluster.NodeName
	for _, n := range l.obs.Nodes {
		apart := !n.Published && len(l.policy.StaticNodes) == 0
		if !n.Reachable && (n.Disk.State == "" || apart) {
			list = append(list, n.Name)
		}
	}
	return list
}

// promised returns the initial members and the token of a bootstrap that has begun
// with promises but has no record yet, as long as it still fits. Promises are
// made in the order of the initial members: where the first place has none, it has lost
// its disk, and the token may have been in use before.
func (l *view) promised() ([]cluster.InitialMember, cluster.Token) {
	able := l.able()
	for _, n := range able {
		p := n.Prepared
		if p == nil || p.Version != l.spec.EtcdVersion || p.Voters[0].Name != n.Name {
			continue
		}
		if len(p.Voters) != l.spec.MemberCount && !l.oneShort(len(p.Voters)) {
			continue
		}
		fits := !slices.ContainsFunc(p.Voters, func(s cluster.InitialMember) bool {
			return !slices.ContainsFunc(able, func(a *cluster.Node) bool {
				return a.Name == s.Name && slices.Equal(a.URLs.Peer, s.PeerURLs)
			})
		})
		if fits {
			return p.Voters, p.Token
		}
	}
	return nil, ""
}

// able returns the nodes that could bootstrap, by name.
func (l *view) able() []*cluster.Node {
	var able []*cluster.Node
	for i := range l.obs.Nodes {
		n := &l.obs.Nodes[i]
		shared := n.Published || len(l.policy.StaticNodes) > 0
		if n.Reachable && n.Conflict == "" && n.Disk.State == cluster.DiskEmpty && !n.Storage.Bad() && shared &&
			slices.Contains(n.Versions, l.spec.EtcdVersion) {
			able = append(able, n)
		}
	}
	return able
}

// chooseInitialMembers returns the nodes to bootstrap on, or holds.
func (l *view) chooseInitialMembers() []cluster.InitialMember {
	want := l.spec.MemberCount
	able := l.able()
	if len(able) < want && !(l.oneShort(len(able)) && l.age(l.obs.Since) >= l.policy.BootstrapGrace) {
		l.holdBootstrap(len(able))
		return nil
	}
	var initialMembers []cluster.InitialMember
	for _, n := range able[:min(want, len(able))] {
		initialMembers = append(initialMembers, cluster.InitialMember{Name: n.Name, PeerURLs: n.URLs.Peer})
	}
	return initialMembers
}

// oneShort reports whether n initial members are one fewer than wanted and still
// have the same quorum: 2 of 3, 4 of 5, 6 of 7.
func (l *view) oneShort(n int) bool {
	return n == l.spec.MemberCount-1 && n > 0 && cluster.Quorum(n) == cluster.Quorum(l.spec.MemberCount)
}

func (l *view) holdBootstrap(have int) {
	l.hold(WaitingForNodes, "bootstrap needs %d nodes, %d are ready", l.spec.MemberCount, have)
	for _, n := range l.obs.Nodes {
		switch {
		case n.Reachable && n.Storage.Bad():
			l.holdHung(&n)
		case !n.Reachable:
			l.hold(WaitingForNodes, "%s does not answer", n.Name)
		case !slices.Contains(n.Versions, l.spec.EtcdVersion):
			l.holdMissing(&n, l.spec.EtcdVersion)
		case !n.Published && len(l.policy.StaticNodes) == 0:
			l.hold(StoreNotShared, "the record of %s is not in this store", n.Name)
		}
	}
}

// staticMajority asks, where there is a static list of nodes, for a majority
// of it.
func (l *view) staticMajority() bool {
	if len(l.policy.StaticNodes) == 0 {
		return true
	}
	there := 0
	for _, name := range l.policy.StaticNodes {
		if n := l.node(name); n != nil && n.Reachable {
			there++
		}
	}
	if need := cluster.Quorum(len(l.policy.StaticNodes)); there < need {
		l.hold(WaitingForNodes, "%d of the %d listed nodes answer, bootstrap needs %d", there,
			len(l.policy.StaticNodes), need)
		return false
	}
	return true
}

func voterNames(initialMembers []cluster.InitialMember) string {
	list := make([]cluster.NodeName, len(initialMembers))
	for i, s := range initialMembers {
		list[i] = s.Name
	}
	return names(list)
}
