package sim

import (
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

var (
	histories = flag.Int("sim.histories", 400, "histories to play at least")
	firstSeed = flag.Uint64("sim.seed", 0,
		"first seed; 0 is the same one each time, and a fresh one where ETCDADM_SIM_FOR is set")
)

// TestHistories plays histories: at least as many as -sim.histories, the same
// ones each time; or new ones, for as long as ETCDADM_SIM_FOR says. What those
// find belongs into TestRegressions.
func TestHistories(t *testing.T) { play(t, Config{}) }

func play(t *testing.T, c Config) {
	t.Helper()
	budget, seed := time.Duration(0), *firstSeed
	if seed == 0 {
		seed = 1 << 32 // others than those of the tests below
	}
	if text := os.Getenv("ETCDADM_SIM_FOR"); text != "" {
		var err error
		if budget, err = time.ParseDuration(text); err != nil {
			t.Fatalf("ETCDADM_SIM_FOR=%s is not a duration", text)
		}
		if *firstSeed == 0 {
			seed = rand.Uint64() >> 8
		}
	}
	t.Logf("first seed %d", seed)
	began, played, converged, operations := time.Now(), 0, 0, 0
	least := *histories
	if c.Versions || c.RolledBack {
		least /= 2 // each takes longer
	}
	for played < least || time.Since(began) < budget {
		h, err := Run(seed, c)
		if err != nil {
			t.Fatalf("%v\nshrunk: %v", err, Shrink(seed, c))
		}
		played, seed, operations = played+1, seed+1, operations+h.Operations
		if h.Converged {
			converged++
		}
	}
	t.Logf("%d histories, %d operations, %d converged, %.0f a minute", played, operations, converged,
		float64(played)/time.Since(began).Minutes())
	if converged < played/2 {
		t.Errorf("only %d of %d histories converged: the faults are too many to prove anything", converged, played)
	}
}

// TestReach makes sure that the histories get to where the rules are: each
// operation that the daemon plans by itself is done, each fault happens, and
// each hold that this world can bring about is seen.
func TestReach(t *testing.T) {
	done, held, hit := map[string]int{}, map[plan.Reason]int{}, map[FaultKind]int{}
	next := func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
		op, holds := plan.Next(spec, obs)
		if op != nil {
			done[plan.KindOf(op).Path]++
		}
		for _, h := range holds {
			held[h.Reason]++
		}
		return op, holds
	}
	missing := func() []string {
		var list []string
		for _, k := range plan.Kinds() {
			switch k.Path {
			case "lease-voters adopt": // rare here: see TestAClusterWithoutRecordsIsTakenOver
			case "member update": // nodes here stay where they are
			case "member drain": // a part of a removal here; a process that ends is a fault of its own
			case "member change-version", "member force-snapshot", "downgrade enable", "downgrade cancel":
				// all nodes here have one version: see TestVersionReach
			default:
				if done[k.Path] == 0 {
					list = append(list, "operation "+k.Path)
				}
			}
		}
		for _, r := range reachable {
			if held[r] == 0 {
				list = append(list, "hold "+string(r))
			}
		}
		for _, k := range slices.Concat(mild, harsh, diskKinds, netKinds, clockKinds, storeKinds, slowKinds, orderKinds) {
			if hit[k] == 0 {
				list = append(list, "fault "+string(k))
			}
		}
		return list
	}
	for seed := range uint64(2000) {
		h, err := Run(seed, Config{Next: next})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range h.Faults {
			hit[f.Kind]++
		}
		if seed%20 == 0 && len(missing()) == 0 {
			t.Logf("all is reached after %d histories", seed)
			return
		}
	}
	t.Errorf("no history has %s", strings.Join(missing(), ", "))
}

// reachable are the holds that this world can bring about.
var reachable = []plan.Reason{
	plan.Paused, plan.StoreUnreachable, plan.WaitingForNodes, plan.ClusterLost, plan.Bootstrap, plan.QuorumLost,
	plan.MemberStarting,
	plan.Grace, plan.NoSpare, plan.LearnerBehind, plan.OperationFailed, plan.DiskUnreadable,
	plan.DiskHung, plan.DiskSlow, plan.NotServing,
}

// TestSameSeedSameHistory makes sure that a seed can be given to somebody else.
func TestSameSeedSameHistory(t *testing.T) {
	for seed := range uint64(20) {
		a, err := Run(seed, Config{Record: true})
		if err != nil {
			t.Fatal(err)
		}
		b, err := Run(seed, Config{Record: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Log) == 0 || len(a.Log) != len(b.Log) {
			t.Fatalf("seed %d: %d lines, then %d", seed, len(a.Log), len(b.Log))
		}
		for i := range a.Log {
			if a.Log[i] != b.Log[i] {
				t.Fatalf("seed %d: %q, then %q", seed, a.Log[i], b.Log[i])
			}
		}
	}
}

// TestNoFaults plays without any: every world converges, and soon.
func TestNoFaults(t *testing.T) {
	for seed := range uint64(200) {
		h, err := Replay(seed, Config{}, nil, 60)
		if err != nil {
			t.Fatal(err)
		}
		if !h.Converged || h.Steps > 60+maxIdle || len(h.Holds) > 0 {
			t.Errorf("seed %d: converged is %v after %d steps, %v", seed, h.Converged, h.Steps, h.Holds)
		}
	}
}

// BenchmarkHistory measures one history with its faults. The target is 20,000
// a minute on one core, which is 3 ms each.
func BenchmarkHistory(b *testing.B) {
	seed := uint64(1)
	for b.Loop() {
		if _, err := Run(seed, Config{}); err != nil {
			b.Fatal(err)
		}
		seed++
	}
}
