package daemon

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/gossip"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

func TestWhoShouldTryForTheLease(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	alive := []cluster.NodeName{"a", "b", "c"}
	back := func(from cluster.NodeName, ago time.Duration) *vote { return &vote{at: now.Add(-ago), from: from} }
	voted := func(to cluster.NodeName, ago time.Duration) *vote { return &vote{at: now.Add(-ago), to: to} }
	started := func(ago time.Duration, heard bool) *vote {
		return &vote{at: now.Add(-ago), started: true, heard: heard}
	}
	for _, tc := range []struct {
		name  string
		self  cluster.NodeName
		alive []cluster.NodeName
		vote  *vote
		want  bool
	}{
		{"the lowest, when nobody has voted", "a", alive, nil, true},
		{"not another, when nobody has voted", "b", alive, nil, false},
		{"one that gossip does not list yet", "b", nil, nil, true},
		{"the lowest that votes for itself", "a", alive, voted("a", time.Second), true},
		{"not one that has just voted for another", "a", alive, voted("b", time.Second), false},
		{"nor right before the end of the other's lease", "a", alive, voted("b", lease.DefaultTTL-1), false},
		{"the lowest, when the other's lease is over", "a", alive, voted("b", lease.DefaultTTL), true},
		{"the next, when the lowest let its lease run out", "b", alive, voted("a", lease.DefaultTTL), true},
		{"not the one after the next", "c", alive, voted("a", lease.DefaultTTL), false},
		{"the one after the next, when the next does not come", "c", alive, voted("a", orphaned+apart+1), true},
		{"the lowest at once, when the lease was released", "a", alive, voted("", 0), true},
		{"not another, when the lease was released", "b", alive, voted("", time.Second), false},
		{"another, when the lowest does not take what was released", "b", alive, voted("", orphaned+apart+1), true},
		{"the one that gave the lease back, when it can", "a", alive, back("a", time.Second), true},
		{"not the next at once, when the lowest gave the lease back", "b", alive, back("a", ahead), false},
		{"the next, when the lowest gave the lease back and lives", "b", alive, back("a", ahead+1), true},
		{"not the one after the next then", "c", alive, back("a", ahead+1), false},
		{"not the third for the second's sake", "c", alive, back("b", ahead+1), false},
		{"not another, when it has just voted for itself", "b", alive, voted("b", time.Second), false},
		{"another that voted for itself long ago, and nobody has the lease", "b", alive, voted("b", orphaned+apart+1), true},
		{"the third one later than the second", "c", alive, voted("", orphaned+apart+1), false},
		{"the third", "c", alive, voted("", orphaned+2*apart+1), true},
		{"not the lowest that has just started", "a", alive, started(time.Second-1, false), false},
		{"the lowest that heard nobody", "a", alive, started(time.Second, false), true},
		{"not where another asked and was refused", "a", alive, started(lease.MaxTTL, true), false},
		{"when that one can have no grant that is older than the start", "a", alive, started(4*time.Second, true), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := shouldTry(tc.self, tc.alive, tc.vote, now); got != tc.want {
				t.Errorf("it tries: %t", got)
			}
			if len(tc.alive) > 0 && tc.alive[0] != "a" {
				t.Errorf("the list of live nodes was changed to %v", tc.alive)
			}
		})
	}
}

// While a daemon is quiet it is no candidate, whoever else is alive.
func TestAVoteForAnotherKeepsQuiet(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name string
		v    *vote
		want time.Duration
	}{
		{"no vote", nil, 0},
		{"a vote for itself", &vote{at: now, to: "b"}, 0},
		{"a released lease", &vote{at: now, from: "a"}, 0},
		{"a vote a moment ago", &vote{at: now, to: "a"}, lease.DefaultTTL},
		{"a vote that has run for a while", &vote{at: now.Add(-time.Second), to: "a"}, lease.DefaultTTL - time.Second},
		{"a vote that is over", &vote{at: now.Add(-lease.DefaultTTL), to: "a"}, 0},
	} {
		got := tc.v.quiet("b", now)
		if got != tc.want {
			t.Errorf("%s: quiet for %s, want %s", tc.name, got, tc.want)
		}
		for _, alive := range [][]cluster.NodeName{{"b"}, {"b", "c"}, {"a", "b", "c"}} {
			if got > 0 && shouldTry("b", alive, tc.v, now.Add(got-1)) {
				t.Errorf("%s, with %v alive: a candidate while it is quiet", tc.name, alive)
			}
		}
	}
}

func TestMadeUpNamesDoNotCount(t *testing.T) {
	peers := []gossip.Peer{{Name: "0000001", Alive: true}, {Name: "b", Alive: true, Proved: true}, {Name: "c"}, {
		Name: "d", Proved: true,
	}}
	got := known(peers, []cluster.NodeName{"b", "c"})
	if len(got) != 3 || got[0].Name != "b" || got[1].Name != "c" || got[2].Name != "d" {
		t.Errorf("known are %+v", got)
	}
}

func TestWhenACoordinatorIsMissing(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) *vote { return &vote{at: now.Add(-ago), to: "a"} }
	own := cluster.LeaseVoters{Token: "t1", Term: 3, Names: []cluster.NodeName{"a", "b", "c"}}
	without := cluster.LeaseVoters{Token: "t1", Term: 3, Seq: 1, Names: []cluster.NodeName{"a", "c"}}
	older := cluster.LeaseVoters{Token: "t1", Term: 2, Names: []cluster.NodeName{"a", "c"}}
	with := cluster.LeaseVoters{Token: "t1", Term: 4, Names: []cluster.NodeName{"a", "b", "c", "d"}}
	for _, tc := range []struct {
		name   string
		heard  cluster.LeaseVoters
		v      *vote
		paused bool
		want   bool
	}{
		{"a node that is no lease voter", own, nil, false, false},
		{"a vote a moment ago", own, at(time.Second), false, false},
		{"none for a while", own, at(missingAfter), false, false},
		{"none for too long", own, at(missingAfter + 1), false, true},
		{"none for too long, and nothing heard", cluster.LeaseVoters{}, at(time.Hour), false, true},
		{"none for too long, and a pause", own, at(time.Hour), true, false},
		{"no lease voter any more, which its disk was not told", without, at(time.Hour), false, false},
		{"a lease voter again after that", older, at(time.Hour), false, true},
		{"a lease voter by a later record", with, at(time.Hour), false, true},
	} {
		if got := missing("b", own, tc.heard, tc.v, tc.paused, now); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
	m := newMetrics(quiet())
	m.noteMissing(true)
	m.noteMissing(false)
	m.noteMissing(true)
	wantLines(t, gathered(t, m), "etcdadm_coordinator_missing 1", "etcdadm_coordinator_missing_total 2")
}

// A daemon whose coordinator is well wakes up for this three times a minute, and says in time when it
// is not.
func TestAMissingCoordinatorIsNotAskedForAllTheTime(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name string
		v    *vote
		said bool
		want time.Duration
	}{
		{"a vote right now", &vote{at: now}, false, missingAfter},
		{"a vote a while ago", &vote{at: now.Add(-15 * time.Second)}, false, missingAfter - 15*time.Second},
		{"none for too long, in a pause", &vote{at: now.Add(-time.Hour)}, false, time.Second},
		{"it has been said", &vote{at: now}, true, time.Second},
		{"no lease voter", nil, false, time.Second},
	} {
		if got := untilMissing(tc.v, tc.said, now); got != tc.want {
			t.Errorf("%s: %s, not %s", tc.name, got, tc.want)
		}
	}
}
