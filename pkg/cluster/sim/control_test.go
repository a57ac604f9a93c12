package sim

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

type planner func(cluster.Spec, cluster.Observation) (plan.Operation, []plan.Hold)

// controls are planners that are broken on purpose. Each must be caught: by
// Check before the effect, and, where executors do as they are ordered, by the
// world itself. A net that never catches anything proves nothing.
var controls = []struct {
	name string
	// checked and trusting are the invariants that may catch it, with Check and
	// without; empty where that net is not meant to.
	checked, trusting string
	next              planner
}{
	{"changes members without a backup", "check", "backup",
		func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
			if len(obs.Members) > 0 {
				obs.Store.Backups = append([]cluster.Backup{{Name: "dream", At: obs.At}}, obs.Store.Backups...)
			}
			return plan.Next(spec, obs)
		}},
	{"removes a healthy voter at the edge of the quorum", "check", "quorum grace",
		func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
			voters, sick := 0, 0
			var victim cluster.Member
			for _, m := range obs.Members {
				if m.Learner {
					return plan.Next(spec, obs)
				}
				voters++
				if !m.Healthy {
					sick++
				} else if m.ID != obs.Leader {
					victim = m
				}
			}
			if sick == 1 && voters == 3 && obs.Leader != 0 && victim.ID != 0 && len(obs.Store.Backups) > 0 {
				return &plan.Remove{ID: victim.ID, ExpectName: victim.Name, ExpectVoters: voters}, nil
			}
			return plan.Next(spec, obs)
		}},
	{"takes a member that answers for healthy", "check", "quorum",
		func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
			obs.Members, obs.Nodes = append([]cluster.Member(nil), obs.Members...), append([]cluster.Node(nil), obs.Nodes...)
			for i := range obs.Members {
				if m := &obs.Members[i]; m.Condition == cluster.Hung || m.Condition == cluster.Late ||
					m.Condition == cluster.Stuck {
					m.Healthy, m.Condition, m.UnhealthySince = true, cluster.Serving, time.Time{}
				}
			}
			for i := range obs.Nodes {
				obs.Nodes[i].Storage = cluster.Storage{}
			}
			return plan.Next(spec, obs)
		}},
	{"removes the leader", "check", "", func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
		op, holds := plan.Next(spec, obs)
		if _, ok := op.(*plan.MoveLeader); ok {
			for _, m := range obs.Members {
				if m.ID == obs.Leader {
					return &plan.Remove{ID: m.ID, ExpectName: m.Name, ExpectVoters: len(obs.Members)}, nil
				}
			}
		}
		return op, holds
	}},
	{"bootstraps without looking for evidence", "check", "bootstrap two-clusters fresh-disk data-lost",
		func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
			number := len(obs.Store.Incarnations) + 1
			if len(obs.Members) == 0 {
				obs.Store = cluster.Store{Reachable: true, BackupsKnown: true}
				obs.Nodes = append([]cluster.Node(nil), obs.Nodes...)
				for i := range obs.Nodes {
					n := &obs.Nodes[i]
					if !n.Reachable || n.Disk.State == cluster.DiskData {
						n.Disk, n.Assigned = cluster.Disk{State: "ignored"}, nil
					}
				}
			}
			op, holds := plan.Next(spec, obs)
			if c, ok := op.(*plan.IncarnationCreate); ok {
				c.Number = number
			}
			return op, holds
		}},
	{"starts a voter that has lost its disk", "check", "fresh-disk",
		func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
			for _, n := range obs.Nodes {
				for _, m := range obs.Members {
					if m.Name == n.Name && n.Reachable && !m.Learner && len(m.ClientURLs) > 0 && n.Disk.State == cluster.DiskEmpty &&
						n.Process.State == cluster.ProcessStopped && n.Assigned == nil {
						return &plan.MemberStart{Node: n.Name, Token: obs.Token, Mode: plan.StartJoin, Version: spec.EtcdVersion}, nil
					}
				}
			}
			return plan.Next(spec, obs)
		}},
	{"knows no grace", "grace", "grace", func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
		spec.Policy.Grace = time.Nanosecond
		return plan.Next(spec, obs)
	}},
	{"clears a dead voter's disk before it is removed", "check", "live-data",
		func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
			for _, n := range obs.Nodes {
				for _, m := range obs.Members {
					if m.ID != n.Disk.MemberID || m.Learner || m.Healthy || !n.Reachable || n.Assigned == nil {
						continue
					}
					if n.Process.State == cluster.ProcessCrashing {
						return &plan.MemberStop{Node: n.Name, ExpectToken: n.Disk.Token, ExpectMemberID: m.ID}, nil
					}
					if n.Assigned.Stopped {
						return &plan.DataSetAside{Node: n.Name, Token: n.Disk.Token, ExpectMemberID: m.ID}, nil
					}
				}
			}
			return plan.Next(spec, obs)
		}},
	{"prunes the newest backup", "check", "newest",
		func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
			op, holds := plan.Next(spec, obs)
			if op == nil && len(obs.Store.Backups) > 1 {
				return &plan.BackupPrune{Remove: []string{obs.Store.Backups[0].Name}}, nil
			}
			return op, holds
		}},
	{"adds two learners at once", "check", "",
		func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
			op, holds := plan.Next(spec, obs)
			if s, ok := op.(*plan.MemberStart); ok && s.Mode == plan.StartJoin {
				for _, n := range obs.Nodes {
					if n.Reachable && n.Disk.State == cluster.DiskEmpty && n.Assigned == nil && n.Name != s.Node {
						return &plan.AddLearner{Node: n.Name, PeerURLs: n.URLs.Peer, ExpectVoters: len(obs.Members) - 1}, nil
					}
				}
			}
			return op, holds
		}},
	{"moves the lease voters in one leap", "check", "",
		func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
			op, holds := plan.Next(spec, obs)
			if w, ok := op.(*plan.LeaseVotersWrite); ok && len(w.Expect) > 1 {
				leap := *w
				leap.Names = append([]cluster.NodeName{"z"}, w.Names[1:]...)
				return &leap, nil
			}
			return op, holds
		}},
	{"says nothing where it holds", "unexplained", "unexplained",
		func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
			op, _ := plan.Next(spec, obs)
			return op, nil
		}},
	{"never promotes", "stuck", "stuck", without[*plan.Promote]()},
	{"never replaces", "stuck", "stuck", without[*plan.Remove]()},
	{"never restarts", "stuck", "stuck", without[*plan.MemberStart]()},
	{"never recovers the lease voters", "stuck", "stuck", without[*plan.LeaseVotersRecover]()},
	{"never clears", "stuck", "stuck", without[*plan.DataSetAside]()},
	{"never opens", "stuck", "stuck", without[*plan.QuarantineLift]()},
}

