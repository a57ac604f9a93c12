package plan

import (
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// The way to a version may lead through others, and is not begun where it could not be
// gone to its end: members that have changed a minor version up cannot always go back. One
// that has begun is finished first, up to the end of the minor version.

// seesTheEnd holds, and reports false, where the members could begin a step to next, but
// not go on from there to the version that the spec asks for: a node has no binaries, or a
// member would lose settings. Nodes that do not answer are held for elsewhere.
func (l *view) seesTheEnd(members []Runner, next etcdversion.Version) bool {
	want := l.spec.EtcdVersion
	if next == want || l.stepBegun(members) {
		return true
	}
	members = slices.DeleteFunc(slices.Clone(members), func(m Runner) bool { return !l.node(m.Name).Reachable })
	if len(members) == 0 {
		return true
	}
	before := len(l.holds)
	change := "the change to etcd " + next.String()
	further := minorsBetween(next, want)
	for _, minor := range further {
		if _, ok := newestOf(members, minor); !ok {
			l.hold(BinaryMissing, "%s waits: %s%s", change, missingBetween(members, members[0].Assigned, want, minor),
				l.fetches(members))
		}
	}
	var lacking []string
	for _, m := range members {
		if !slices.Contains(m.Has, want) {
			lacking = append(lacking, string(m.Name)+l.broken(m.Name, want))
		}
	}
	if len(lacking) > 0 {
		l.hold(BinaryMissing, "%s, on the way to %s, waits: %s have no binaries of %s; on each: etcdadm download --version=%s; "+
			"or set the spec to a version that they have",
			change, want, strings.Join(lacking, ", "), want, want)
	}
	for _, m := range members {
		if why := l.cannotRaise(l.node(m.Name), want); restoresTo(want) && why != "" {
			l.hold(BinaryMissing, "%s, on the way to %s, waits: %s", change, want, why)
		}
		l.keepsSettingsLater(l.node(m.Name), next, further)
	}
	return len(l.holds) == before
}

// stepBegun reports whether members are between two minor versions, or etcd has been given
// that they will be.
func (l *view) stepBegun(members []Runner) bool {
	return !l.obs.Downgrade.IsZero() || slices.ContainsFunc(members, func(m Runner) bool {
		return minorOf(m.Assigned) != minorOf(members[0].Assigned)
	})
}

// minorsBetween are the minor versions through which members go from one version to
// another, without those of the two, in order; to one that only a restore reaches, as far
// as they are downgraded.
func minorsBetween(from, to etcdversion.Version) (list []int) {
	for minor := from.Minor + 1; minor < to.Minor; minor++ {
		list = append(list, minor)
	}
	for minor := from.Minor - 1; minor > to.Minor && minor >= oldestDowngrade.Minor; minor-- {
		list = append(list, minor)
	}
	return list
}

// keepsSettingsLater is [view.keepsSettings] for what comes after next, where next itself
// keeps them.
func (l *view) keepsSettingsLater(n *cluster.Node, next etcdversion.Version, further []int) {
	variable := func(lost string) string { name, _, _ := strings.Cut(lost, "="); return name }
	want := l.spec.EtcdVersion
	said := slices.Clone(n.LostBefore(next))
	for _, minor := range append(slices.Clone(further), want.Minor) {
		v := etcdversion.Version{Major: want.Major, Minor: minor}
		lost := slices.DeleteFunc(slices.Clone(n.LostBefore(v)), func(what string) bool {
			return slices.ContainsFunc(said, func(s string) bool { return variable(s) == variable(what) })
		})
		if len(lost) == 0 {
			continue
		}
		said = append(said, lost...)
		l.hold(VersionSettings, "the change to etcd %s, on the way to %s, waits: on %s %s; take it out of the environment of "+
			"its daemon", next, want, n.Name, strings.Join(lost, "; "))
	}
}
