package sim

import (
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// TestRollBackHistories is TestHistories where the store, and disks, go back to what they
// were.
func TestRollBackHistories(t *testing.T) { play(t, Config{RolledBack: true}) }

// TestRollBackReach makes sure that those histories get to where the rules about a store,
// or a disk, of the past are.
func TestRollBackReach(t *testing.T) {
	reached := map[string]bool{}
	next := func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
		op, holds := plan.Next(spec, obs)
		switch op := op.(type) {
		case *plan.IncarnationCreate:
			if op.Backup == "" && op.Number > 1 && obs.Leader != 0 {
				reached["what runs gets a record in a store that goes back to an earlier one"] = true
			}
		case *plan.RequestClose:
			if strings.Contains(op.Reason, "the store may be an older copy") {
				reached["a request is older than what nodes have begun"] = true
			}
		}
		for _, h := range holds {
			if h.Reason == plan.StoreNotShared {
				reached["the record of what a node changed over to is lost"] = true
			}
		}
		for _, n := range obs.Nodes {
			if n.Assigned != nil && n.Disk.Token != "" && n.Disk.Token != n.Assigned.Token {
				reached["the data is not what the state file says"] = true
			}
			if n.Assigned != nil && n.Reachable && n.Disk.State == cluster.DiskEmpty {
				reached["the state file names data that is not there"] = true
			}
			if n.Process.State == cluster.ProcessCrashing && n.Disk.State == cluster.DiskData {
				reached["a member's data is behind"] = true
			}
		}
		return op, holds
	}
	const all = 6
	for i := range uint64(3000) {
		_, err := Run(1_000_430+i, Config{Next: next, RolledBack: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(reached) == all {
			t.Logf("all is reached after %d histories", i)
			return
		}
	}
	t.Errorf("only this is reached: %v", reached)
}

// rollBackControls are planners that overlook what shows a store, or a disk, of the past.
var rollBackControls = []struct {
	name       string
	first      uint64
	invariants string
	next       planner
}{
	{"carries out what an older copy of the store asks for", 1_006_200, "restore",
		func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
			obs.Nodes = append([]cluster.Node(nil), obs.Nodes...)
			for i := range obs.Nodes {
				obs.Nodes[i].SetAside = nil
			}
			return plan.Next(spec, obs)
		}},
	{"believes a state file that is older than the data", 1_000_000, "check",
		func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
			obs.Nodes = append([]cluster.Node(nil), obs.Nodes...)
			for i := range obs.Nodes {
				if n := &obs.Nodes[i]; n.Assigned == nil && n.Disk.Token != "" {
					n.Disk, n.Process = cluster.Disk{State: cluster.DiskEmpty}, cluster.Process{State: cluster.ProcessStopped}
				}
			}
			return plan.Next(spec, obs)
		}},
	{"never writes the record of what runs again", 1_000_000, "stuck untrue",
		func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
			op, holds := plan.Next(spec, obs)
			if c, ok := op.(*plan.IncarnationCreate); ok && c.Backup == "" && obs.Leader != 0 {
				return nil, append(holds, plan.Hold{Reason: plan.Restoring, Text: "be patient"})
			}
			return op, holds
		}},
}

func TestWhoOverlooksThePastIsCaught(t *testing.T) {
	for _, c := range rollBackControls {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			catch(t, Config{Next: c.next, RolledBack: true}, c.first, c.invariants)
		})
	}
}

// TestRollBackRegressions replays seeds of those histories that have broken an invariant.
func TestRollBackRegressions(t *testing.T) {
	for seed, name := range map[uint64]string{
		1001210: "what serves is coordinated in a store that does not know it, beside a node of the past",
		1006210: "what was asked for before it began is not carried out again",

		35744181146692001: "a slow store lists backups while it goes back",
		688191079064672:   "what never had a majority, and which nothing showed, is overtaken",
		688191079066065:   "what was restored is lost, and the promise to begin with it is not",
		688191079091857:   "a record that has gone is remembered while the store does not answer",
		58344392395978493: "a recovery of the lease voters names nobody without a name",
		58344392395984382: "an order to change over is under way when the store goes back",
		52180746064469892: "who goes back to being the only lease voter asks nobody",
		67552529312095928: "a member that ran alone, and lost its disk, is known to nobody",
		1507448224056503:  "what cannot begin is shown by an operation that fails",
		1507448224055907:  "by an older copy of the store a bootstrap is under way",
		14127964931472537: "data of what has no record keeps a node from being a spare",
		6704521159716167:  "two nodes have changed over to what a third has staged",
		24763430525483930: "a member that has lost its data does not go back to its promise",
		6675750588872395:  "what was restored later gets no record over it",
		30434270259781019: "a slow store lists a record while it goes back",
		10964161553700480: "a restore that lets no client in does not end what serves, where the store has no record of either",
		47883524812991491: "the operator turns off what cannot be declared lost",
		25409339740403094: "what is to stay is looked for before anything is pruned",
		39544555740820168: "nobody is opened beside what is staged by a record that is lost",
		69639068747334236: "nor where its request is lost too",
		12089776224290733: "who has changed over to what is staged is gone for good",
		4501094327112329:  "what was restored twice goes on, though its records are gone",
		69839250420731641: "what lets no client in gets no record over what may",
		24306569709857197: "a member that ran alone, and whose disk goes back to before, is known to nobody",
		37433535909597456: "who goes back to being the only lease voter takes no orders",
		12615895863241778: "what stands in the way of a record is stopped for good by hand",
		44891972249756510: "a node whose store does not know an incarnation obeys nobody in it",
	} {
		if _, err := Run(seed, Config{RolledBack: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRollBackReplays replays such histories with other faults than those of their seed.
func TestRollBackReplays(t *testing.T) {
	for _, tt := range []struct {
		name   string
		seed   uint64
		steps  int
		faults []Fault
	}{
		{"who takes no orders by a lease without a record is waited for", 8874213146278026, 60, []Fault{
			{7, RolledBack, 6, 297}, {12, StoreBehind, 4, 619}, {17, Partition, 7, 16}, {22, StoreBehind, 6, 120},
			{24, RestoreAsked, 6, 16}, {29, Rival, 2, 24}, {36, StoreBehind, 6, 817}, {50, RestoreAsked, 5, 7},
			{57, RolledBack, 1, 501}, {59, SpecChanges, 3, 4},
		}},
		{"what is stopped by hand has data of another incarnation than its state file says", 8874213146278026, 58, []Fault{
			{7, RolledBack, 5, 90}, {12, StoreBehind, 4, 619}, {17, Partition, 7, 16}, {22, StoreBehind, 6, 328},
			{24, RestoreAsked, 3, 3}, {28, Rival, 2, 6}, {36, StoreBehind, 5, 98}, {50, RestoreAsked, 5, 19},
			{57, RolledBack, 7, 56}, {56, SpecChanges, 6, 4},
		}},
		{"what is refused again and again waits longer each time", 8874213146278026, 63, []Fault{
			{7, RolledBack, 5, 856}, {12, StoreBehind, 4, 619}, {17, Partition, 7, 16}, {22, StoreBehind, 6, 65},
			{25, RestoreAsked, 6, 16}, {29, Rival, 6, 6}, {38, StoreBehind, 0, 817}, {50, RestoreAsked, 3, 8},
			{59, SpecChanges, 6, 4}, {60, RolledBack, 0, 501},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Replay(tt.seed, Config{Record: true, RolledBack: true}, tt.faults, tt.steps); err != nil {
				t.Error(err)
			}
		})
	}
}
