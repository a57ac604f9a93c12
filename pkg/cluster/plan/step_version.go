package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A Runner is a member with its version.
type Runner struct {
	Name cluster.NodeName
	// Assigned is the version that its node is ordered to run, Real what its process
	// says that it is: directories may hold a later patch than their names say. Real
	// is zero where that is not known.
	Assigned, Real etcdversion.Version
	// Storage is the version of its storage format, zero where it does not report.
	Storage etcdversion.Version
	// Hazards is what its node knows of its data.
	Hazards []cluster.Hazard
	// Has are the versions that its node has binaries of, ascending.
	Has []etcdversion.Version
	// Restores says that an operator has allowed the last step to be a restore.
	Restores bool
	// Accepted says that an operator has accepted what may come of the hazards.
	Accepted bool
}

// runs returns the version that the member runs, by its own word.
func (r Runner) runs() etcdversion.Version {
	if r.Real.IsZero() {
		return r.Assigned
	}
	return r.Real
}

// A NoWay says why a running cluster cannot get nearer to a version, and what a
// person can do.
type NoWay struct {
	Why, Do string
	// Risk says that an operator can accept it. Wait says that etcd does it by itself.
	Risk, Wait bool
	// Restore says that a backup and a restore lead there.
	Restore bool
}

func (n *NoWay) String() string { return n.Why + "; " + n.Do }

// NextVersion returns the version that all members are to run next on the way to
// want: want itself, or one between. seen is the cluster version, zero where that
// is not known. It is pure arithmetic: whether the members are well is no matter
// here.
func NextVersion(members []Runner, want, seen etcdversion.Version) (etcdversion.Version, *NoWay) {
	if len(members) == 0 {
		return want, nil
	}
	low, high := members[0].Assigned, members[0].Assigned
	for _, m := range members {
		if m.Assigned.Compare(low) < 0 {
			low = m.Assigned
		}
		if m.Assigned.Compare(high) > 0 {
			high = m.Assigned
		}
	}
	switch {
	case low.Major != want.Major || high.Major != want.Major || high.Minor-low.Minor > 1:
		return want, &NoWay{
			Why: fmt.Sprintf("members run etcd %s and %s", low, high),
			Do:  "only neighbouring minor versions of etcd run together; remove members that are too far apart, and let new ones join",
		}
	case high.Minor > low.Minor:
		return between(members, want, seen, low, high)
	case want.Minor == low.Minor:
		return want, nil
	case want.Minor > low.Minor:
		return up(members, want, seen, low)
	}
	return down(members, want, low)
}

// between is for members of two minor versions: the step that has begun is
// finished first, or reverted while that is possible.
func between(members []Runner, want, seen, low, high etcdversion.Version) (etcdversion.Version, *NoWay) {
	if want.Minor >= high.Minor {
		if !seen.IsZero() && !seen.AtLeast(low.Major, low.Minor) {
			return want, notRaised(seen, low, " or 3."+strconv.Itoa(high.Minor))
		}
		if lack := notMigrated(members, low); lack != nil {
			return want, lack
		}
		if want.Minor == high.Minor {
			return want, unaccepted(members, want)
		}
		return high, unaccepted(members, high)
	}
	if !seen.IsZero() && seen.AtLeast(high.Major, high.Minor) {
		return want, &NoWay{
			Why: fmt.Sprintf("the cluster version is already %d.%d, and no member can run etcd %s any more", seen.Major,
				seen.Minor, want),
			Do: fmt.Sprintf("set the spec to %s", high),
		}
	}
	if want.Minor == low.Minor {
		return want, nil
	}
	for _, m := range members {
		if m.Assigned.Minor == low.Minor && m.Assigned.Compare(low) > 0 {
			low = m.Assigned
		}
	}
	return low, nil
}

