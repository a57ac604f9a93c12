package plan_test

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// A set of nodes, a bit for each.
type set uint

func setOf(names []cluster.NodeName) (s set) {
	for _, n := range names {
		s |= 1 << (n[0] - 'a')
	}
	return s
}

func (s set) names() (list []string) {
	for i := range 16 {
		if s>>i&1 == 1 {
			list = append(list, string(rune('a'+i)))
		}
	}
	return list
}

// majority reports whether more than half of s is in alive.
func (s set) majority(alive set) bool {
	return 2*bits.OnesCount(uint(s&alive)) > bits.OnesCount(uint(s))
}

// wedge returns nodes whose loss leaves etcd's voters a majority and one of the
// lists of lease voters none, and whether there are any.
func wedge(voters set, leaseVoters ...set) (lost set, found bool) {
	all := voters
	for _, e := range leaseVoters {
		all |= e
	}
	for lost = range all + 1 {
		if lost&^all != 0 || !voters.majority(all&^lost) {
			continue
		}
		for _, e := range leaseVoters {
			if !e.majority(all &^ lost) {
				return lost, true
			}
		}
	}
	return 0, false
}

func voting(obs cluster.Observation) (s set) {
	for _, m := range obs.Members {
		if !m.Learner {
			s |= setOf([]cluster.NodeName{m.Name})
		}
	}
	return s
}

// TestLeaseVotersTolerateWhatVotersTolerate follows the plans of clusters that
// grow, shrink and have a voter replaced, of all sizes. In no state on the way,
// and in no half-way state of a write, may nodes be lost so that etcd serves and
// nobody can coordinate it.
func TestLeaseVotersTolerateWhatVotersTolerate(t *testing.T) {
	const all = "a b c d e f g"
	for n := 1; n <= cluster.MaxMembers; n++ {
		names := strings.Fields(all)[:n]
		running := "cluster " + strings.Join(names, " ") + "\n"
		for _, world := range []struct {
			members int
			text    string
		}{
			{min(n+1, cluster.MaxMembers), running + "nodes h"},
			{cluster.MaxMembers, running + "nodes h i j k l m"},
			{max(n-1, 1), running},
			{1, running},
			{n, running + "node " + names[n-1] + " down\nmember " + names[n-1] + " down=1h\nnodes h"},
			{max(n-1, 1), running + "node " + names[n-1] + " down\nmember " + names[n-1] + " down=1h\nnodes h"},
		} {
			s := newStage()
			s.spec.MemberCount = world.members
			if err := s.observe(world.text); err != nil {
				t.Fatal(err)
			}
			p, err := plan.Make(s.spec, s.obs)
			if err != nil {
				t.Fatalf("%d voters to %d: %v", n, world.members, err)
			}
			obs := s.obs
			for _, op := range p.Operations {
				leaseVoters := []set{setOf(obs.LeaseVoters.Names)}
				if w, ok := op.(*plan.LeaseVotersWrite); ok {
					leaseVoters = append(leaseVoters, setOf(w.Names))
				}
				if lost, found := wedge(voting(obs), leaseVoters...); found {
					t.Errorf("%d voters to %d, before %s: the loss of %v of voters %v leaves no majority of the lease voters %v",
						n, world.members, plan.Line(op), lost.names(), voting(obs).names(), obs.LeaseVoters.Names)
				}
				obs = plan.Predict(obs, op)
			}
			if lost, found := wedge(voting(obs), setOf(obs.LeaseVoters.Names)); found {
				t.Errorf("%d voters to %d, at the end: the loss of %v is a wedge", n, world.members, lost.names())
			}
		}
	}
}

