package lease

import (
	"math"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func TestWhatSupportsARecovery(t *testing.T) {
	old := rec("t1", 3, 1, "a", "b", "x")
	new := rec("t1", 200, 0, "a", "b", "c")
	seen := func(r cluster.LeaseVoters, term cluster.Term) Standing { return Standing{Seen: term, LeaseVoters: r} }
	none := seen(cluster.LeaseVoters{}, 0)
	list := func(names ...cluster.NodeName) []cluster.NodeName { return names }
	for _, tc := range []struct {
		name         string
		record       cluster.LeaseVoters
		expect, lost []cluster.NodeName
		own          Standing
		declared     [][]cluster.NodeName
		answers      map[cluster.NodeName]Standing
		why          string
	}{
		{"those that are gone are declared", new, old.Names, list("b", "x"), seen(old, 7), [][]cluster.NodeName{
			list("b", "x"),
		}, nil, ""},
		{"one is declared, one has lost its record", new, old.Names, list("b", "x"), seen(old, 7), [][]cluster.NodeName{
			list("x"),
		}, map[cluster.NodeName]Standing{"b": none}, ""},
		{"one is not declared", new, old.Names, list("b", "x"), seen(old, 7), [][]cluster.NodeName{list("x"), list("b")}, nil,
			"declares [b x]"},
		{"nobody asked", new, old.Names, nil, none, nil, nil, "no request"},
		{"one answers", new, old.Names, list("b", "x"), seen(old, 7), [][]cluster.NodeName{list("b", "x")},
			map[cluster.NodeName]Standing{"x": seen(old, 7)}, "x answers"},
		{"a node without a record, to which another names a majority", new, nil, list("b"), none, [][]cluster.NodeName{
			list("b"),
		}, map[cluster.NodeName]Standing{"a": seen(old, 7)}, "names [a b x], not []"},
		{"the same, where enough are lost", new, old.Names, list("b", "x"), none, [][]cluster.NodeName{list("b", "x")},
			map[cluster.NodeName]Standing{"a": seen(old, 7)}, ""},
		{"the same, where too few are", new, old.Names, list("x"), none, [][]cluster.NodeName{list("x")},
			map[cluster.NodeName]Standing{"a": seen(old, 7)}, "a majority"},
		{"a term far away", rec("t1", 1<<28, 0, "a", "b", "c"), old.Names, list("b", "x"), seen(old, 7), [][]cluster.NodeName{
			list("b", "x"),
		}, nil, "far above 7"},
		{"a term as far as another voter has seen", rec("t1", 5200, 0, "a", "b", "c"), old.Names, list("b", "x"),
			seen(old, 7), [][]cluster.NodeName{list("b", "x")}, map[cluster.NodeName]Standing{
				"c": seen(cluster.LeaseVoters{}, 5000),
			}, ""},
		{"a term as far as somebody lost says", rec("t1", 5200, 0, "a", "b", "c"), old.Names, list("b", "x", "y"),
			seen(old, 7), [][]cluster.NodeName{list("b", "x", "y")}, map[cluster.NodeName]Standing{
				"y": seen(cluster.LeaseVoters{}, 5000),
			}, "far above"},
		{"a term as far as a voter gone wrong says", rec("t1", 1<<28, 0, "a", "b", "c"), old.Names, list("b", "x"),
			seen(old, 7), [][]cluster.NodeName{list("b", "x")}, map[cluster.NodeName]Standing{
				"c": seen(cluster.LeaseVoters{}, math.MaxUint64),
			}, "far above 7"},
		{"the same, to a node that has seen none", rec("t1", 1<<28, 0, "a", "b", "c"), old.Names, list("b", "x"), none,
			[][]cluster.NodeName{list("b", "x")}, map[cluster.NodeName]Standing{
				"a": seen(old, 7), "c": seen(cluster.LeaseVoters{Term: math.MaxUint64}, 0),
			}, "far above 7"},
		{"one that has gone wrong hides none that has not", rec("t1", 5200, 0, "a", "b", "c"), old.Names, list("b", "x"),
			seen(old, 7), [][]cluster.NodeName{list("b", "x")}, map[cluster.NodeName]Standing{
				"a": seen(cluster.LeaseVoters{}, math.MaxUint64), "c": seen(cluster.LeaseVoters{}, 5000),
			}, ""},
		{"each is in reach of the one below", rec("t1", 7+2*maxJump, 0, "a", "b", "c"), old.Names, list("b", "x"),
			seen(old, 7), [][]cluster.NodeName{list("b", "x")}, map[cluster.NodeName]Standing{
				"a": seen(cluster.LeaseVoters{}, 7+2*maxJump), "c": seen(cluster.LeaseVoters{}, 7+maxJump),
			}, ""},
	} {
		r := Recovery{Record: tc.record, Expect: tc.expect, Lost: tc.lost}
		answers := map[cluster.NodeName]Standing{}
		for _, n := range r.Ask(tc.own.LeaseVoters) {
			if s, ok := tc.answers[n]; ok {
				answers[n] = s
			}
		}
		err := r.Supported(tc.own, tc.declared, answers)
		if (err == nil) != (tc.why == "") || err != nil && !strings.Contains(err.Error(), tc.why) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
