package lease

import (
	"flag"
	"testing"
	"time"
)

var seeds = flag.Uint64("lease.seeds", 500, "number of simulated runs")

const (
	stormy = 60 * time.Second
	calm   = 60 * time.Second
)

func TestNeverTwoHolders(t *testing.T) {
	var leases, passed int
	for seed := range *seeds {
		w := newWorld(seed, broken{})
		w.persons, w.rests = seed%2 == 0, seed%3 == 0
		w.run(stormy)
		if w.violation != "" {
			t.Fatalf("seed %d: %s\n%v", seed, w.violation, w)
		}
		leases, passed = leases+w.leases, passed+w.passed

		// Without faults somebody gets the lease again.
		w.calm = true
		clear(w.groups)
		w.persons, w.leases = false, 0
		w.run(stormy + calm)
		if w.violation != "" || w.leases == 0 {
			t.Fatalf("seed %d: %s; %d leases in %v without faults\n%v", seed, w.violation, w.leases, calm, w)
		}
	}
	t.Logf("%d rounds of holders, %d changes of lease voters", leases, passed)
	if leases < int(*seeds)*10 || passed < int(*seeds) {
		t.Errorf("only %d rounds of holders and %d changes of lease voters in %d runs: the simulation does too little",
			leases, passed, *seeds)
	}
}

// The simulation notices each rule that is missing. The seeds are where to look
// first: with an unchanged simulation, they show two holders at once.
func TestBrokenRulesAreNoticed(t *testing.T) {
	for _, c := range []struct {
		rule   string
		broken broken
		seed   uint64
	}{
		{"grants on older records", broken{oldRecords: true}, 62},
		{"running lease is forgotten", broken{running: true}, 1},
		{"no quiet time after restart", broken{restart: true}, 430},
		{"no margin", broken{margin: true}, 2132},
		{"time counts from the answer", broken{fromAnswer: true}, 45},
		{"several names at once", broken{bigSteps: true}, 1},
		{"disks are lost", broken{lostDisks: true}, 21},
		{"nodes join without the record", broken{blankJoin: true}, 4741},
		{"record is not stamped again", broken{unstamped: true}, 70902},
		{"and changes need one majority", broken{unstamped: true, oneMajority: true}, 4125},
		{"grant is answered before on disk", broken{forgottenOwn: true}, 1},
	} {
		t.Run(c.rule, func(t *testing.T) {
			for seed := c.seed; seed < c.seed+20000; seed++ {
				w := newWorld(seed, c.broken)
				w.persons = true
				if w.run(stormy); w.violation != "" {
					t.Logf("seed %d: %s", seed, w.violation)
					return
				}
			}
			t.Error("no run has two holders")
		})
	}
}
