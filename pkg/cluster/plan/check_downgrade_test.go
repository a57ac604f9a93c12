package plan_test

import (
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// An older etcd is started only on data that etcd itself has made data of it, and
// made so for all members.
func TestCheckOfADowngrade(t *testing.T) {
	const (
		enable = "downgrade enable --to=3.5.0 --expect-cluster-version=3.6.0"
		cancel = "downgrade cancel --expect-to=3.5.0"
		stored = "member a storage=3.5.0\nmember b storage=3.5.0\nmember c storage=3.5.0\n"
	)
	all36 := versioned("3.6.16", "3.6.16", "3.6.16") + "cluster-version 3.6.0\n"
	prepared := all36 + "cluster-version 3.5.0\ndowngrade 3.5.0\n" + stored
	for _, tt := range []struct{ name, invariant, world, line string }{
		{"on data that etcd has prepared", "", prepared, backB},
		{"one member's data is not prepared", "version", prepared + "member c storage=3.6.0", backB},
		{"nobody knows of which version a member's data is", "version",
			all36 + "cluster-version 3.5.0\ndowngrade 3.5.0\nmember b storage=3.5.0", backB},
		{"its own data is not prepared, and others run the old one", "version",
			versioned("3.5.35", "3.6.16", "3.6.16") + "cluster-version 3.5.0\ndowngrade 3.5.0\nmember b storage=3.6.0", backB},
		{"the downgrade was cancelled", "version", all36 + "cluster-version 3.5.0\n" + stored, backB},
		{"the cluster version is not lowered yet", "version", prepared + "cluster-version 3.6.0", backB},
		{"two minors", "version", prepared,
			strings.Replace(backB, "--to=3.5.35", "--to=3.4.25", 1)},
		{"the leader first", "version", prepared + "leader b", backB},
		{"two at once", "one-change", prepared + "node c changes=3.5.35", backB},
		{"enable", "", all36, enable},
		{"enable what is", "", prepared, enable},
		{"enable while another is under way", "stale", all36 + "downgrade 3.4.0", enable},
		{"enable two minors at once", "version", all36 + "cluster-version 3.7.0",
			"downgrade enable --to=3.5.0 --expect-cluster-version=3.7.0"},
		{"enable what etcd cannot", "version", versioned("3.5.35", "3.5.35", "3.5.35") + "cluster-version 3.5.0",
			"downgrade enable --to=3.4.0 --expect-cluster-version=3.5.0"},
		{"enable a patch", "version", all36, "downgrade enable --to=3.5.35 --expect-cluster-version=3.6.0"},
		{"enable at another cluster version", "stale", all36 + "cluster-version 3.5.0", enable},
		{"enable between two versions", "version", all36 + "node c version=3.5.35", enable},
		{"enable without binaries", "version", all36 + "node c versions=3.6.16", enable},
		{"enable while a voter is down", "quorum", all36 + "member c down=1m", enable},
		{"enable with an alarm", "version", all36 + "member c alarm=NOSPACE", enable},
		{"enable with a learner", "version", all36 + "node d data=4 running\nmember d id=4 learner=1m", enable},
		{"enable while a member changes", "one-change", all36 + "node c version=3.6.11 changes=3.6.16", enable},
		{"enable without a backup", "backup", all36 + "backup age=8h", enable},
		{"cancel", "", prepared, cancel},
		{"cancel between two versions", "", prepared + "node c version=3.5.35", cancel},
		{"cancel what is over", "", all36, cancel},
		{"cancel another", "stale", all36 + "downgrade 3.4.0", cancel},
		{"cancel while a member changes", "one-change", prepared + "node c changes=3.5.35", cancel},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage()
			s.spec.EtcdVersion = etcdversion.Must("3.5.35")
			if err := s.observe(tt.world); err != nil {
				t.Fatal(err)
			}
			op, err := plan.Parse(strings.Fields(tt.line))
			if err != nil {
				t.Fatal(err)
			}
			breaches(t, plan.Check(s.spec, s.obs, op), tt.invariant)
		})
	}
	// What nobody asks for is not prepared.
	breaches(t, checkLine(t, all36, enable), "version")
}
