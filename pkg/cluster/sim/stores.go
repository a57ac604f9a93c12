package sim

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// A node reads and writes the store that its flags name. It need not be that of
// the others, need not answer to it, and may be of the past.
const (
	// StoreApart gives a node an empty store of its own for a while, StoresApart
	// each node one.
	StoreApart  FaultKind = "store of its own"
	StoresApart FaultKind = "stores not shared"
	// StoreCut has the store not answer to one node.
	StoreCut FaultKind = "store cut off from a node"
	// StoreStale has a node read the store as it was.
	StoreStale FaultKind = "store stale"
	// StoreSlow has what a node asks of the store be answered some looks later, and what it
	// writes take effect while it gets no answer.
	StoreSlow FaultKind = "store slow"
	// StoreBehind rolls the store back.
	StoreBehind FaultKind = "store rolled back"
	// RolledBack puts an older image on a disk: of all of it, of the data alone, or of
	// what the daemon has written alone.
	RolledBack FaultKind = "disk rolled back"
	// OrderLate has a node take the next order when it has long been given up.
	OrderLate FaultKind = "order late"
)

var (
	storeKinds = []FaultKind{StoreApart, StoresApart, StoreCut, StoreCut, StoreStale, StoreStale}
	slowKinds  = []FaultKind{StoreSlow}
	orderKinds = []FaultKind{OrderLate}
)

// storeOf returns the store that n's flags name.
func (w *world) storeOf(n *node) *store {
	if n.own != nil {
		return n.own
	}
	return w.shared
}

// at lets n act on its store, until the function is called.
func (w *world) at(n *node) func() {
	was := w.store
	w.store = w.storeOf(n)
	return func() { w.store = was }
}

func (w *world) injectStores(n *node, f Fault) {
	switch f.Kind {
	case StoreApart:
		w.giveOwn(n, &store{specMissing: f.N%2 == 0}, f.N)
	case StoresApart:
		for _, n := range w.nodes {
			w.giveOwn(n, &store{}, f.N)
		}
	case StoreCut:
		n.cut = w.step + f.N
	case StoreStale:
		n.stale, n.staleTo = w.shared.copy(), w.step+f.N/2
	case StoreSlow:
		n.lagTo, n.lag = w.step+f.N, 1+f.N%4
	case StoreBehind:
		if len(w.past) == 0 || !w.config.RolledBack && w.unsettled() || slices.ContainsFunc(w.nodes, w.lags) ||
			w.switching() {
			return // who reads what the store was then, or obeys by it, cannot know that it went back since
		}
		at := f.N % len(w.past)
		old := w.past[at]
		if len(old.incarnations) == 0 && w.unsettled() {
			return // see StoreEmptied
		}
		if w.config.RolledBack {
			w.past = w.past[:at+1] // what came after it is not its past
		}
		old.emptied, old.down, old.downTo = true, w.shared.down, w.shared.downTo
		lost := w.shared.incarnations
		*w.shared = *old.copy()
		w.forget(lost)
	}
}

// switching reports whether an order to change over, by a record in the store, is to come late.
func (w *world) switching() bool {
	return slices.ContainsFunc(w.orders, func(l lateOrder) bool {
		_, is := l.order.op.(*plan.RestoreSwitch)
		return is
	})
}

// giveOwn exchanges n's store for some steps. What it has asked another store for is given up.
func (w *world) giveOwn(n *node, s *store, steps int) {
	n.own, n.ownTo, w.apart = s, w.step+steps, append(w.apart, s)
	n.asked = nil
}

// copy returns what the store says now.
func (s *store) copy() *store {
	c := *s
	c.incarnations, c.backups, c.requests = slices.Clone(s.incarnations), slices.Clone(s.backups), slices.Clone(s.requests)
	return &c
}

func (w *world) healStores() {
	for _, n := range w.nodes {
		if n.own != nil && (w.quiet || w.step >= n.ownTo) {
			n.own, n.asked = nil, nil
		}
		if w.quiet || w.step >= n.staleTo {
			n.stale = nil
		}
	}
}

