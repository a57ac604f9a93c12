package plan_test

import (
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// The path is known also where something holds the next step, in the middle of it, and as far
// as it leads. That it is the plan's, each scenario checks.
func TestUpgradePath(t *testing.T) {
	const all = " versions=3.4.25,3.5.31,3.5.35,3.6.16,3.7.3\n"
	of := func(a, b string) string {
		return "cluster a b\nnode a version=" + a + all + "node b version=" + b + all
	}
	for _, c := range []struct{ name, want, world, path string }{
		{"what runs is what is wanted", "3.6.16", of("3.6.16", "3.6.16"), ""},
		{"a patch", "3.5.35", of("3.5.31", "3.5.31"), "3.5.31 3.5.35"},
		{"several minors", "3.7.3", of("3.4.25", "3.4.25"), "3.4.25 3.5.35 3.6.16 3.7.3"},
		{"a patch first", "3.7.3", of("3.5.31", "3.5.31"), "3.5.31 3.5.35 3.6.16 3.7.3"},
		{"a member is being changed", "3.7.3", of("3.5.35", "3.5.35") + "node b changes=3.6.16\ncluster-version 3.5.0",
			"3.5.35 3.6.16 3.7.3"},
		{"one has changed", "3.7.3", of("3.5.35", "3.6.16") + "cluster-version 3.5.0", "3.5.35 3.6.16 3.7.3"},
		{"all have changed, and the cluster version has not", "3.7.3", of("3.6.16", "3.6.16") + "cluster-version 3.5.0",
			"3.6.16 3.7.3"},
		{"reverted", "3.5.35", of("3.5.35", "3.6.16") + "cluster-version 3.5.0", "3.6.16 3.5.35"},
		{"down", "3.5.35", of("3.7.3", "3.7.3"), "3.7.3 3.6.16 3.5.35"},
		{"a voter does not serve", "3.7.3", of("3.6.16", "3.6.16") + "member b down=1m", "3.6.16 3.7.3"},
		{"no binaries of the last version", "3.7.3", of("3.5.35", "3.5.35") + "node b versions=3.5.35,3.6.16",
			"3.5.35 3.6.16 3.7.3"},
		{"a release candidate in the middle", "3.7.3", of("3.5.35", "3.5.35") +
			"node a versions=3.5.35,3.6.16,3.6.17-rc.0,3.7.3\nnode b versions=3.5.35,3.6.16,3.6.17-rc.0,3.7.3",
			"3.5.35 3.6.16 3.7.3"},
		{"none in the middle", "3.7.3", of("3.4.25", "3.4.25") + "node b versions=3.4.25,3.5.35,3.7.3", "3.4.25 3.5.35"},
		{"none at first", "3.6.16", of("3.4.25", "3.4.25") + "node b versions=3.4.25,3.6.16", ""},
		{"a restore without the word", "3.4.25", of("3.6.16", "3.6.16"), ""},
		{"a restore", "3.4.25", of("3.6.16", "3.6.16") + "request r1 kind=restore sealed version=3.4.25",
			"3.6.16 3.5.35 3.4.25"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage()
			s.spec.EtcdVersion = etcdversion.Must(c.want)
			if err := s.observe(c.world); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range plan.UpgradePath(s.spec, s.obs) {
				got = append(got, v.String())
			}
			if path := strings.Join(got, " "); path != c.path {
				t.Errorf("the upgrade path is %q, want %q", path, c.path)
			}
		})
	}
}

// Who goes on from a patch that etcd advises against is warned, and reads what was looked
// for instead.
func TestBelowFloor(t *testing.T) {
	const all = " versions=3.5.21,3.5.35,3.6.0,3.6.16,3.7.3"
	of := func(version, a, b string) string {
		return "cluster a b\nnode a version=" + version + all + a + "\nnode b version=" + version + all + b + "\n"
	}
	const none = " hazard=none"
	for _, c := range []struct{ name, want, world, text string }{
		{"proved absent", "3.6.16", of("3.5.21", none, none), "etcd advises 3.5.32 before 3.6, and a runs 3.5.21, b runs " +
			"3.5.21: what that guards against (v2-content, members, v2-log) was looked for in their data, and is not there"},
		{"on the way further", "3.7.3", of("3.5.21", none, none), "etcd advises 3.5.32 before 3.6, and a runs 3.5.21, b " +
			"runs 3.5.21: what that guards against (v2-content, members, v2-log) was looked for in their data, and is not " +
			"there"},
		{"before 3.7", "3.7.3", of("3.6.0", none, none), "etcd advises 3.6.11 before 3.7, and a runs 3.6.0, b runs 3.6.0: " +
			"what that guards against (members) was looked for in their data, and is not there"},
		{"one is left", "3.6.16", of("3.5.21", none, none) + "node a version=3.6.16\ncluster-version 3.5.0",
			"etcd advises 3.5.32 before 3.6, and b runs 3.5.21: what that guards against (v2-content, members, v2-log) was " +
				"looked for in their data, and is not there"},
		{"another patch than its directory says", "3.6.16", of("3.5.21", none, none) + "member a runs=3.5.35\n" +
			"member b runs=3.5.35", ""},
		{"a patch comes first", "3.6.16", of("3.5.21", none, " hazard=unknown"), ""},
		{"accepted", "3.6.16", of("3.5.21", " hazard=members", " hazard=members") + "node a versions=3.5.21,3.6.16", ""},
		{"nobody has looked", "3.6.16", of("3.5.21", "", "") + "node a versions=3.5.21,3.6.16", ""},
		{"new enough", "3.6.16", of("3.5.35", none, none), ""},
		{"within a minor version", "3.5.35", of("3.5.21", none, none), ""},
		{"down", "3.5.21", of("3.6.0", none, none) + "cluster-version 3.6.0", ""},
		{"as the spec says", "3.5.21", of("3.5.21", none, none), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage()
			s.spec.EtcdVersion = etcdversion.Must(c.want)
			if c.name == "accepted" {
				s.spec.Risk.Version, s.spec.Risk.Reason = s.spec.EtcdVersion, "tried"
			}
			if err := s.observe(c.world); err != nil {
				t.Fatal(err)
			}
			if got := plan.BelowFloor(s.spec, s.obs); got != c.text {
				t.Errorf("it warns: %q\nwant: %q", got, c.text)
			}
		})
	}
}