// up is for members of one minor version that are to run a later one.
func up(members []Runner, want, seen, low etcdversion.Version) (etcdversion.Version, *NoWay) {
	if !seen.IsZero() && !seen.AtLeast(low.Major, low.Minor) {
		return want, notRaised(seen, low, "")
	}
	if lack := notMigrated(members, low); lack != nil {
		return want, lack
	}
	next := want
	if want.Minor > low.Minor+1 {
		var ok bool
		if next, ok = newestOf(members, low.Minor+1); !ok {
			return want, missingBetween(members, low, want, low.Minor+1)
		}
	}
	lack := floor(members, next)
	if lack == nil {
		return next, nil
	}
	least := next.UpgradeFloor()
	patch, ok := newestOf(members, low.Minor)
	// Those that are at least there stay as they are: see [view.nextToChange].
	moves := func(m Runner) bool { return m.runs().Compare(least) < 0 && m.Assigned.Compare(patch) < 0 }
	if !ok || patch.Compare(least) < 0 || !slices.ContainsFunc(members, moves) {
		return next, unaccepted(members, next)
	}
	return patch, nil
}

// notRaised is for a cluster version below that of all members, which run low or what
// else says.
func notRaised(seen, low etcdversion.Version, other string) *NoWay {
	return &NoWay{
		Why: fmt.Sprintf("the cluster version is still %d.%d, and all members run %d.%d%s", seen.Major, seen.Minor, low.Major,
			low.Minor, other),
		Do:   "etcd's leader raises it within seconds after all members answer",
		Wait: true,
	}
}

// notMigrated is for a member of low's minor version whose data is still that of the one
// before, which etcd changes when the cluster version has risen.
func notMigrated(members []Runner, low etcdversion.Version) *NoWay {
	for _, m := range members {
		if m.Assigned.Minor > low.Minor || m.Storage.IsZero() || m.Storage.AtLeast(low.Major, low.Minor) {
			continue
		}
		return &NoWay{
			Why: fmt.Sprintf("the data of %s is still of etcd %d.%d, and it runs %d.%d", m.Name, m.Storage.Major,
				m.Storage.Minor, low.Major, low.Minor),
			Do:   "etcd upgrades it within seconds after the cluster version has risen",
			Wait: true,
		}
	}
	return nil
}

// unaccepted is floor, unless an operator has accepted what it says.
func unaccepted(members []Runner, next etcdversion.Version) *NoWay {
	if members[0].Accepted {
		return nil
	}
	return floor(members, next)
}

// floor says which members are below the oldest patch that etcd advises before
// next, nil for none. Where what that guards against is proved absent in a member's
// data, its patch does not matter.
func floor(members []Runner, next etcdversion.Version) *NoWay {
	least := next.UpgradeFloor()
	var below []string
	var fix string
	for _, m := range members {
		r := m.runs()
		if r.Minor >= next.Minor || r.Compare(least) >= 0 {
			continue
		}
		found := cluster.HazardsFrom(m.Hazards, r, next)
		switch {
		case len(found) == 0 && r.Minor+1 == next.Minor:
		case len(m.Hazards) == 0:
			below = append(below, fmt.Sprintf("%s runs %s", m.Name, r))
		default:
			below = append(below, fmt.Sprintf("%s runs %s (%s)", m.Name, r, found[0]))
			if h := found[0]; h.State == cluster.HazardPresent && h.Kind != cluster.HazardMembers {
				fix = h.Fix(next) // no patch takes it away
			}
		}
	}
	if len(below) == 0 {
		return nil
	}
	if fix == "" {
		fix = fmt.Sprintf("put binaries of %s or a later patch on every node: etcdadm download --version=%s", least, least)
	}
	return &NoWay{
		Why: fmt.Sprintf("etcd %s is safe to reach from %s on, and %s", next, least, strings.Join(below, ", ")),
		Do:  fix, Risk: true,
	}
}

// newestOf returns the newest patch of a minor version that every member's node
// has.
func newestOf(members []Runner, minor int) (best etcdversion.Version, ok bool) {
	for _, v := range members[0].Has {
		all := !slices.ContainsFunc(members, func(m Runner) bool { return !slices.Contains(m.Has, v) })
		if v.Major == members[0].Assigned.Major && v.Minor == minor && v.Pre == "" && all {
			best, ok = v, true
		}
	}
	return best, ok
}

func holdings(members []Runner) string {
	var words []string
	for _, m := range members {
		var list []string
		for _, v := range m.Has {
			list = append(list, v.String())
		}
		words = append(words, fmt.Sprintf("%s has %s", m.Name, orNone(strings.Join(list, ", "))))
	}
	return strings.Join(words, "; ")
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
