package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// A Fault is something that goes wrong in a step.
type Fault struct {
	Step int
	Kind FaultKind
	// Node is the index of the node that it hits.
	Node int
	// N is how long it lasts, in steps, or what it sets.
	N int
}

func (f Fault) String() string {
	return fmt.Sprintf("step %d: %s of %s (%d)", f.Step, f.Kind, names[f.Node%len(names)], f.N)
}

// A FaultKind names a kind of fault.
type FaultKind string

// The kinds of faults.
const (
	ProcessDies   FaultKind = "process dies"
	DaemonDies    FaultKind = "daemon restarts"
	NodeDown      FaultKind = "node down"
	Partition     FaultKind = "partition"
	StoreDown     FaultKind = "store unreachable"
	MarkerLost    FaultKind = "marker lost"
	SlowLearner   FaultKind = "learner slow"
	SpecChanges   FaultKind = "spec changes"
	PauseFor      FaultKind = "pause"
	Quarantined   FaultKind = "quarantine"
	StoppedByHand FaultKind = "member stopped by hand"
	TimePasses    FaultKind = "time passes"
	// NodeFails makes every operation on one node fail for a while.
	NodeFails FaultKind = "operations on a node fail"
	// RestoreAsked is a request for a restore, BackupAsked one for a backup.
	RestoreAsked FaultKind = "restore asked for"
	BackupAsked  FaultKind = "backup asked for"

	// The next operation ...
	OpFails    FaultKind = "operation fails"
	OpLost     FaultKind = "answer lost"
	OpHalf     FaultKind = "operation half done"
	OpDelayed  FaultKind = "operation delayed"
	DiesBefore FaultKind = "coordinator dies before the effect"
	DiesAfter  FaultKind = "coordinator dies after the effect"
	// Rival is a second coordinator that acts on what it saw before.
	Rival FaultKind = "second coordinator"

	// These destroy something.
	DiskLost     FaultKind = "disk lost"
	DataLost     FaultKind = "data lost"
	StateLost    FaultKind = "state file lost"
	DataCorrupt  FaultKind = "data corrupt"
	NodeGone     FaultKind = "node gone forever"
	StoreEmptied FaultKind = "store emptied"
	// RecordBehind leaves the next new voter out of the lease voters' record, as another
	// release did, and takes a lease voter away forever.
	RecordBehind FaultKind = "voter not recorded"
	// PromotedGone takes the node of the next new voter away forever, before
	// anyone has recorded that it votes.
	PromotedGone FaultKind = "new voter gone forever"
)

var mild = []FaultKind{
	ProcessDies, DaemonDies, NodeDown, NodeDown, Partition, Partition, StoreDown, MarkerLost, SlowLearner, SpecChanges,
	PauseFor, RestoreAsked, RestoreAsked, BackupAsked, Quarantined, StoppedByHand, TimePasses, NodeFails, NodeFails,
	OpFails, OpFails, OpLost, OpHalf, OpDelayed, DiesBefore, DiesAfter, Rival, Rival,
}

var harsh = []FaultKind{
	DiskLost, DiskLost, DataLost, StateLost, DataCorrupt, NodeGone, StoreEmptied, PromotedGone, RecordBehind,
}

// Faults returns the faults of a seed, by step, and the number of steps in
// which they happen.
func Faults(seed uint64) (faults []Fault, steps int) {
	r := rand.New(rand.NewPCG(seed, 1<<63))
	steps = 20 + r.IntN(100)
	often := 2 + r.IntN(12)
	destructive := r.IntN(4)
	if r.IntN(8) == 0 {
		destructive = 100
	}
	for s := range steps {
		if r.IntN(often) != 0 {
			continue
		}
		f := Fault{Step: s, Kind: mild[r.IntN(len(mild))], Node: r.IntN(len(names)), N: 1 + r.IntN(25)}
		if destructive > 0 && r.IntN(6) == 0 {
			destructive--
			f.Kind = harsh[r.IntN(len(harsh))]
		}
		faults = append(faults, f)
	}
	faults = diskFaults(seed, faults)
	faults = otherFaults(seed, 1<<60, faults, netKinds)
	faults = otherFaults(seed, 1<<59, faults, clockKinds)
	faults = otherFaults(seed, 1<<58, faults, storeKinds)
	faults = otherFaults(seed, 1<<57, faults, orderKinds)
	faults = otherFaults(seed, 1<<54, faults, slowKinds)
	return faults, steps
}

