package plan_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

const (
	changeB = "member change-version --node=b --expect-token=t1 --expect-member-id=2 --expect-version=3.5.35 --to=3.6.16"
	backB   = "member change-version --node=b --expect-token=t1 --expect-member-id=2 --expect-version=3.6.16 --to=3.5.35"
)

// versioned is a cluster in which every node has these binaries, and a, b and c run
// these versions.
func versioned(a, b, c string) string {
	const has = " versions=3.4.25,3.5.31,3.5.35,3.6.16,3.7.3"
	return "cluster a b c\nnode a version=" + a + has + "\nnode b version=" + b + has + "\nnode c version=" + c +
		has + "\n"
}

// Every bug that somebody could make in the rule is found by Check, which shares
// no code with it.
func TestCheckOfAChangeOfVersion(t *testing.T) {
	all35 := versioned("3.5.35", "3.5.35", "3.5.35")
	for _, tt := range []struct{ name, invariant, world, line string }{
		{"one minor up", "", all35, changeB},
		{"what is done already", "", versioned("3.5.35", "3.6.16", "3.5.35") + "member c down=1m", changeB},
		{"back while another runs the old one", "", versioned("3.5.35", "3.6.16", "3.6.16"), backB},
		{"try again what has failed", "", all35 + "node b failed=3.6.16", changeB},
		{"a later patch in an older directory", "", versioned("3.5.31", "3.5.35", "3.5.35") + "member a runs=3.5.35",
			changeB},
		{"the leader first", "version", all35 + "leader b", changeB},
		{"two at once", "one-change", all35 + "node c changes=3.6.16", changeB},
		{"a second one after one that hangs", "one-change", all35 + "node c stuck=3.6.16", changeB},
		{"a voter is down", "quorum", all35 + "member c down=1m", changeB},
		{"a voter only answers", "quorum", all35 + "member c late=2s", changeB},
		{"data that nobody has compared", "version", all35 + "node c comparing", changeB},
		{"an alarm", "version", all35 + "member c alarm=NOSPACE", changeB},
		{"a learner", "one-change", all35 + "node d data=4 running\nmember d id=4 learner=1m", changeB},
		{"no backup", "backup", all35 + "backup age=8h", changeB},
		{"no binaries", "version", all35 + "node b versions=3.5.35", changeB},
		{"a patch that is too old", "version", versioned("3.5.31", "3.5.35", "3.5.35"), changeB},
		{"a patch that is too old by its own word", "version", all35 + "member c runs=3.5.31", changeB},
		{"two minors at once", "version", all35, strings.Replace(changeB, "--to=3.6.16", "--to=3.7.3", 1)},
		{"two minors at once, alone", "version", "cluster a\nnode a version=3.5.35 versions=3.5.35,3.6.16,3.7.3",
			"member change-version --node=a --expect-token=t1 --expect-member-id=1 --expect-version=3.5.35 --to=3.7.3"},
		{"away from a member two minors below", "version", versioned("3.4.25", "3.5.35", "3.5.35"), changeB},
		{"back where nobody runs the old one", "version", versioned("3.6.16", "3.6.16", "3.6.16"), backB},
		{"back after the cluster version has risen", "version",
			versioned("3.5.35", "3.6.16", "3.6.16") + "cluster-version 3.6.0", backB},
		{"one of two where three are wanted", "quorum",
			"cluster a b\nnode b version=3.5.35 versions=3.5.35,3.6.16\nnode a version=3.5.35", changeB},
		{"entries in the log that the next version cannot read", "version",
			versioned("3.6.16", "3.6.16", "3.6.16") + "cluster-version 3.6.0\nnode b log=present",
			"member change-version --node=b --expect-token=t1 --expect-member-id=2 --expect-version=3.6.16 --to=3.7.3"},
		{"an earlier patch on the way up", "version", all35, strings.Replace(changeB, "3.6.16", "3.5.31", 1)},
		{"a hazard", "version", all35 + "node a hazard=members", changeB},
		{"a risk that the spec does not accept", "version", all35 + "node a hazard=members",
			changeB + " --accept-version-risk=tested --accept-hazard=members"},
		{"another member than expected", "stale", all35, strings.Replace(changeB, "member-id=2", "member-id=3", 1)},
		{"another version than expected", "stale", all35, strings.Replace(changeB, "3.5.35", "3.5.31", 1)},
		{"another incarnation", "stale", all35, strings.Replace(changeB, "t1", "t0", 1)},
		{"a node without a member", "version", all35 + "nodes d", strings.Replace(changeB, "node=b", "node=d", 1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			breaches(t, checkLine(t, tt.world, tt.line), tt.invariant)
		})
	}
}

// breaches makes sure that err is of an invariant, of "stale", or nil for "".
func breaches(t *testing.T, err error, invariant string) {
	t.Helper()
	var unsafe *plan.UnsafeError
	var stale *plan.StaleError
	switch {
	case invariant == "" && err == nil:
	case invariant == "stale" && errors.As(err, &stale):
	case errors.As(err, &unsafe) && unsafe.Invariant == invariant:
	default:
		t.Errorf("Check returned %v, want a breach of %q", err, invariant)
	}
}

// Whatever versions members run, and whatever is wanted: what comes next is at
// most a minor away from each of them, and no cluster goes round in circles.
func TestNextVersionComesToAnEnd(t *testing.T) {
	var list []etcdversion.Version
	for _, s := range []string{"3.4.25", "3.5.21", "3.5.32", "3.5.35", "3.6.0", "3.6.11", "3.6.16", "3.7.3"} {
		list = append(list, etcdversion.Must(s))
	}
	ways := 0
	for _, from := range list {
		for _, want := range list {
			members := []plan.Runner{{Name: "a", Assigned: from, Has: list}, {Name: "b", Assigned: from, Has: list}}
			var steps []string
			for range 9 {
				next, lack := plan.NextVersion(members, want, etcdversion.Version{})
				if lack != nil {
					steps = nil
					break
				}
				for i := range members {
					if d := next.Minor - members[i].Assigned.Minor; d < -1 || d > 1 {
						t.Errorf("from %s to %s, it goes from %s to %s", from, want, members[i].Assigned, next)
					}
					members[i].Assigned = next
				}
				steps = append(steps, next.String())
				if next == want {
					ways++
					break
				}
			}
			// Down as far as etcd's own downgrade goes.
			if can := want.Minor >= min(5, from.Minor); can && (len(steps) == 0 || members[1].Assigned != want) {
				t.Errorf("from %s to %s there is no way: %v", from, want, steps)
			} else if !can && len(steps) > 0 {
				t.Errorf("from %s to %s it goes by %v", from, want, steps)
			}
		}
	}
	if ways != 64-7 {
		t.Errorf("%d ways", ways)
	}
}
