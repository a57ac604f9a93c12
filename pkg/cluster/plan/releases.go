package plan

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// Releases returns the versions of etcd that a node has to get binaries of, so that the
// cluster can come to the version that the spec asks for: that one, one of each minor
// version between, and those that the other members run, if the node has none itself. All
// nodes come to the same ones: of minor versions between it is the oldest patch from which
// etcd advises to go on.
func Releases(spec cluster.Spec, obs cluster.Observation, n cluster.Node) []etcdversion.Version {
	want := spec.EtcdVersion
	if want.IsZero() {
		return nil
	}
	var needs []etcdversion.Version
	if n.Assigned == nil {
		needs = runBy(obs)
	} else {
		needs = onTheWayTo(want, n)
	}
	needs = append(needs, want)
	slices.SortFunc(needs, etcdversion.Version.Compare)
	return slices.DeleteFunc(slices.Compact(needs), func(v etcdversion.Version) bool {
		return !v.Managed() || slices.Contains(n.Versions, v)
	})
}

// runBy are the versions that members run: one that joins runs the same.
func runBy(obs cluster.Observation) (list []etcdversion.Version) {
	for _, n := range obs.Nodes {
		if n.Assigned != nil {
			list = append(list, n.Assigned.Version)
		}
	}
	return list
}

// onTheWayTo are the versions through which the way leads from what the node's member
// runs, as far as the node has no other that would do.
func onTheWayTo(want etcdversion.Version, n cluster.Node) (list []etcdversion.Version) {
	runs := n.Assigned.Version
	low, high := min(runs.Minor, want.Minor), max(runs.Minor, want.Minor)
	for minor := low + 1; minor < high; minor++ {
		next := etcdversion.Version{Major: want.Major, Minor: minor + 1}
		if least := next.UpgradeFloor(); !least.IsZero() {
			list = append(list, least)
		}
	}
	next := etcdversion.Version{Major: runs.Major, Minor: runs.Minor + 1}
	if least := next.UpgradeFloor(); want.Minor > runs.Minor && runs.Compare(least) < 0 && endangered(n, next) {
		list = append(list, least)
	}
	if want.Minor < cluster.FirstRaise.Minor && want.Minor < runs.Minor && cluster.Raiser(n.Versions).IsZero() {
		list = append(list, etcdversion.Must("3.6.0").UpgradeFloor())
	}
	return list
}

// endangered reports whether the data of a node's member has a hazard before a version, or
// may have one, so that a later patch comes first.
func endangered(n cluster.Node, next etcdversion.Version) bool {
	if len(n.Hazards) == 0 {
		return false // it has not looked yet
	}
	return slices.ContainsFunc(cluster.HazardsFrom(n.Hazards, n.Assigned.Version, next), func(h cluster.Hazard) bool {
		return h.State != cluster.HazardPending
	})
}

// holdMissing says that a node has no binaries of a version, and why, where that is known.
func (l *view) holdMissing(n *cluster.Node, v etcdversion.Version) {
	l.hold(BinaryMissing, "%s has no binaries of etcd %s%s", n.Name, v, l.broken(n.Name, v))
}

// fetches says what becomes of the releases that the members' nodes get themselves, as the
// end of a sentence.
func (l *view) fetches(members []Runner) (text string) {
	for _, m := range members {
		for _, b := range l.node(m.Name).Broken {
			if b.Fetch {
				text += "; on " + string(m.Name) + ", " + b.Version.String() + " " + b.Why
			}
		}
	}
	return text
}
