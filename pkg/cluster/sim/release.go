package sim

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// These are what happens around versions, where machines have several.
const (
	// VersionWanted changes the version that the spec asks for, up or down.
	VersionWanted FaultKind = "version changes"
	// VersionBack sets the spec back to the version before.
	VersionBack FaultKind = "version set back"
	// RiskAccepted is the operator's word for the version that is wanted, or another.
	RiskAccepted FaultKind = "risk accepted"
	// VersionCrashes has a version die on a node, for a while or forever.
	VersionCrashes FaultKind = "version crashes"
	// BinaryGone takes binaries from a node, BinariesCome brings all.
	BinaryGone   FaultKind = "binaries gone"
	BinariesCome FaultKind = "binaries come"
	// BinaryLies has a directory hold another patch than it is called after, or another
	// minor version.
	BinaryLies FaultKind = "binary lies"
	// V2Content, V2Log and Zombies are in members' data; Blind is a node that cannot look.
	V2Content FaultKind = "v2 content"
	V2Log     FaultKind = "v2 log"
	Zombies   FaultKind = "zombie members"
	Blind     FaultKind = "data cannot be looked into"
	// DowngradeByHand is somebody's use of etcd's downgrade API.
	DowngradeByHand FaultKind = "downgrade by hand"
)

var versionKinds = []FaultKind{
	VersionWanted, VersionWanted, VersionWanted, VersionWanted, VersionBack, VersionBack, RiskAccepted, VersionCrashes,
	VersionCrashes, BinaryGone, BinariesCome, BinaryLies, V2Content, V2Log, Zombies, Blind, DowngradeByHand, SpecChanges,
	DiesBefore, DiesAfter, DaemonDies, OpLost, NodeGone, DiskLost,
}

// versionFaults makes many of the faults of a seed faults of versions. Nothing is
// restored in such a history, and the store is not emptied.
func versionFaults(seed uint64, faults []Fault, steps int) ([]Fault, int) {
	r := rand.New(rand.NewPCG(seed, 1<<56))
	list := []Fault{{Step: 8 + r.IntN(12), Kind: VersionWanted, N: 1 + r.IntN(25)}}
	gone := 1
	for _, f := range faults {
		if r.IntN(3) != 0 || f.Kind == RestoreAsked || f.Kind == StoreEmptied {
			f.Kind = versionKinds[r.IntN(len(versionKinds))]
		}
		if f.Kind == NodeGone || f.Kind == DiskLost || f.Kind == DiskHung {
			if gone--; gone < 0 {
				f.Kind = VersionWanted
			}
		}
		list = append(list, f)
	}
	slices.SortStableFunc(list, func(a, b Fault) int { return a.Step - b.Step })
	return list, steps + 40
}

// history returns the faults of a seed, and the steps in which they happen.
func (c Config) history(seed uint64) ([]Fault, int) {
	faults, steps := Faults(seed)
	if c.Ports {
		faults = portFaults(seed, faults)
	}
	if c.RolledBack {
		faults = rollFaults(seed, faults)
	}
	if c.Versions {
		faults, steps = versionFaults(seed, faults, steps)
	}
	if c.Sealed {
		faults = sealedFaults(seed, faults)
	}
	return faults, steps
}

func (w *world) injectVersion(n *node, f Fault) {
	v := universe[f.N%len(universe)]
	switch f.Kind {
	case VersionWanted:
		w.want(v)
	case VersionBack:
		w.want(w.before)
	case RiskAccepted:
		w.spec.Risk = cluster.VersionRisk{Version: w.spec.EtcdVersion, Reason: "necessary"}
		if f.N%3 == 0 {
			w.spec.Risk.Version = v
		}
	case VersionCrashes:
		for _, o := range w.nodes { // as a rule a version is bad everywhere
			if o == n || f.N%3 != 0 {
				w.spoil(o, v, f.N)
			}
		}
	case BinaryGone:
		n.has = slices.DeleteFunc(slices.Clone(universe), func(h etcdversion.Version) bool {
			return h == v && (n.assigned == nil || h != n.assigned.Version)
		})
	case BinariesCome:
		n.has, n.real = universe, nil
	case BinaryLies:
		n.real = map[etcdversion.Version]etcdversion.Version{
			etcdversion.Must("3.5.21"): etcdversion.Must("3.5.35"),
		}
		if f.N%3 == 0 && (n.assigned == nil || n.assigned.Version != v) {
			n.real[v] = universe[(f.N+1)%len(universe)]
		}
	default:
		w.injectData(n, f)
	}
}

// spoil has a version die on n, or serve nothing, for a while or forever. It is one that
// n does not run.
func (w *world) spoil(n *node, v etcdversion.Version, many int) {
	if g := w.latest(); g == nil || g.leader == 0 || n.assigned == nil || n.assigned.Version == v || n.etcd.of == v {
		return
	}
	b := bad{to: w.step + 5*many, stalls: many%5 == 0}
	if many%4 == 0 {
		b.to = 1 << 30
	}
	n.bad = map[etcdversion.Version]bad{v: b}
}

// want sets the version of the spec.
func (w *world) want(v etcdversion.Version) {
	if v != w.spec.EtcdVersion {
		w.before, w.spec.EtcdVersion = w.spec.EtcdVersion, v
		w.logf("the spec asks for %s", v)
	}
}

