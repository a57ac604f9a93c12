package sim

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A version that no running cluster can be changed to is reached by a restore of what runs,
// which an operator allows: a sealed one. What was acknowledged to clients is in the backup that is
// restored, whatever happens on the way.
const (
	// RestoreAllowed is "configure-cluster --allow-restore" for [sealedTo].
	RestoreAllowed FaultKind = "restore allowed"
	// RestoreDeleted is "delete-command" for such a request.
	RestoreDeleted FaultKind = "restore cancelled"
	// BackupUnreadable has nodes find that no backup can be restored.
	BackupUnreadable FaultKind = "backup unreadable"
)

var sealedKinds = []FaultKind{RestoreAllowed, RestoreDeleted, BackupUnreadable}

// sealedTo is the version that nothing but a restore leads to, sealedFrom those that
// histories of such restores begin with.
var (
	sealedTo   = universe[0]
	sealedFrom = []etcdversion.Version{universe[1], universe[2], universe[2], universe[2], universe[4], universe[5]}
)

// A snapshot is what is in a backup.
type snapshot struct {
	reason      string
	token       cluster.Token
	index       uint64
	revision    cluster.Revision
	of, storage etcdversion.Version
}

// snapshot is what a backup of n's member has.
func (n *node) snapshot(reason string) snapshot {
	s := snapshot{reason: reason, token: n.disk.token, index: n.disk.index, revision: n.mark, of: n.etcd.of}
	if n.etcd.of.AtLeast(3, 6) {
		s.storage = n.disk.storage
	}
	return s
}

func (s *store) snapshotOf(backup string) *snapshot {
	if t, ok := s.taken[backup]; ok {
		return &t
	}
	return nil
}

// sealedFaults makes some of the faults of a seed such as allow restores, and take that
// back.
func sealedFaults(seed uint64, faults []Fault) []Fault {
	r := rand.New(rand.NewPCG(seed, 1<<53))
	first := true
	var list []Fault
	for _, f := range faults {
		if f.Kind == VersionWanted && (first || r.IntN(3) > 0) {
			f.Kind, first = RestoreAllowed, false
		} else if r.IntN(12) == 0 {
			f.Kind = sealedKinds[1+r.IntN(2)]
		}
		list = append(list, f)
		if f.Kind == RestoreAllowed && r.IntN(3) == 0 {
			back := Fault{Step: f.Step + 1 + r.IntN(25), Kind: VersionBack, Node: f.Node, N: f.N}
			if r.IntN(2) == 0 {
				back.Kind = RestoreDeleted
			}
			list = append(list, back)
		}
	}
	slices.SortStableFunc(list, func(a, b Fault) int { return a.Step - b.Step })
	return list
}

func (w *world) injectSealed(n *node, f Fault) {
	switch f.Kind {
	case RestoreAllowed:
		w.allowRestore()
	case RestoreDeleted:
		if !w.store.down {
			sealed := func(r cluster.Request) bool { return r.Sealed }
			w.store.requests = slices.DeleteFunc(slices.Clone(w.store.requests), sealed)
		}
	case BackupUnreadable:
		for _, o := range w.nodes {
			if o == n || f.N%3 != 0 {
				o.refuses = w.step + f.N
			}
		}
	}
}

// allowRestore writes the version into the spec and then queues the request, unless one is
// queued.
func (w *world) allowRestore() {
	if w.store.down {
		return
	}
	w.want(sealedTo)
	for _, r := range w.store.requests {
		if r.Kind == cluster.RequestRestore && !w.decided(r.Name) {
			return
		}
	}
	w.asked++
	r := cluster.Request{
		Name: "s" + strconv.Itoa(w.asked), Kind: cluster.RequestRestore, At: w.now, Sealed: true, EtcdVersion: sealedTo,
	}
	if w.allowed == nil {
		w.allowed = map[string]bool{}
	}
	w.allowed[r.Name] = true
	w.store.requests = append(slices.Clone(w.store.requests), r)
	w.logf("the operator allows a restore as %s: %s", sealedTo, r.Name)
}

func (w *world) decided(request string) bool {
	return slices.ContainsFunc(w.store.incarnations, func(i cluster.Incarnation) bool {
		return i.Restored != nil && i.Restored.Request == request
	})
}

// sealedSource is what the store says of the backup that was taken for a request: the oldest
// one.
func (w *world) sealedSource(r cluster.Request) *cluster.Source {
	src := &cluster.Source{Request: r.Name}
	if list := w.store.backups; len(list) > 0 {
		src.Newest = list[0].Name
		if s := w.store.snapshotOf(src.Newest); s != nil {
			src.Seen = s.revision
		}
	}
	for _, b := range slices.Backward(w.store.backups) {
		s := w.store.snapshotOf(b.Name)
		if s == nil || s.reason != r.BackupReason() || b.Damaged || b.At.Before(r.At.Add(-time.Hour)) {
			continue
		}
		src.Backup, src.Version, src.Storage, src.Revision = b.Name, s.of, s.storage, s.revision
		src.Seen = max(src.Seen, src.Revision)
		return src
	}
	return src
}

