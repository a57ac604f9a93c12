package render

import (
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// warnings are what to know of what the spec asks for: of its number of members, and of the
// change to its etcd version.
func warnings(spec cluster.Spec, obs cluster.Observation) (list []string) {
	if text := cluster.EvenVoters(spec.MemberCount); text != "" {
		list = append(list, text)
	}
	if text := plan.BelowFloor(spec, obs); text != "" {
		list = append(list, text)
	}
	return list
}

// upgradeRows say in one line by which versions the members come to the one that the spec
// asks for, and below it what to know of that.
func upgradeRows(s Status) (rows [][]string) {
	if n := len(s.Upgrade); n > 0 {
		var words []string
		for _, v := range s.Upgrade {
			words = append(words, v.String())
		}
		name, line := "upgrade", strings.Join(words, " -> ")
		if want := s.Report.Spec.EtcdVersion; s.Upgrade[0].Compare(want) > 0 {
			name = "downgrade"
		}
		if want := s.Report.Spec.EtcdVersion; s.Upgrade[n-1] != want {
			line += ", and from there no way to " + want.String() + " yet"
		}
		rows = append(rows, []string{name, line})
	}
	for _, text := range s.Warnings {
		rows = append(rows, []string{"warning", cli.Plain(text)})
	}
	return rows
}
