package plan

import (
	"fmt"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// UpgradePath returns the versions that all members run, one after the other, until it is the one
// that the spec asks for: first what they run now, by the names of its directories, at last
// what they come to. It is shorter where the way ends before that, and nil where all members
// run that version, or no step leads to it. It is pure arithmetic, as [NextVersion] is, so
// that it is there also while something holds the next step.
func UpgradePath(spec cluster.Spec, obs cluster.Observation) []etcdversion.Version {
	l := newView(spec, obs)
	members, _ := l.runners()
	want := spec.EtcdVersion
	from, differs := farthest(members, want)
	if !differs {
		return nil
	}
	for i := range members {
		members[i].Storage = etcdversion.Version{} // etcd moves it within seconds
	}
	path := []etcdversion.Version{from}
	seen := obs.ClusterVersion
	for range maxPath {
		next, lack := NextVersion(members, want, seen)
		if lack != nil && lack.Wait { // etcd moves it within seconds
			next, lack = NextVersion(members, want, etcdversion.Version{})
		}
		switch {
		case lack != nil && lack.Restore && members[0].Restores:
			return append(path, want)
		case lack != nil && len(path) == 1:
			return nil
		case lack != nil:
			return path
		}
		if path = append(path, next); next == want {
			return path
		}
		for i, m := range members {
			if m.Assigned != next {
				members[i].Assigned, members[i].Real, members[i].Hazards = next, etcdversion.Version{}, nil
			}
		}
		seen = etcdversion.Version{}
	}
	return path
}

// maxPath is more than the versions of any way.
const maxPath = 32

// farthest returns the version of a member that has the longest way to another, and whether
// it has one.
func farthest(members []Runner, want etcdversion.Version) (from etcdversion.Version, differs bool) {
	for _, m := range members {
		up := m.Assigned.Compare(want) < 0
		switch {
		case m.Assigned == want:
		case !differs, up && m.Assigned.Compare(from) < 0, !up && from.Compare(want) > 0 && m.Assigned.Compare(from) > 0:
			from, differs = m.Assigned, true
		}
	}
	return from, differs
}

// BelowFloor warns where members are to run the next minor version from an earlier patch
// than etcd advises, because their data has nothing of what that guards against. It is empty
// where there is no such member, or where something else comes first.
func BelowFloor(spec cluster.Spec, obs cluster.Observation) string {
	l := newView(spec, obs)
	members, differs := l.runners()
	next, lack := NextVersion(members, spec.EtcdVersion, obs.ClusterVersion)
	if !differs || lack != nil {
		return ""
	}
	least := next.UpgradeFloor()
	var below, kinds []string
	for _, m := range members {
		r := m.runs()
		if r.Minor+1 == next.Minor && r.Compare(least) < 0 && len(cluster.HazardsFrom(m.Hazards, r, next)) == 0 &&
			len(bySnapshot(*l.node(m.Name), next)) == 0 {
			below = append(below, fmt.Sprintf("%s runs %s", m.Name, r))
		}
	}
	if len(below) == 0 {
		return ""
	}
	for _, kind := range cluster.HazardsBefore(next) {
		if kind != cluster.HazardOldLog {
			kinds = append(kinds, string(kind))
		}
	}
	return fmt.Sprintf("etcd advises %s before %d.%d, and %s: what that guards against (%s) was looked for in their data, "+
		"and is not there", least, next.Major, next.Minor, strings.Join(below, ", "), strings.Join(kinds, ", "))
}
