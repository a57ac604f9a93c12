package sim

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// A node reads and writes the store that its flags name. It need not be that of
// the others, need not answer to it, and may tell it of the past.
const (
	// StoreApart gives a node an empty store of its own for a while, StoresApart
	// each node one.
	StoreApart  FaultKind = "store of its own"
	StoresApart FaultKind = "stores not shared"
	// StoreCut has the store not answer to one node.
	StoreCut FaultKind = "store cut off from a node"
	// StoreStale has a node read the store as it was.
	StoreStale FaultKind = "store stale"
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
	case StoreBehind:
		if len(w.past) == 0 || w.unsettled() {
			return
		}
		old := w.past[f.N%len(w.past)]
		old.emptied, old.down, old.downTo = true, w.shared.down, w.shared.downTo
		*w.shared = *old.copy()
	}
}

// giveOwn exchanges n's store for some steps.
func (w *world) giveOwn(n *node, s *store, steps int) {
	n.own, n.ownTo, w.apart = s, w.step+steps, append(w.apart, s)
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
			n.own = nil
		}
		if w.quiet || w.step >= n.staleTo {
			n.stale = nil
		}
	}
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
}

// takeImages keeps the disks, and the store, as they are now and then.
func (w *world) takeImages() {
	if w.step%7 != 0 {
		return
	}
	w.past = append(w.past, *w.shared.copy())
	for _, n := range w.nodes {
		n.images = append(n.images, image{
			n.disk, n.prepared, n.staged, n.restored, n.assigned, n.setAside, n.grantor.Durable,
		})
	}
}

// rollBack puts an older image on n's disk while the machine is off, for longer
// than a lease lasts. A member whose log is older than what it has told its leader
// ends again and again ("tocommit is out of range").
func (w *world) rollBack(n *node, f Fault) {
	if len(n.images) == 0 || !n.awake() {
		return
	}
	old := n.images[f.N%len(n.images)]
	behind := old.disk.data && (!n.disk.data || old.disk.id != n.disk.id || old.disk.index < n.disk.index)
	n.shutdown()
	n.until = w.step + 5
	if f.N%3 != 2 {
		n.disk, n.setAside = old.disk, old.setAside
		n.disk.behind = n.disk.behind || behind
		n.staged, n.restored = old.staged, old.restored
	}
	if f.N%3 != 1 {
		n.prepared, n.assigned, n.grantor.Durable = old.prepared, old.assigned, old.durable
	}
}

// A lateOrder has been sent and is still to arrive. It has come by a connection, and
// ends with that when the daemon that was to obey ends.
type lateOrder struct {
	to    *node
	run   int // of to's daemon
	order order
	due   int
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
			if !w.mayWait(l.order.op) {
				w.checkQuorum(before, l.order.op)
			}
		}
		return true
	})
}
