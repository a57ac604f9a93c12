package plan_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// TestLaws asks what every answer of the planner promises, in worlds that are
// put together at random and mostly make no sense: nobody knows what a broken
// machine says. Package sim asks the same of worlds that do.
func TestLaws(t *testing.T) {
	operations, holds, closed := 0, 0, 0
	for seed := range uint64(33000) {
		spec, obs := randomWorld(rand.New(rand.NewPCG(seed, 3)))
		op, why := plan.Next(spec, obs)
		if again, _ := plan.Next(spec, obs); !reflect.DeepEqual(op, again) {
			t.Fatalf("seed %d: Next gives %v, then %v", seed, op, again)
		}
		if op == nil && len(why) == 0 && !plan.Converged(spec, obs) {
			t.Fatalf("seed %d: stuck without a reason in %s", seed, show(obs))
		}
		holds += len(why)
		for _, h := range why {
			if _, ok := plan.Explain(h.Reason); !ok {
				t.Fatalf("seed %d: rule %s has no explanation", seed, h.Reason)
			}
		}
		// The whole plan: it ends, each step passes Check and is done when done.
		p, err := plan.Make(spec, obs)
		if err != nil {
			t.Fatalf("seed %d: %v in %s", seed, err, show(obs))
		}
		if err := turnsAround(p.Operations); err != nil {
			t.Fatalf("seed %d: %v in %s", seed, err, show(obs))
		}
		for _, op := range p.Operations {
			if obs, err = follow(spec, obs, op); err != nil {
				t.Fatalf("seed %d: %v in %s", seed, err, show(obs))
			}
			if _, ok := op.(*plan.QuarantineSet); ok {
				closed++
			}
		}
		if !plan.Converged(spec, obs) && len(p.Holds) == 0 {
			t.Fatalf("seed %d: the plan ends without a reason in %s", seed, show(obs))
		}
		operations += len(p.Operations)
	}
	if operations < 30000 || holds < 3000 || closed < 100 {
		t.Errorf("%d operations, %d holds and %d closed members are too few to prove anything", operations, holds, closed)
	}
}

// turnsAround looks for a member that is closed to clients and opened again, or the other
// way round, although nothing new was asked for: it is restarted by each.
func turnsAround(ops []plan.Operation) error {
	last := map[cluster.NodeName]plan.Operation{}
	for _, op := range ops {
		node := cluster.NodeName("")
		switch op := op.(type) {
		case *plan.QuarantineSet:
			node = op.Node
		case *plan.QuarantineLift:
			node = op.Node
		case *plan.SpecWrite, *plan.IncarnationCreate, *plan.RequestClose:
			clear(last)
		}
		if node == "" {
			continue
		}
		if before := last[node]; before != nil && plan.KindOf(before).Path != plan.KindOf(op).Path {
			return fmt.Errorf("%s, and then %s", plan.Line(before), plan.Line(op))
		}
		last[node] = op
	}
	return nil
}

// TestPredictLeavesItsArgumentAlone makes sure that a prediction changes
// nothing that someone else still checks.
func TestPredictLeavesItsArgumentAlone(t *testing.T) {
	for seed := range uint64(3000) {
		spec, obs := randomWorld(rand.New(rand.NewPCG(seed, 3)))
		_, same := randomWorld(rand.New(rand.NewPCG(seed, 3)))
		p, err := plan.Make(spec, obs)
		if err != nil {
			t.Fatal(err)
		}
		now := obs
		for _, op := range p.Operations {
			now = plan.Predict(now, op)
		}
		if !reflect.DeepEqual(obs, same) {
			t.Fatalf("seed %d: the observation changed to %s", seed, show(obs))
		}
	}
}

func show(obs cluster.Observation) string {
	text := fmt.Sprintf("token %s leader %s lease voters %v store %+v", obs.Token, obs.Leader, obs.LeaseVoters, obs.Store)
	for _, n := range obs.Nodes {
		text += fmt.Sprintf("\nnode %s reachable=%v disk=%+v prepared=%v assigned=%+v process=%s", n.Name, n.Reachable,
			n.Disk, n.Prepared, n.Assigned, n.Process.State)
	}
	for _, m := range obs.Members {
		text += fmt.Sprintf("\nmember %s %q learner=%v healthy=%v %v", m.ID, m.Name, m.Learner, m.Healthy, m.PeerURLs)
	}
	return text
}

