package plan

import (
	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// VersionHolds returns what holds the change of a member to the version of the spec: the
// gates of the daemons, for a cluster of which only the members are observed. Policy.Unbacked
// says that it has no store.
func VersionHolds(spec cluster.Spec, obs cluster.Observation) []Hold {
	l := newView(spec, obs)
	members, _ := l.runners()
	l.versionGates(members, spec.EtcdVersion)
	return l.holds
}

// MakeVersions returns the steps to the version of the spec, and what holds them, by the
// rule for versions alone: where no daemon does what the other rules are about.
func MakeVersions(spec cluster.Spec, obs cluster.Observation) (Plan, error) {
	return repeat(spec, obs, func(spec cluster.Spec, obs cluster.Observation) (Operation, []Hold) {
		l := newView(spec, obs)
		op, _ := ruleVersion(l)
		return op, l.holds
	})
}
