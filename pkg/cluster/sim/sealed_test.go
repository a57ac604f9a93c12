package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// sealedRestores are histories with restores that reach a version.
var sealedRestores = Config{Versions: true, Sealed: true}

// TestSealedHistories is TestVersionHistories where operators allow restores as a version to
// which nothing else leads, and revert that.
func TestSealedHistories(t *testing.T) { play(t, sealedRestores) }

// TestSealedReach makes sure that those histories get to where the rules about such restores
// are.
func TestSealedReach(t *testing.T) {
	reached := map[string]int{}
	closing := map[string]string{
		"and no more for":          "a request is cancelled by the spec",
		"failed while clients":     "a voter fails while clients are being kept away",
		"too few nodes could":      "too few nodes can restore, and clients are let in again",
		"the backup cannot be":     "nodes find that the backup cannot be read",
		"restored ":                "a request is carried out",
		"clients were let in":      "clients are let in after the backup was taken",
		"which was to begin with":  "a restore was decided and never began",
		"it was queued before inc": "another restore came before",
	}
	next := func(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
		op, holds := plan.Next(spec, obs)
		switch op := op.(type) {
		case *plan.RequestClose:
			for text, what := range closing {
				if strings.Contains(op.Reason, text) {
					reached[what]++
				}
			}
		case *plan.QuarantineSet:
			if obs.SealedRequest() != nil {
				reached["clients are kept away"]++
			}
		case *plan.QuarantineLift:
			if obs.SealedRequest() == nil && op.ExpectRevision == 0 && len(obs.Store.Requests) == 0 {
				reached["clients are let in again"]++
			}
		case *plan.MemberChangeVersion:
			if op.ExpectVersion == sealedTo && slices.ContainsFunc(obs.Store.Incarnations, func(i cluster.Incarnation) bool {
				return i.Restored != nil
			}) {
				reached["what was restored changes to a later version"]++
			}
		}
		for _, h := range holds {
			if strings.Contains(h.Text, "--allow-restore") {
				reached["a hold says how a restore is allowed"]++
			}
			if strings.Contains(h.Text, "which may have a restore") {
				reached["nobody is opened by who has not read the store"]++
			}
		}
		return op, holds
	}
	const all = 13
	// Those that got there when this was written come first.
	seeds := []uint64{0, 2, 5, 11, 13, 22, 31, 44, 174, 248, 435}
	for i := range uint64(2000) {
		seeds = append(seeds, 1000+i)
	}
	c := sealedRestores
	c.Next = next
	for i, seed := range seeds {
		if _, err := Run(seed, c); err != nil {
			t.Fatal(err)
		}
		if len(reached) == all {
			t.Logf("all is reached after %d histories", i+1)
			return
		}
	}
	t.Errorf("only this is reached: %v", reached)
}

// TestSealedRegressions replays what the simulator has found about such restores.
func TestSealedRegressions(t *testing.T) {
	for seed, name := range map[uint64]string{
		690:               "a restore is decided, unseen by who would open what was restored before",
		37910608294494389: "the spec is the operator's when the restore is decided",
		37910608294494386: "a machine that was removed is not waited for",
		37910608294494441: "a voter is replaced before clients are kept away",
		37910608294495228: "too few nodes can restore, and clients are let in again",
		37910608294495321: "a request that cannot be closed yet keeps members closed",
		58344392395980816: "a daemon that has not read the store opens nobody",
		32253632001256463: "a member of before, on a disk that hangs, keeps nobody waiting",
		32253632001258409: "behind an operation not all is said",
		46048096991112156: "nobody is opened for whom another store may have a restore",
		21139078891606486: "nor where the store is not that of the other members",
		47427141216719061: "what was restored later is lost, and what runs gets a record",
		1507448224055778:  "another backup was staged for the same request",
		56325979740359689: "a coordinator without a store leaves no trace",
		10664702418928440: "what a node has promised has begun, and moved on, without it",
	} {
		c := sealedRestores
		c.Record = true
		if _, err := Run(seed, c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Restores that reach a version, as a planner with a bug sees them.

// withAnotherBackup takes another backup for the one of a sealed request.
func withAnotherBackup(obs *cluster.Observation) {
	if src := obs.Store.Source; src != nil && src.Backup != "" && obs.SealedRequest() != nil {
		another := *src
		another.Backup = obs.Store.Backups[len(obs.Store.Backups)-1].Name
		obs.Store.Source = &another
	}
}

// withAllClosed takes clients to be kept away from all members.
func withAllClosed(obs *cluster.Observation) {
	if obs.SealedRequest() == nil {
		return
	}
	for i := range obs.Nodes {
		if n := &obs.Nodes[i]; n.Assigned != nil {
			closed := *n.Assigned
			closed.Quarantined, n.Assigned = true, &closed
		}
	}
}

// stubborn is a planner that goes on with a sealed request when the spec asks for another
// version again.
func stubborn(spec cluster.Spec, obs cluster.Observation) (plan.Operation, []plan.Hold) {
	if r := obs.SealedRequest(); r != nil {
		spec.EtcdVersion = r.EtcdVersion
	}
	return plan.Next(spec, obs)
}

// withoutStaged overlooks what is staged where it does not see the request for it.
func withoutStaged(obs *cluster.Observation) {
	if obs.SealedRequest() != nil {
		return
	}
	obs.Store.Reachable = true
	for i := range obs.Nodes {
		obs.Nodes[i].Staged = nil
	}
}
