package lease

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func TestWhoShouldTryForTheLease(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	alive := []cluster.NodeName{"a", "b", "c"}
	back := func(from cluster.NodeName, ago time.Duration) *Vote { return &Vote{At: now.Add(-ago), From: from} }
	voted := func(to cluster.NodeName, ago time.Duration) *Vote { return &Vote{At: now.Add(-ago), To: to} }
	after := func(gone cluster.NodeName, ago time.Duration, v *Vote) *Vote {
		v.Gone, v.Next = gone, now.Add(-ago)
		return v
	}
	resting := func(to cluster.NodeName, ago time.Duration) *Vote {
		return &Vote{At: now.Add(-ago), To: to, For: RestTTL}
	}
	started := func(ago time.Duration, heard bool) *Vote {
		return &Vote{At: now.Add(-ago), Started: true, Heard: heard}
	}
	for _, tc := range []struct {
		name  string
		self  cluster.NodeName
		alive []cluster.NodeName
		vote  *Vote
		want  bool
	}{
		{"the lowest, when nobody has voted", "a", alive, nil, true},
		{"not another, when nobody has voted", "b", alive, nil, false},
		{"one that gossip does not list yet", "b", nil, nil, true},
		{"the lowest that votes for itself", "a", alive, voted("a", time.Second), true},
		{"not one that has just voted for another", "a", alive, voted("b", time.Second), false},
		{"nor right before the end of the other's lease", "a", alive, voted("b", DefaultTTL-1), false},
		{"nor while a longer lease of the other runs", "a", alive, resting("b", RestTTL-1), false},
		{"the lowest, when that is over", "a", alive, resting("b", RestTTL), true},
		{"the next, when the lowest let its longer lease run out", "b", alive, resting("a", RestTTL), true},
		{"the lowest, when the other's lease is over", "a", alive, voted("b", DefaultTTL), true},
		{"the next, when the lowest let its lease run out", "b", alive, voted("a", DefaultTTL), true},
		{"not the one after the next", "c", alive, voted("a", DefaultTTL), false},
		{"the one after the next, when the next does not come", "c", alive, voted("a", orphanGrace+rankInterval+1), true},
		{"the lowest at once, when the lease was released", "a", alive, voted("", 0), true},
		{"not another, when the lease was released", "b", alive, voted("", time.Second), false},
		{"another, when the lowest does not take what was released", "b", alive, voted("", orphanGrace+rankInterval+1), true},
		{"the one that gave the lease back, when it can", "a", alive, back("a", time.Second), true},
		{"not the next at once, when the lowest gave the lease back", "b", alive, back("a", returnGrace), false},
		{"the next, when the lowest gave the lease back and lives", "b", alive, back("a", returnGrace+1), true},
		{"not the one after the next then", "c", alive, back("a", returnGrace+1), false},
		{"not the third for the second's sake", "c", alive, back("b", returnGrace+1), false},
		{"not another, when it has just voted for itself", "b", alive, voted("b", time.Second), false},
		{"another that voted for itself long ago, and nobody has the lease", "b", alive, voted("b", orphanGrace+rankInterval+1), true},
		{"the third one later than the second", "c", alive, voted("", orphanGrace+rankInterval+1), false},
		{"the third", "c", alive, voted("", orphanGrace+2*rankInterval+1), true},
		{"the next, when it lost a campaign after the lowest had gone", "b", alive, after("a", 1, back("b", 0)), true},
		{"the next, when it has no answer from that campaign yet", "b", alive, after("a", 1, voted("b", 0)), true},
		{"not the one after the next then", "c", alive, after("a", 1, back("b", 0)), false},
		{"not the next, when gossip has had the time to notice", "b", alive, after("a", orphanGrace, back("b", 0)), false},
		{"the lowest, as its own vote shows", "a", alive, after("a", 1, back("b", 0)), true},
		{"not the lowest that has just started", "a", alive, started(2*time.Second-1, false), false},
		{"the lowest that heard nobody", "a", alive, started(2*time.Second, false), true},
		{"not where another asked and was refused", "a", alive, started(MaxTTL, true), false},
		{"when that one can have no grant that is older than the start", "a", alive, started(4*time.Second, true), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := ShouldCampaign(tc.self, tc.alive, nil, tc.vote, now); got != tc.want {
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
		v    *Vote
		want time.Duration
	}{
		{"no vote", nil, 0},
		{"a vote for itself", &Vote{At: now, To: "b"}, 0},
		{"a released lease", &Vote{At: now, From: "a"}, 0},
		{"a vote a moment ago", &Vote{At: now, To: "a"}, DefaultTTL},
		{"a vote that has run for a while", &Vote{At: now.Add(-time.Second), To: "a"}, DefaultTTL - time.Second},
		{"a vote for longer", &Vote{At: now.Add(-time.Second), To: "a", For: RestTTL}, RestTTL - time.Second},
		{"a vote that is over", &Vote{At: now.Add(-DefaultTTL), To: "a"}, 0},
	} {
		got := tc.v.Quiet("b", now)
		if got != tc.want {
			t.Errorf("%s: quiet for %s, want %s", tc.name, got, tc.want)
		}
		for _, alive := range [][]cluster.NodeName{{"b"}, {"b", "c"}, {"a", "b", "c"}} {
			if got > 0 && ShouldCampaign("b", alive, nil, tc.v, now.Add(got-1)) {
				t.Errorf("%s, with %v alive: a candidate while it is quiet", tc.name, alive)
			}
		}
	}
}

// A lease voter waits for lease voters only: a live node that none of them would grant
// the lease to is no reason to wait. A node that is none waits for every lower name.
func TestOnlyLeaseVotersAreInLine(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	alive := []cluster.NodeName{"a", "b", "c", "d"}
	free := &Vote{At: now.Add(-2 * time.Second)}
	for _, tc := range []struct {
		name        string
		self        cluster.NodeName
		leaseVoters []cluster.NodeName
		vote        *Vote
		want        bool
	}{
		{"the lowest lease voter, with a spare before it", "b", []cluster.NodeName{"b", "c", "d"}, free, true},
		{"not the next lease voter", "c", []cluster.NodeName{"b", "c", "d"}, free, false},
		{"the lowest that is alive", "c", []cluster.NodeName{"0", "c", "d"}, free, true},
		{"not a node that is no lease voter", "d", []cluster.NodeName{"b", "c"}, nil, false},
		{"a spare that is the lowest of all", "a", []cluster.NodeName{"b", "c"}, nil, true},
	} {
		if got := ShouldCampaign(tc.self, alive, tc.leaseVoters, tc.vote, now); got != tc.want {
			t.Errorf("%s: it campaigns: %t", tc.name, got)
		}
	}
	if len(alive) != 4 || alive[0] != "a" {
		t.Errorf("the list of live nodes was changed to %v", alive)
	}
}

func TestTheVoteOfAStart(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	if v := StartVote(now, cluster.LeaseVoters{}); v != nil {
		t.Errorf("a node without a record starts with %+v", *v)
	}
	if v := StartVote(now, cluster.LeaseVoters{Names: []cluster.NodeName{"a"}}); v == nil || *v != (Vote{At: now}) {
		t.Errorf("a single lease voter starts with %+v, and has nobody to listen to", v)
	}
	three := cluster.LeaseVoters{Names: []cluster.NodeName{"a", "b", "c"}}
	if v := StartVote(now, three); v == nil || *v != (Vote{At: now, Started: true}) {
		t.Errorf("one of three starts with %+v", v)
	}
}

// Where the lowest lease voter cannot ask, as one whose disk hangs before anybody has
// voted, the others do not wait for it forever.
func TestALeaseVoterThatHasNotVotedWaitsForAWhile(t *testing.T) {
	made := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	alive := []cluster.NodeName{"a", "b", "c"}
	var none *Vote
	a, b := none.Since(made, "a", alive), none.Since(made, "b", alive)
	if !ShouldCampaign("a", alive, alive, a, made) {
		t.Error("the lowest waits")
	}
	if ShouldCampaign("b", alive, alive, b, made.Add(orphanGrace+rankInterval)) {
		t.Error("the next does not wait for the lowest")
	}
	later := made.Add(orphanGrace + rankInterval + 1)
	if !ShouldCampaign("b", alive, alive, b.Since(later, "b", alive), later) {
		t.Error("the next waits forever")
	}
	if v := none.Since(made, "d", alive); v != nil {
		t.Errorf("a node that is no lease voter counts from %s", v.At)
	}
	if v := (&Vote{At: made, To: "b"}); v.Since(made.Add(time.Hour), "b", alive) != v {
		t.Error("a vote is no more what it was")
	}
}

func TestTheVoteAfterARequest(t *testing.T) {
	begin := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	now := begin.Add(time.Second)
	started, heard := &Vote{At: begin, Started: true}, &Vote{At: begin, Started: true, Heard: true}
	forB, lapsed := &Vote{At: begin, To: "b"}, &Vote{At: now.Add(-DefaultTTL), To: "b"}
	forLong := &Vote{At: begin, To: "b", For: RestTTL}
	next := &Vote{At: begin, To: "c", Gone: "b", Next: begin}
	long := &Vote{At: begin, To: "c", Gone: "b", Next: now.Add(-orphanGrace)}
	for _, tc := range []struct {
		name    string
		v       *Vote
		req     Request
		granted bool
		want    *Vote
	}{
		{"a grant", nil, Request{Holder: "b"}, true, &Vote{At: now, To: "b"}},
		{"a renewal", forB, Request{Holder: "b"}, true, &Vote{At: now, To: "b"}},
		{"a renewal for long", forB, Request{Holder: "b", TTL: RestTTL}, true, &Vote{At: now, To: "b", For: RestTTL}},
		{"a renewal for short", forLong, Request{Holder: "b", TTL: DefaultTTL}, true,
			&Vote{At: now, To: "b", For: RestTTL - time.Second}},
		{"a renewal for short, some time after", &Vote{At: now.Add(DefaultTTL - RestTTL), To: "b", For: RestTTL},
			Request{Holder: "b", TTL: DefaultTTL}, true, &Vote{At: now, To: "b"}},
		{"a release of a long one", forLong, Request{Holder: "b", TTL: RestTTL, Release: true}, true,
			&Vote{At: now, From: "b"}},
		{"a grant to the next before a long one is over", forLong, Request{Holder: "b"}, false, forLong},
		{"a grant to the next after a long one", &Vote{At: now.Add(-RestTTL), To: "b", For: RestTTL}, Request{Holder: "c"},
			true, &Vote{At: now, To: "c", Gone: "b", Next: now}},
		{"a grant after the start", heard, Request{Holder: "b"}, true, &Vote{At: now, To: "b"}},
		{"a release", forB, Request{Holder: "b", Release: true}, true, &Vote{At: now, From: "b"}},
		{"a grant to the next", lapsed, Request{Holder: "c"}, true, &Vote{At: now, To: "c", Gone: "b", Next: now}},
		{"a renewal of the next", next, Request{Holder: "c"}, true, &Vote{At: now, To: "c", Gone: "b", Next: begin}},
		{"a release by the next", next, Request{Holder: "c", Release: true}, true,
			&Vote{At: now, From: "c", Gone: "b", Next: begin}},
		{"a grant to who was gone", next, Request{Holder: "b"}, true, &Vote{At: now, To: "b"}},
		{"a grant long after", long, Request{Holder: "c"}, true, &Vote{At: now, To: "c"}},
		{"a grant to the next, after its own", &Vote{At: now.Add(-DefaultTTL), To: "a"}, Request{Holder: "c"}, true,
			&Vote{At: now, To: "c"}},
		{"a refusal", forB, Request{Holder: "c"}, false, forB},
		{"a refusal without a vote", nil, Request{Holder: "c"}, false, nil},
		{"a refusal after the start", started, Request{Holder: "c"}, false, heard},
		{"a refusal of itself after the start", started, Request{Holder: "a"}, false, started},
		{"a release after the start that is none", started, Request{Holder: "c", Release: true}, false, started},
	} {
		got := tc.v.After(now, "a", tc.req, tc.granted)
		if (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want {
			t.Errorf("%s: %+v, not %+v", tc.name, got, tc.want)
		}
	}
}

func TestALapsedLeaseReportsOfItsHolder(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name string
		v    *Vote
		want cluster.NodeName
	}{
		{"no vote", nil, ""},
		{"a lease that runs", &Vote{At: now.Add(1 - DefaultTTL), To: "b"}, ""},
		{"one that is over", &Vote{At: now.Add(-DefaultTTL), To: "b"}, "b"},
		{"a longer one that runs", &Vote{At: now.Add(1 - RestTTL), To: "b", For: RestTTL}, ""},
		{"a longer one that is over", &Vote{At: now.Add(-RestTTL), To: "b", For: RestTTL}, "b"},
		{"one that was given back", &Vote{At: now.Add(-DefaultTTL), From: "b"}, ""},
	} {
		if got := tc.v.Lapsed(now); got != tc.want {
			t.Errorf("%s: %q", tc.name, got)
		}
	}
}