func (w *world) injectData(n *node, f Fault) {
	runs := n.process == cluster.ProcessRunning && n.disk.data && !n.etcd.stalls
	switch old := runs && !n.etcd.of.AtLeast(3, 6); f.Kind {
	case V2Content:
		for _, o := range w.nodes {
			if old && o.disk.data && o.disk.token == n.disk.token && !o.etcd.of.AtLeast(3, 6) {
				o.disk.v2content, o.disk.v2deleted = true, false
			}
		}
	case V2Log:
		n.disk.v2log = n.disk.v2log || old
		n.disk.v2put = n.disk.v2put || old && f.N%2 == 1
	case Zombies:
		n.disk.zombies = n.disk.zombies || old && lower(n.etcd.of, "3.5.32")
	case Blind:
		n.blind = w.step + f.N
	case DowngradeByHand:
		if g := w.latest(); g != nil && g.leader != 0 && g.version.AtLeast(3, 6) {
			to := etcdversion.Version{Major: 3, Minor: g.version.Minor - 1}
			_ = w.downgrade(g, &plan.DowngradeEnable{To: to}) // etcd may refuse it
		}
	}
}

// calmVersions ends what has lasted. A version that has failed may be bad forever.
func (w *world) calmVersions() {
	for _, n := range w.nodes {
		if !w.config.Versions {
			continue
		}
		n.has, n.real = n.offers(), nil
		for v, b := range n.bad {
			if c := n.changing(); b.to < 1<<30 || c == nil || c.To != v {
				n.bad = nil
			}
		}
	}
}

// offers are n's binaries when all is quiet: somebody has brought them.
func (n *node) offers() []etcdversion.Version {
	if len(n.has) <= 1 {
		return n.has
	}
	return universe
}

// helpWithVersions does what a hold about versions asks a person to do, once for each.
func (w *world) helpWithVersions(holds []plan.Hold) bool {
	for _, h := range holds {
		if !w.config.Versions || w.done[h.Reason] > 3 {
			continue
		}
		switch h.Reason {
		case plan.VersionHazard:
			for _, n := range w.nodes {
				n.disk.deleteKeys()
			}
		case plan.VersionFailed:
			if !w.tryAgain(h) {
				continue
			}
		case plan.VersionDiffers:
			if !w.config.Sealed || !strings.Contains(h.Text, "--allow-restore") {
				continue
			}
			w.allowRestore()
		default:
			continue
		}
		if w.done == nil {
			w.done = map[plan.Reason]int{}
		}
		w.done[h.Reason]++
		w.logf("the operator does what %s says", h.Reason)
		return true
	}
	return false
}

// tryAgain runs the command lines of a hold, one after the other, as far as they are
// not refused: a hazard may have come up meanwhile.
func (w *world) tryAgain(h plan.Hold) bool {
	_, lines, found := strings.Cut(h.Text, "to try again: ")
	if !found {
		return false
	}
	for line := range strings.SplitSeq(lines, " && ") {
		op, err := plan.Parse(strings.Fields(line)[1:])
		if err != nil {
			w.violate("untrue", "the command line of this hold cannot be read: %v: %v", h, err)
			return false
		}
		by := w.coordinator()
		obs := w.observe(by)
		if !w.lead(by, &obs) {
			return false
		}
		if err := plan.Check(w.spec, obs, op); err != nil {
			w.logf("     %v", err)
			return true
		}
		w.carryOut(by, &obs, op)
		for range 10 { // an enabled downgrade is waited for
			w.tick()
		}
	}
	return true
}

// hasVersion reports whether n's member has the version that the spec asks for.
func (w *world) hasVersion(n *node) bool {
	return !w.config.Versions || n.assigned.Version == w.spec.EtcdVersion && !n.changing().Pending()
}

// versionHeld reports whether a hold about versions is true in the world.
func (w *world) versionHeld(r plan.Reason) bool {
	g := w.latest()
	if g == nil || !w.config.Versions {
		return false
	}
	want := w.spec.EtcdVersion
	any := func(is func(n *node) bool) bool {
		for i := range g.members {
			if is(g.members[i].host) {
				return true
			}
		}
		return false
	}
	if w.sealedHeld(g, r) {
		return true
	}
	switch r {
	case plan.NotYet:
		return any(func(n *node) bool {
			return n.assigned != nil && n.assigned.Quarantined || n.up && n.hangs() || !n.usable() && n.changing().Pending()
		})
	case plan.VersionDiffers:
		back := !want.AtLeast(3, 5) && any(func(n *node) bool {
			return n.assigned != nil && n.assigned.Version.AtLeast(3, 5)
		})
		mixed := any(func(n *node) bool { return n.assigned != nil && !atLeastMinor(want, minor(n.assigned.Version)) }) &&
			!atLeastMinor(want, g.version)
		return back || mixed || any(func(n *node) bool {
			return n.disk.zombies || n.disk.v2content
		})
	case plan.VersionHazard:
		return any(func(n *node) bool {
			return n.disk.v2content || n.disk.zombies || !n.usable()
		})
	case plan.VersionFailed:
		return any(func(n *node) bool {
			c := n.changing()
			if c == nil || c.Failed == "" {
				return false
			}
			return n.bad[c.To].to > w.step || n.disk.v2content || n.disk.v2log || w.done[plan.VersionFailed] > 3
		})
	case plan.BinaryMissing:
		return any(func(n *node) bool { return len(n.has) < len(universe) })
	}
	return false
}
