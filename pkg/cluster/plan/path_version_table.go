package plan

import (
	"strings"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// waysOf are the versions that docs/versions.md has a table of: the oldest that is
// managed, patches below and above the floors, and the newest.
var waysOf = []string{"3.4.25", "3.5.0", "3.5.21", "3.5.35", "3.6.0", "3.6.11", "3.6.16", "3.7.3"}

// A Way says how a cluster comes from one version to another.
type Way struct{ From, To, How string }

// Ways returns how a cluster comes from each version of a list to each other, where
// every node has binaries of all of them, and the oldest patches from which the
// next minor version may be reached. docs/versions.md is made of it.
func Ways() (list []string, ways []Way, floors map[string]string) {
	floors = map[string]string{}
	for _, from := range waysOf {
		v := etcdversion.Must(from)
		if least := v.UpgradeFloor(); !least.IsZero() {
			floors[from[:3]] = least.String()
		}
		for _, to := range waysOf {
			ways = append(ways, Way{from, to, wayTo(v, etcdversion.Must(to))})
		}
	}
	return waysOf, ways, floors
}

func wayTo(from, to etcdversion.Version) string {
	if from == to {
		return "-"
	}
	members := []Runner{{Name: "a", Assigned: from, Restores: true}}
	for _, w := range waysOf {
		members[0].Has = append(members[0].Has, etcdversion.Must(w))
	}
	words := []string{"rolling"}
	if to.Minor < from.Minor {
		words[0] = "downgrade"
	}
	for range waysOf {
		next, lack := NextVersion(members, to, etcdversion.Version{})
		if lack != nil && from.Minor == members[0].Assigned.Minor {
			return "restore"
		}
		if lack != nil {
			return strings.Join(words, ", ") + ", then restore"
		}
		if next == to {
			return strings.Join(words, ", ")
		}
		members[0].Assigned = next
		words = append(words, "by "+next.String())
	}
	return "none"
}
