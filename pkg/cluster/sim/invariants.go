package sim

import (
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// The invariants of the world. They are checked at the moment of the effect,
// against the truth.
//
//	data-lost      a quorum knows every acknowledged write
//	two-clusters   at most one incarnation has a quorum
//	two-coordinators  at most one daemon has the lease of an incarnation
//	fresh-disk     no voter that has run starts on an empty disk
//	void-place      no initial member starts after its place was taken away, if a leader can know
//	live-data      the data of a current voter is never moved away
//	quorum         no operation takes the quorum away
//	bootstrap       nothing is bootstrapped while anything shows another cluster
//	backup         a fresh backup covers each removal of a voter and each addition
//	grace          no voter is replaced before its grace time
//	newest         the newest backup is never pruned
//	version        members of one minor version apart at most, and the leader last
//	older-data     no etcd starts on data of a later one
//	between        one member at a time is between two versions
//	risk           no second member is tried with what one did not come up with
//	zombies        no removed member comes back, unless the operator has accepted it
//	cancelled      nothing is restored that the operator has cancelled
//	spec           nobody writes another version into the spec than the operator
//	closed         clients are kept away only for a restore that goes on
//	restore        nothing is given up before what replaces it is ready
//
// and of the planner:
//
//	check          what Next proposes passes Check
//	unexplained    not converged and no operation implies a hold
//	stuck          when the faults are over, it converges or holds for a true reason

// checkBootstrap looks for anything that shows another cluster.
func (w *world) checkBootstrap(op *plan.IncarnationCreate) {
	if g := w.group(op.Token); g != nil || w.recorded(op.Token) {
		return // a running one gets its record, or one that has a record a newer one
	}
	for _, n := range w.nodes {
		if n.disk.data && n.disk.token != op.Token {
			w.violate("bootstrap", "%s has data of incarnation %s when %s is bootstrapped", n.name, n.disk.token, op.Token)
		}
	}
	switch {
	case !w.store.created.IsZero():
		w.violate("bootstrap", "the marker is there when %s is bootstrapped", op.Token)
	case len(w.store.backups) > 0:
		w.violate("bootstrap", "there are backups when %s is bootstrapped", op.Token)
	case len(w.store.incarnations) > 0:
		w.violate("bootstrap", "there is a record when %s is bootstrapped", op.Token)
	}
}

// observeInterval is how long a member may be well without an observation that sees it.
const observeInterval = 30 * time.Second

func (w *world) checkBackup(by *node, what string) {
	fresh := w.spec.Policy.WithDefaults().BackupFresh
	// The planner may work from what the store said last. The backup that it listed
	// lies in that store, also where the node has been given another one since, which
	// does not answer. A clock that is wrong is not seen to be by the node that has it.
	for _, s := range slices.Concat(w.apart, []*store{w.shared}) {
		for _, b := range s.backups {
			reported := s == w.store || w.unreadable(by) && by.read != nil &&
				slices.ContainsFunc(by.read.Backups, func(r cluster.Backup) bool { return r.Name == b.Name })
			if reported && w.now.Sub(s.made[b.Name]) <= fresh+w.skew {
				return
			}
		}
	}
	if !w.store.emptied && !(w.unreadable(by) && w.shared.emptied) {
		w.violate("backup", "%s without a backup of the last %s", what, fresh)
	}
}

// checkRemoval is asked before m goes.
func (w *world) checkRemoval(by *node, g *group, m *member) {
	w.checkBackup(by, "voter removed")
	if g.voters() <= w.spec.MemberCount && len(w.delayed) == 0 {
		if down, grace := max(w.now.Sub(m.lastWell()), w.unreachableFor(by, m.host, m.lastWell())),
			w.spec.Policy.WithDefaults().Grace; down+observeInterval < grace {
			w.violate("grace", "%s (%s) is replaced after %s, the grace time is %s", m.host.name, m.id, down, grace)
		}
	}
}

// checkOpened is asked before clients are let in to the member on n: not to an incarnation
// that has ended where another serves.
func (w *world) checkOpened(n *node) {
	if n.assigned == nil || !n.assigned.Quarantined {
		return
	}
	own := w.group(n.assigned.Token)
	for _, g := range w.groups {
		if own != nil && own.ended && !g.ended && g.leader != 0 && w.opened(g) {
			w.violate("two-clusters", "clients are let in to %s beside %s, which serves", own.token, g.token)
		}
	}
}

// checkMoved is asked before n's data goes.
func (w *world) checkMoved(n *node) {
	g := w.group(n.disk.token)
	if g.ended || w.overtaken(g) {
		return
	}
	if m := g.find(n.disk.id); m != nil && !m.learner {
		w.violate("live-data", "the data of voter %s (%s) is moved away", n.name, m.id)
	}
}

// quorate reports for each group whether it has a quorum, by what can be known: a
// disk that has begun to hang, which nothing shows yet, counts as well.
func (w *world) quorate() (list [4]bool) {
	hung := map[*node]time.Time{}
	for _, n := range w.nodes {
		if n.hangs() && w.now.Sub(n.hung) < n.unseen {
			hung[n], n.hung = n.hung, time.Time{}
		}
	}
	defer func() {
		for n, since := range hung {
			n.hung = since
		}
	}()
	for i, g := range w.groups {
		if i < len(list) {
			list[i] = len(w.leaders(g)) > 0
		}
	}
	return list
}

func (w *world) checkQuorum(before [4]bool, op plan.Operation) {
	after := w.quorate()
	for i, g := range w.groups {
		if i < len(before) && before[i] && !after[i] && !g.ended {
			w.violate("quorum", "incarnation %s lost its quorum by %s", g.token, plan.Line(op))
		}
	}
}

// settled reports whether the world is what the spec says, by the world's own
// account.
func (w *world) settled() bool {
	var g *group
	for _, o := range w.groups {
		if o.leader != 0 && !o.ended {
			g = o
		}
	}
	if g == nil || len(g.members) != w.spec.MemberCount {
		return false
	}
	for i := range g.members {
		m := &g.members[i]
		if m.learner || !g.commits(m) || m.host.assigned.Quarantined || !w.hasVersion(m.host) {
			return false
		}
	}
	for _, n := range w.nodes {
		if n.usable() && g.memberOn(n) == nil && (n.disk.data || n.process != cluster.ProcessStopped || n.assigned != nil) {
			return false
		}
	}
	return true
}
