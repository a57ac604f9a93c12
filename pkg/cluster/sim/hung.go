package sim

import (
	"math/rand/v2"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// These are faults of disks. A disk that hangs takes no writes: the member on it
// answers from memory and commits nothing, and its daemon answers with what it
// has read, obeys no order and grants no vote.
const (
	DiskHangs FaultKind = "disk hangs"
	DiskSlow  FaultKind = "disk slow"
	// DiskHung is one that hangs forever.
	DiskHung FaultKind = "disk hangs forever"
)

var diskKinds = []FaultKind{DiskHangs, DiskSlow, DiskHung}

// diskFaults makes some of the faults of a seed faults of disks. It draws from
// numbers of its own, so that the other histories stay what they were.
func diskFaults(seed uint64, faults []Fault) []Fault {
	r := rand.New(rand.NewPCG(seed, 1<<62))
	if r.IntN(3) != 0 {
		return faults
	}
	for i := range faults {
		switch r.IntN(20) {
		case 0, 1:
			faults[i].Kind = DiskHangs
		case 2:
			faults[i].Kind = DiskSlow
		case 3:
			if r.IntN(6) == 0 {
				faults[i].Kind = DiskHung
			}
		}
	}
	return faults
}

// hungForever is the step up to which a disk hangs that does so forever.
const hungForever = 1 << 30

// hangs reports whether n's disk takes no writes.
func (n *node) hangs() bool { return !n.hung.IsZero() }

// commits reports whether m's process runs on m's own data and can write.
func (g *group) commits(m *member) bool { return g.runs(m) && !m.host.hangs() && !m.host.etcd.stalls }

// usable reports whether n is up and can write.
func (n *node) usable() bool { return n.awake() && !n.hangs() }

// injectDisk lets a disk hang, or be slow, also one without which nobody can
// write. Of a cluster in which nobody writes nothing shows it for some seconds.
func (w *world) injectDisk(n *node, f Fault) {
	if f.Kind == DiskSlow {
		n.slowDiskTo = w.step + 3*f.N
		return
	}
	if !n.up || n.hangs() {
		return
	}
	n.hung, n.hungTo, n.unseen = w.now, w.step+2*f.N, 0
	if f.N%2 == 0 {
		n.unseen = time.Duration(f.N%9) * time.Second
	}
	if f.Kind == DiskHung {
		n.hungTo = hungForever
	}
}

// healDisk ends what has lasted long enough.
func (w *world) healDisk(n *node) {
	if n.hungTo < hungForever && (w.quiet || w.step >= n.hungTo) {
		n.hung, n.unseen = time.Time{}, 0
	}
	if w.quiet {
		n.slowDiskTo = 0
	}
}

// storage is what the daemon on n measures.
func (w *world) storage(n *node) cluster.Storage {
	s := cluster.Storage{State: cluster.StorageGood, Path: "/data", Latency: 2 * time.Millisecond}
	if w.step < n.slowDiskTo {
		s.State, s.Latency = cluster.StorageSlow, 700*time.Millisecond
	}
	if n.hangs() && w.now.Sub(n.hung) >= n.unseen {
		s.Pending = max(w.now.Sub(n.hung), time.Second)
		if s.Pending >= 10*time.Second {
			s.State = cluster.StorageHung
		}
	}
	return s
}
