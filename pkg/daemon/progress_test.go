package daemon

import (
	"testing"
	"time"
)

func TestALoopThatDoesNotTurnIsStuck(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var p progress
	p.within(now, 20*time.Second)
	for _, tc := range []struct {
		after           time.Duration
		renewed, isWell bool
	}{
		{0, true, true},
		{20 * time.Second, true, true},
		{20*time.Second + 1, false, true},
		{20*time.Second + stuckLimit, false, true},
		{20*time.Second + stuckLimit + 1, false, false},
	} {
		at := now.Add(tc.after)
		if got := p.err(at, 0) == nil; got != tc.renewed {
			t.Errorf("after %v the lease is renewed: %t", tc.after, got)
		}
		if got := p.err(at, stuckLimit) == nil; got != tc.isWell {
			t.Errorf("after %v the daemon is well: %t", tc.after, got)
		}
	}
	p.within(now.Add(time.Hour), time.Second)
	if err := p.err(now.Add(time.Hour), 0); err != nil {
		t.Errorf("after it has run again: %v", err)
	}
}

// A probe that kills the daemon kills its etcd: a slow disk is no reason.
func TestASlowDiskIsNoReasonToBeKilled(t *testing.T) {
	for _, tc := range []struct {
		pending time.Duration
		alive   bool
	}{
		{0, true}, {slowWriteLimit + time.Second, true}, {10 * time.Second, true},
		{probeTimeout - 1, true}, {probeTimeout, false},
	} {
		if err := hungDisk("/data", tc.pending); (err == nil) != tc.alive {
			t.Errorf("with a write pending for %s: %v", tc.pending, err)
		}
	}
}