// cannotStage says why n cannot make a data directory of a backup, and whether that is the
// backup's fault.
func (w *world) cannotStage(n *node) (problem string, refused bool) {
	if !w.config.Sealed {
		return "", false
	}
	v := n.staged.Version
	if is, ok := n.is(v); !ok || is.Minor != v.Minor {
		return "there are no binaries of " + v.String(), false
	}
	if lower(v, cluster.FirstRaise.String()) && cluster.Raiser(n.has).IsZero() {
		return "nothing raises the revision", false
	}
	if w.step < n.refuses && !w.quiet {
		return "the backup cannot be read", true
	}
	return "", false
}

// acknowledge has the leader of g acknowledge what clients have written, where some are let
// in to one of the members.
func (w *world) acknowledge(g *group) {
	open := slices.ContainsFunc(g.members, func(m member) bool {
		return !m.learner && w.follows(g, &m) && m.host.assigned != nil && !m.host.assigned.Quarantined
	})
	if !open {
		return
	}
	g.acked = g.commit
	if g.sealed != nil && g.ended && g.acked > g.sealed.index && w.mayBegin(g.over) {
		w.violate("data-lost", "clients write to %s behind the backup that is restored in its place", g.token)
	}
}

// mayBegin reports whether a node has what an incarnation begins with, or has begun it.
func (w *world) mayBegin(token cluster.Token) bool {
	return w.changedOver(token) || slices.ContainsFunc(w.nodes, func(n *node) bool {
		return n.staged != nil && n.staged.Token == token
	})
}

// checkSealed is asked when a restore is decided on, of one that was allowed for a version:
// it loses nothing, and is still what the operator wants.
func (w *world) checkSealed(by *node, op *plan.IncarnationCreate) {
	if !w.allowed[op.Request] {
		return
	}
	s := w.store.snapshotOf(op.Backup)
	for _, g := range w.groups {
		switch own := s != nil && s.token == g.token; {
		case g.ended, !own && g.leader == 0:
		case !own:
			w.violate("data-lost", "%s is restored from %s, which is no backup of %s", op.Token, op.Backup, g.token)
		case s.index < g.acked:
			w.violate("data-lost", "%s is restored from %s, which has %d of %d acknowledged writes", op.Token, op.Backup,
				s.index, g.acked)
		default:
			g.sealed = s
		}
	}
	if v := w.spec.EtcdVersion; v != op.Version {
		w.violate("cancelled", "%s is restored as etcd %s, and the spec asks for %s", op.Token, op.Version, v)
	}
	asked := func(r cluster.Request) bool { return r.Name == op.Request }
	if by.read != nil && !slices.ContainsFunc(by.read.Requests, asked) {
		w.violate("cancelled", "%s is restored for %s, which is not asked for any more", op.Token, op.Request)
	}
}

// followed takes over what a restore was asked to be into the spec.
func (w *world) followed(op *plan.SpecWrite) {
	w.spec.MemberCount = op.MemberCount
	if w.config.Sealed && w.spec.EtcdVersion != op.EtcdVersion {
		w.violate("spec", "the operator asks for etcd %s, and %s is written", w.spec.EtcdVersion, op.EtcdVersion)
	}
}

// justifyClosed asks, where all voters serve, whether clients are let in to them.
func (w *world) justifyClosed(holds []plan.Hold) {
	g := w.latest()
	if g == nil || g.leader == 0 {
		return
	}
	away := slices.ContainsFunc(w.nodes, func(n *node) bool { return !n.usable() })
	if away && slices.ContainsFunc(holds, func(h plan.Hold) bool { return h.Reason == plan.Restoring }) {
		return // who is gone may serve clients of what was restored from: nobody knows
	}
	serves := func(m member) bool { return w.follows(g, &m) && m.host.assigned != nil }
	if slices.ContainsFunc(g.members, func(m member) bool { return !serves(m) }) {
		return
	}
	for _, m := range g.members {
		if m.host.assigned.Quarantined {
			w.violate("closed", "clients are kept away from %s (%s), and all voters serve: %v", m.name, m.id, holds)
		}
	}
}

// sealedHeld reports whether a hold of a sealed restore that is queued is true in the world.
func (w *world) sealedHeld(g *group, r plan.Reason) bool {
	queued := slices.ContainsFunc(w.store.requests, func(r cluster.Request) bool { return r.Sealed && !w.decided(r.Name) })
	if !queued || g == nil {
		return false
	}
	unwell := slices.ContainsFunc(g.members, func(m member) bool { return !w.follows(g, &m) })
	switch r {
	case plan.QuorumMargin, plan.NodeUnreachable, plan.NotYet:
		return unwell
	}
	return false
}