// without is a planner that lacks one operation, and says that it waits.
func without[T plan.Operation]() planner {
	return func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
		op, holds := plan.Next(spec, obs)
		if _, ok := op.(T); ok {
			return nil, append(holds, plan.Hold{Reason: plan.MemberStarting, Text: "be patient"})
		}
		return op, holds
	}
}

func TestBrokenPlannersAreCaught(t *testing.T) {
	for _, c := range controls {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			catch(t, Config{Next: c.next}, rare[c.name], c.checked)
			if c.trusting != "" {
				catch(t, Config{Next: c.next, Trusting: true}, rare[c.name], c.trusting)
			}
		})
	}
}

// rare has the seeds to begin with for planners that few histories catch: a little
// before one that does.
var rare = map[string]uint64{
	"takes a member that answers for healthy": 1610,
	"never recovers the lease voters":         315,
}

// catch plays until a history breaks one of the invariants.
func catch(t *testing.T, c Config, first uint64, invariants string) {
	t.Helper()
	other := map[string]int{}
	for i := range uint64(6000) {
		_, err := Run(first+i, c)
		var f *Failure
		if errors.As(err, &f) {
			if containsWord(invariants, f.Invariant) {
				t.Logf("trusting=%v: seed %d", c.Trusting, first+i)
				return
			}
			other[f.Invariant]++
		}
	}
	t.Errorf("trusting=%v: not caught by %s in 6000 histories; others: %v", c.Trusting, invariants, other)
}

// TestShrink makes sure that a long scenario becomes a short one with the same
// end.
func TestShrink(t *testing.T) {
	c := Config{Next: without[*plan.Promote]()}
	for seed := range uint64(200) {
		h, err := Run(seed, c)
		var long *Failure
		if !errors.As(err, &long) || len(h.Faults) < 5 {
			continue
		}
		short := Shrink(seed, c)
		switch {
		case short == nil:
			t.Fatalf("seed %d: nothing left of %v", seed, long)
		case short.Invariant != long.Invariant:
			t.Fatalf("seed %d: %s became %s", seed, long.Invariant, short.Invariant)
		case len(short.History.Faults) >= len(h.Faults):
			t.Fatalf("seed %d: %d faults became %d", seed, len(h.Faults), len(short.History.Faults))
		case !strings.Contains(short.Error(), "QUIET") || !strings.Contains(short.Error(), "etcdadm member start"):
			t.Fatalf("seed %d: the failure has no log: %v", seed, short)
		}
		return
	}
	t.Fatal("no history to shrink")
}

func TestShrinkOfNothing(t *testing.T) {
	if f := Shrink(1, Config{}); f != nil {
		t.Errorf("a history without failure shrank to %v", f)
	}
}

// containsWord reports whether a list of words, separated by spaces, has one.
func containsWord(list, word string) bool { return strings.Contains(" "+list+" ", " "+word+" ") }