func randomWorld(r *rand.Rand) (cluster.Spec, cluster.Observation) {
	s := newStage()
	s.spec.MemberCount = 1 + r.IntN(5)
	one := func(n int) bool { return r.IntN(n) == 0 }
	s.obs.Token = "t1"
	if one(3) {
		s.lines = append(s.lines, "bare")
	}
	for i, name := range []cluster.NodeName{"a", "b", "c", "d", "e", "f"}[:1+r.IntN(6)] {
		randomNode(r, s, s.node(name), cluster.MemberID(i+1))
	}
	if !one(3) {
		for i, n := range s.obs.Nodes {
			if !one(3) {
				randomMember(r, s, s.member(n.Name), cluster.MemberID(i+1))
			}
		}
	}
	s.defaults()
	s.elect("")
	s.sort()
	store := &s.obs.Store
	store.Reachable, store.BackupsKnown = !one(8), !one(8)
	store.SpecMissing = store.Reachable && one(8)
	if one(3) {
		s.obs.Store.Backups = nil
	}
	if one(4) {
		s.obs.LeaseVoters.Names = s.obs.LeaseVoters.Names[:len(s.obs.LeaseVoters.Names)/2]
	}
	if one(3) {
		store.Incarnations = []cluster.Incarnation{
			{Number: 1, Token: "n1", Version: standard, Voters: s.initialMembers("a,b,c")},
		}
	}
	return s.spec, s.obs
}

func randomNode(r *rand.Rand, s *stage, n *cluster.Node, id cluster.MemberID) {
	one := func(k int) bool { return r.IntN(k) == 0 }
	tokens := []cluster.Token{"t1", "t1", "t1", "t0", "n1"}
	n.Reachable, n.Published = !one(5), !one(5)
	if one(3) {
		n.Disk = cluster.Disk{State: cluster.DiskData, Token: tokens[r.IntN(5)], MemberID: []cluster.MemberID{
			id, id, 0, 7,
		}[r.IntN(4)]}
	} else if one(10) {
		n.Disk = cluster.Disk{State: cluster.DiskUnreadable, Problem: "rust"}
	}
	if one(2) {
		n.Assigned = &cluster.Assigned{Token: tokens[r.IntN(5)], Version: standard, Stopped: one(4), Quarantined: one(4)}
		n.Process.State = []cluster.ProcessState{
			cluster.ProcessRunning, cluster.ProcessRunning, cluster.ProcessCrashing, cluster.ProcessStopped,
		}[r.IntN(4)]
	}
	if one(4) {
		n.Prepared = &cluster.Prepared{
			Token: tokens[r.IntN(5)], Version: standard, Voters: s.initialMembers([]string{"a", "a,b", "a,b,c"}[r.IntN(3)]),
		}
	}
	if one(12) {
		n.Conflict = "10.0.0.9:3996"
	}
	if one(12) {
		n.Versions = nil
	}
	if one(12) {
		n.ClockSkew = time.Hour
	}
	if one(6) {
		n.SetAside = []cluster.SetAside{{Name: "old", At: s.obs.At.Add(-time.Duration(r.IntN(400)) * time.Hour)}}
	}
	if one(8) && n.Disk.State == cluster.DiskEmpty {
		*n = cluster.Node{Name: n.Name, Address: n.Address}
	}
}

func randomMember(r *rand.Rand, s *stage, m *cluster.Member, id cluster.MemberID) {
	one := func(k int) bool { return r.IntN(k) == 0 }
	m.ID = id
	m.Applied = []uint64{100, 100, 50, 0}[r.IntN(4)]
	if one(6) {
		m.Learner, m.LearnerSince = true, s.obs.At.Add(-time.Duration(r.IntN(15))*time.Minute)
	}
	if one(4) {
		m.Healthy, m.UnhealthySince = false, s.obs.At.Add(-time.Duration(r.IntN(150))*time.Second)
	}
	if m.Learner && one(2) {
		m.Name, m.Healthy = "", false
	}
	if one(12) {
		m.ClientURLs = nil
	}
	if one(12) {
		m.Alarms = []string{"CORRUPT"}
	}
}