// inject lets a fault happen.
func (w *world) inject(f Fault) {
	n := w.nodes[f.Node%len(w.nodes)]
	w.logf("FAULT %s of %s (%d)", f.Kind, n.name, f.N)
	switch f.Kind {
	case ProcessDies:
		n.process = cluster.ProcessStopped
	case DaemonDies:
		n.runDaemon(w)
		if w.lastActor == n {
			w.lastActor = nil
		}
	case NodeDown:
		n.shutdown()
		n.until = w.step + f.N
	case Partition:
		w.partition(f.N)
	case SlowLearner:
		n.slow, n.slowTo = true, w.step+3*f.N
	case NodeFails:
		n.failsTo = w.step + f.N
	case PromotedGone:
		w.promotedGone = true
	case RecordBehind:
		w.recordBehind = true
	case SpecChanges:
		w.spec.MemberCount = 1 + f.N%min(len(w.nodes), cluster.MaxMembers)
	case Quarantined:
		_ = n.quarantine(true) // a node without member has nothing to close
	case StoppedByHand:
		w.stopByHand(n)
	case TimePasses:
		w.now = w.now.Add(time.Duration(f.N) * 5 * time.Minute)
	case OpFails, OpLost, OpHalf, OpDelayed, DiesBefore, DiesAfter, Rival:
		w.armed = append(w.armed, f.Kind)
	case StoreDown, MarkerLost, PauseFor, StoreEmptied, RestoreAsked, BackupAsked:
		w.injectStore(f)
	case DiskHangs, DiskHung, DiskSlow:
		w.injectDisk(n, f)
	case StoreApart, StoresApart, StoreCut, StoreStale, StoreSlow, StoreBehind:
		w.injectStores(n, f)
	case RolledBack:
		w.rollBack(n, f)
	case OrderLate:
		w.armed = append(w.armed, f.Kind)
	case VersionWanted, VersionBack, RiskAccepted, VersionCrashes, BinaryGone, BinariesCome, BinaryLies:
		w.injectVersion(n, f)
	case RestoreAllowed, RestoreDeleted, BackupUnreadable:
		w.injectSealed(n, f)
	case V2Content, V2Log, Zombies, Blind, DowngradeByHand:
		w.injectData(n, f)
	case ClockJumps, Freezes:
		w.injectClock(n, f)
	case OneWay, CutOff, MessagesLate, MessagesLost, AllRestart, PortClosed:
		w.injectNetwork(n, f)
	default:
		w.destroy(n, f)
	}
}

// stopByHand is a person's "member stop", which Check does not let take the
// quorum away.
func (w *world) stopByHand(n *node) {
	if n.assigned == nil || !n.up {
		return
	}
	a := *n.assigned
	a.Stopped = true
	before, was, process := w.quorate(), n.assigned, n.process
	n.assigned, n.process = &a, cluster.ProcessStopped
	if before != w.quorate() {
		n.assigned, n.process = was, process
	}
}

// takeAway takes a new voter's node away, unless that takes the quorum with
// it: nobody can fix that.
func (w *world) takeAway(n *node) {
	before, process := w.quorate(), n.process
	n.shutdown()
	if before != w.quorate() {
		n.up, n.process = true, process
		return
	}
	n.gone, w.promotedGone = true, false
	w.logf("%s is gone forever", n.name)
}