// answered is what a listing shows that n asked for some looks ago, which is what the store
// was then; the store now, where it is not slow. The first answer is waited for.
func (w *world) answered(n *node) *store {
	if !w.lags(n) {
		n.asked = nil
		return w.store
	}
	n.asked = append(n.asked, w.store.copy())
	if len(n.asked) > n.lag {
		n.asked = n.asked[1:]
	}
	return n.asked[0]
}

// lags reports whether n's store is slow.
func (w *world) lags(n *node) bool { return !w.quiet && w.step < n.lagTo }

// writes reports whether op's effect is in the store alone.
func writes(op plan.Operation) bool {
	switch op.(type) {
	case *plan.IncarnationCreate, *plan.IncarnationMark, *plan.SpecWrite, *plan.RequestClose, *plan.BackupPrune,
		*plan.BackupTake, *plan.BackupVerify, *plan.BackupDrill:
		return true
	}
	return false
}

// An image is what was on a disk.
type image struct {
	disk     disk
	prepared *cluster.Prepared
	staged   *cluster.Staged
	restored cluster.Token
	assigned *cluster.Assigned
	setAside []cluster.SetAside
	durable  lease.Durable
	mark     cluster.Revision
	change   *cluster.VersionChange
	seen     *nodestate.SeenVersion
}

// awaits reports whether a node with this on its disk is still to begin an incarnation.
func (i image) awaits(token cluster.Token) bool {
	return i.restored == token || i.staged != nil && i.staged.Token == token ||
		i.prepared != nil && i.prepared.Token == token
}

// takeImages keeps the disks, and the store, as they are now and then.
func (w *world) takeImages() {
	if w.step%7 != 0 {
		return
	}
	w.past = append(w.past, *w.shared.copy())
	for _, n := range w.nodes {
		n.images = append(n.images, n.image())
	}
}

// image is what is on n's disk.
func (n *node) image() image {
	return image{
		n.disk, n.prepared, n.staged, n.restored, n.assigned, n.setAside, n.grantor.Durable, n.mark, n.change, n.seen,
	}
}

// rollBack puts an older image on n's disk while the machine is off, for longer
// than a lease lasts. A member whose log is older than what it has acknowledged to its leader
// ends again and again ("tocommit is out of range").
func (w *world) rollBack(n *node, f Fault) {
	if len(n.images) == 0 || !n.awake() {
		return
	}
	old := n.images[f.N%len(n.images)]
	if w.beginsAgain(n, old) {
		return // where no leader shows it, nobody knows
	}
	n.shutdown()
	n.until, n.wentBack = w.step+5, true
	known := n.disk
	if f.N%3 != 2 {
		if w.config.RolledBack && !old.disk.data {
			w.unmeet(n)
		}
		n.disk, n.setAside = old.disk, old.setAside
		n.disk.behind = old.disk.data && old.disk.index < w.written[old.disk.id]
		n.restored = old.restored
	} else {
		known = old.disk
	}
	if f.N%3 != 1 {
		n.prepared, n.assigned, n.staged, n.grantor.Durable = old.prepared, old.assigned, old.staged, old.durable
		n.mark, n.change, n.seen = old.mark, old.change, old.seen
	}
	// The state file says who the member was that ran last.
	if f.N%3 != 0 {
		n.disk.known = known.known && known.id == n.disk.id && known.token == n.disk.token
	}
}

// A lateOrder has been sent and is still to arrive. It has come by a connection, and
// ends with that when the daemon that was to obey ends.
type lateOrder struct {
	to    *node
	run   int // of to's daemon
	order order
	due   int
	// mayWait says that the cluster did without the member by the spec of when it was sent.
	mayWait bool
}

// deliverOrders has the orders arrive that are due. The node has its own checks;
// nobody observes again.
func (w *world) deliverOrders() {
	w.orders = slices.DeleteFunc(w.orders, func(l lateOrder) bool {
		if l.due > w.step {
			return false
		}
		if l.to.usable() && l.to.runs == l.run {
			before := w.quorate()
			w.arriving = true
			err := w.obey(l.to, l.order)
			w.arriving = false
			w.logf("an order of %s arrives late: %s   %v", l.order.by.name, plan.Line(l.order.op), err)
			if !l.mayWait && !w.mayWait(l.order.op) {
				w.checkQuorum(before, l.order.op)
			}
		}
		return true
	})
}