// TestCheckKeepsLeaseVotersWithVoters tries every change of one name in every
// state without a wedge. Check lets exactly those pass that lead to another one.
func TestCheckKeepsLeaseVotersWithVoters(t *testing.T) {
	tried := 0
	for n := 1; n <= cluster.MaxMembers; n++ {
		voters := set(1)<<n - 1
		for other := range 9 { // of the lease voters: h is a learner, i is not a member
			leaseVoters := voters
			if other > 0 {
				leaseVoters ^= 1 << (other - 1)
			}
			if _, found := wedge(voters, leaseVoters); leaseVoters == 0 || found {
				continue
			}
			obs := withLeaseVoters(t, n, leaseVoters)
			for i := range 9 {
				name := cluster.NodeName(rune('a' + i))
				for _, c := range []struct {
					op     plan.Operation
					voters set
					write  set
				}{
					{&plan.Promote{Name: "h", ExpectVoters: n}, voters | 1<<7, leaseVoters},
					{&plan.Remove{ID: cluster.MemberID(i + 1), ExpectName: name, ExpectVoters: n}, voters &^ (1 << i), leaseVoters},
					{&plan.LeaseVotersWrite{Token: "t1", Names: nodeNames(leaseVoters ^ 1<<i), Expect: nodeNames(leaseVoters)}, voters,
						leaseVoters ^ 1<<i},
				} {
					_, found := wedge(c.voters, c.write)
					var unsafe *plan.UnsafeError
					err := plan.Check(cluster.Spec{}, obs(c.op), c.op)
					refused := err != nil && asUnsafe(err, &unsafe) && unsafe.Invariant == "lease-voters"
					if c.voters == 0 || c.write == 0 || n == 1 && err != nil && !refused {
						continue
					}
					if tried++; refused != found {
						t.Errorf("voters %v, lease voters %v: %s: refused is %v (%v), a wedge is %v", voters.names(), leaseVoters.names(),
							plan.Line(c.op), refused, err, found)
					}
				}
			}
		}
	}
	if tried < 500 {
		t.Errorf("only %d changes were tried", tried)
	}
}

func asUnsafe(err error, target **plan.UnsafeError) (ok bool) {
	*target, ok = err.(*plan.UnsafeError) //nolint:errorlint // Check returns it as it is
	return ok
}

func nodeNames(s set) (list []cluster.NodeName) {
	for _, n := range s.names() {
		list = append(list, cluster.NodeName(n))
	}
	return list
}

// withLeaseVoters returns n voters with these lease voters. The learner h is there for
// the operations that need one, and not for those that none may disturb; the
// leader is never the one that goes.
func withLeaseVoters(t *testing.T, n int, leaseVoters set) func(plan.Operation) cluster.Observation {
	t.Helper()
	world := func(learner bool, leader int) cluster.Observation {
		s := newStage()
		list := strings.Join(leaseVoters.names(), ",")
		text := "cluster " + strings.Join((set(1)<<n-1).names(), " ") + "\nlease-voters " + list + " on=" + list +
			"\nleader " + string(rune('a'+leader)) + "\n"
		if learner {
			text += "node h data=" + strconv.Itoa(8) + " running\nmember h id=8 learner=1m\n"
		}
		if err := s.observe(text); err != nil {
			t.Fatal(err)
		}
		return s.obs
	}
	return func(op plan.Operation) cluster.Observation {
		r, remove := op.(*plan.Remove)
		if !remove {
			return world(true, 0)
		}
		leader := 0
		if r.ID == 1 && n > 1 {
			leader = 1
		}
		return world(false, leader)
	}
}

// TestWedgeIsFound makes sure that the search finds what it is there for.
func TestWedgeIsFound(t *testing.T) {
	var found []string
	for n := 1; n <= 4; n++ {
		voters := set(1)<<n - 1
		if _, ok := wedge(voters, voters|1<<7); ok {
			found = append(found, fmt.Sprintf("%d+1", n))
		}
		if _, ok := wedge(voters, voters&^1); ok && n > 1 {
			found = append(found, fmt.Sprintf("%d-1", n))
		}
	}
	if want := []string{"1+1", "3+1", "3-1"}; !slices.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
}