func (w *world) partition(mask int) {
	for i, n := range w.nodes {
		n.side = mask >> i & 1
	}
}

func (w *world) injectStore(f Fault) {
	switch f.Kind {
	case StoreDown:
		w.store.down, w.store.downTo = true, w.step+f.N
	case MarkerLost:
		w.store.created = time.Time{}
	case PauseFor:
		w.resume()
		if f.N > 12 {
			w.store.requests = append(w.store.requests, cluster.Request{Name: "pause", Kind: cluster.RequestPause, At: w.now})
		}
	case RestoreAsked, BackupAsked:
		w.ask(f)
	case StoreEmptied:
		// Not while somebody is cut off. A bootstrap that was seen to begin, and
		// went on out of sight, is known from the store alone. Nor while nodes
		// change over: that a restore was decided is known from the store alone.
		if w.unsettled() {
			return
		}
		*w.store = store{emptied: true, specMissing: true, down: w.store.down, downTo: w.store.downTo}
	}
}

// unsettled reports whether something is known from the store alone.
func (w *world) unsettled() bool {
	return slices.ContainsFunc(w.nodes, func(n *node) bool {
		return !n.awake() || n.side != w.nodes[0].side || w.network.calls[n.index()] != 0 || n.staged != nil ||
			n.restored != "" || w.leaving(n)
	})
}

func (w *world) destroy(n *node, f Fault) {
	switch f.Kind {
	case DiskLost:
		if w.config.RolledBack {
			w.unmeet(n)
		}
		n.loseDisk()
		if n.up {
			n.reboot(w)
		}
	case DataLost:
		if n.disk.data {
			// The promise has gone by then: it lasts for a second after the start.
			n.disk, n.prepared, n.process = disk{}, nil, cluster.ProcessStopped
		}
	case StateLost:
		n.assigned, n.prepared, n.process = nil, nil, cluster.ProcessStopped
		n.grantor.Durable = lease.Durable{}
		n.runDaemon(w)
		n.staged, n.restored, n.mark, n.change, n.seen = nil, "", 0, nil, nil // what is on the disk of it is deleted
		n.disk.known = false
	case DataCorrupt:
		n.disk.corrupt = n.disk.data
	case NodeGone:
		n.shutdown()
		n.gone = true
	}
}

// leaveBehind takes a new voter out of the lease voters' record, as another release
// did until it was recorded, and one of the lease voters away forever.
func (w *world) leaveBehind(by, n *node) {
	record, g := n.leaseVoters(), w.group(n.leaseVoters().Token)
	if g == nil || g.leader == 0 || g.voters()%2 == 0 || !slices.Contains(record.Names, n.name) {
		return
	}
	less := slices.DeleteFunc(slices.Clone(record.Names), func(name cluster.NodeName) bool { return name == n.name })
	if w.writeLeaseVoters(by, &plan.LeaseVotersWrite{Token: record.Token, Names: less, Expect: record.Names}) != nil {
		return
	}
	w.recordBehind = false
	w.takeAway(w.node(less[w.rand.IntN(len(less))]))
}

// heal ends what has lasted long enough; everything, when all is quiet.
func (w *world) heal() {
	for _, n := range w.nodes {
		if !n.up && !n.gone && (w.quiet || w.step >= n.until) {
			n.reboot(w)
			w.logf("%s is up", n.name)
		}
		if w.quiet || w.step >= n.slowTo {
			n.slow = false
		}
		w.healDisk(n)
	}
	w.healNetwork()
	w.thaw()
	w.healStores()
	if w.store.down && (w.quiet || w.step >= w.store.downTo) {
		w.store.down = false
	}
}

// calm ends the time of faults.
func (w *world) calm() {
	w.quiet, w.armed, w.delayed, w.orders, w.promotedGone, w.recordBehind = true, nil, nil, nil, false, false
	w.resume()
	w.partition(0)
	w.calmClocks()
	w.calmVersions()
	w.logf("QUIET")
	w.heal()
}
