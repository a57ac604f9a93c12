package backupagent

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// world returns the view of an agent beside one member of a cluster of n, whose
// member 1 leads. All members answer.
func world(n int, mine cluster.MemberID) View {
	var v View
	for i := range n {
		id := cluster.MemberID(i + 1)
		v.Candidates = append(v.Candidates, Candidate{
			Member:   cluster.Member{ID: id, Name: cluster.NodeName(fmt.Sprintf("m%d", id))},
			Endpoint: fmt.Sprintf("http://m%d", id), Mine: id == mine,
			Report: &cluster.Report{ID: id, Leader: 1, RaftTerm: 5, Applied: 100_000},
		})
	}
	return v
}

func TestTurns(t *testing.T) {
	// The orders of the followers of three depend on the key alone.
	if a, b := must(world(3, 2).rank(Follower, "k")), must(world(3, 3).rank(Follower, "k")); a.position+b.position != 1 {
		t.Errorf("the followers have the ranks %d and %d", a.position, b.position)
	}
	for _, c := range []struct {
		name     string
		prefer   Prefer
		n        int
		mine     cluster.MemberID
		change   func(v *View)
		position int
		err      string
	}{
		{name: "the leader comes after the followers", prefer: Follower, n: 3, mine: 1, position: 2},
		{name: "a single member leads and is read", prefer: Follower, n: 1, mine: 1, position: 0},
		{name: "the leader lets followers that it does not see go first", prefer: Follower, n: 3, mine: 1, position: 1,
			change: func(v *View) { v.Candidates[1].Report, v.Candidates[2].Report = nil, nil }},
		{name: "a follower does not wait for one that does not answer", prefer: Follower, n: 3, mine: 3, position: 0,
			change: func(v *View) { v.Candidates[1].Report = nil }},
		{name: "the leader at first", prefer: Leader, n: 3, mine: 1, position: 0},
		{name: "a follower after the leader", prefer: Leader, n: 2, mine: 2, position: 1},
		{name: "each its own", prefer: Local, n: 5, mine: 4, position: 0},
		{name: "the leader or nobody: the leader", prefer: LeaderOnly, n: 3, mine: 1, position: 0},
		{name: "the leader or nobody: a follower", prefer: LeaderOnly, n: 3, mine: 2, err: "is not the leader"},
		{name: "the leader or nobody: alone", prefer: LeaderOnly, n: 1, mine: 1, position: 0},
		{name: "a learner is not read", prefer: Local, n: 3, mine: 3, err: "a learner", change: func(v *View) {
			v.Candidates[2].Learner = true
		}},
		{name: "nor one without a leader", prefer: Local, n: 3, mine: 3, err: "no leader", change: func(v *View) {
			v.Candidates[2].Report.Leader = 0
		}},
		{name: "nor one that is corrupt", prefer: Local, n: 3, mine: 3, err: "CORRUPT", change: func(v *View) {
			v.Candidates[2].Report.Alarms = []string{"CORRUPT"}
		}},
		{name: "one without space is", prefer: Local, n: 3, mine: 3, change: func(v *View) {
			v.Candidates[2].Report.Alarms = []string{"NOSPACE"}
		}},
		{name: "nor one that is behind", prefer: Follower, n: 3, mine: 3, err: "5000 entries behind", change: func(v *View) {
			v.Candidates[2].Report.Applied -= 5000
		}},
		{name: "nor one that only answers", prefer: Local, n: 3, mine: 3, err: "no linearizable read",
			change: func(v *View) { v.Candidates[2].Report.Read = cluster.ReadLate }},
		{name: "nor one of an old term", prefer: Follower, n: 3, mine: 3, err: "it has applied nothing of term 5 yet",
			change: func(v *View) { v.Candidates[2].Report.RaftTerm = 4 }},
		{name: "one that is a little behind is", prefer: Follower, n: 2, mine: 2, change: func(v *View) {
			v.Candidates[1].Report.Applied -= 500
		}},
		{name: "nor one that does not answer", prefer: Local, n: 3, mine: 3, err: "does not answer", change: func(v *View) {
			v.Candidates[2].Report = nil
		}},
		{name: "an agent of nobody", prefer: Follower, n: 3, mine: 9, err: "none of this agent's"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := world(c.n, c.mine)
			if c.change != nil {
				c.change(&v)
			}
			got, err := v.rank(c.prefer, "key")
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%+v, %v", got, err)
				}
			case err != nil || got.position != c.position || got.candidate.ID != c.mine:
				t.Errorf("rank %d of %s, %v", got.position, got.candidate.ID, err)
			}
		})
	}
}

func must(t rank, err error) rank {
	if err != nil {
		panic(err)
	}
	return t
}

func TestFollowersTakeTurns(t *testing.T) {
	first := map[cluster.MemberID]int{}
	for i := range 300 {
		key := fmt.Sprint("after-", i)
		firsts := 0
		for id := range cluster.MemberID(5) {
			if rank := must(world(5, id+1).rank(Follower, key)); rank.position == 0 {
				first[id+1]++
				firsts++
			}
		}
		if firsts != 1 {
			t.Fatalf("%s: %d agents are the first", key, firsts)
		}
	}
	for id := cluster.MemberID(2); id <= 5; id++ {
		if first[id] < 30 {
			t.Errorf("of 300 backups %d are of member %s: %v", first[id], id, first)
		}
	}
	if first[1] > 0 {
		t.Errorf("the leader is read %d times", first[1])
	}
}

func rules() Rules {
	return Rules{Schedule: Schedule{Interval: 15 * time.Minute}, Prefer: Follower, RankTimeout: 15 * time.Second,
		Agent: "a"}
}

func TestDecide(t *testing.T) {
	newest := at(t, "2026-11-20T10:00:00Z")
	for _, c := range []struct {
		name string
		now  string
		s    State
		want string // act, or the time to observe again
	}{
		{"not due", "2026-11-20T10:14:59Z", State{Listed: true, Newest: newest, View: world(2, 2)}, "2026-11-20T10:15:00Z"},
		{"due", "2026-11-20T10:15:00Z", State{Listed: true, Newest: newest, View: world(2, 2)},
			"act after-2026-11-20T10:00:00Z"},
		{"long due", "2026-11-21T10:15:00Z", State{Listed: true, Newest: newest, View: world(2, 2)},
			"act after-2026-11-20T10:00:00Z"},
		{"due for others", "2026-11-20T10:15:00Z", State{Listed: true, Newest: newest, View: world(2, 1)},
			"2026-11-20T10:15:15Z"},
		{"the others did not act", "2026-11-20T10:15:15Z", State{Listed: true, Newest: newest, View: world(2, 1)},
			"act after-2026-11-20T10:00:00Z"},
		{"the first", "2026-11-20T10:15:16Z", State{Listed: true, View: world(2, 1)}, "act first"},
		{"not listed", "2026-11-20T10:17:00Z", State{Newest: newest, View: world(2, 2)}, "act at-2026-11-20T10:15:00Z"},
		{"not listed, and taken in this quarter", "2026-11-20T10:29:00Z", State{
			Newest: newest.Add(16 * time.Minute), View: world(2, 2),
		}, "2026-11-20T10:30:00Z"},
		{"never listed", "2026-11-20T10:17:00Z", State{View: world(2, 2)}, "act at-2026-11-20T10:15:00Z"},
		{"found unchanged", "2026-11-20T10:17:00Z", State{
			Listed: true, Newest: newest, Confirmed: newest.Add(10 * time.Minute), View: world(2, 2),
		}, "2026-11-20T10:25:00Z"},
		{"no rank", "2026-11-20T10:15:00Z", State{Listed: true, Newest: newest, View: world(2, 9)}, "2026-11-20T10:15:30Z"},
		{"failed, and others can", "2026-11-20T10:45:00Z", State{
			Listed: true, Newest: newest, Failures: 1, Failed: at(t, "2026-11-20T10:44:50Z"), View: world(2, 2),
		}, "2026-11-20T10:45:35Z"},
		{"failed, and nobody else can", "2026-11-20T10:45:00Z", State{
			Listed: true, Newest: newest, Failures: 1, Failed: at(t, "2026-11-20T10:44:50Z"), View: world(1, 1),
		}, "act after-2026-11-20T10:00:00Z"},
		{"failed long ago", "2026-11-20T10:45:00Z", State{
			Listed: true, Newest: newest, Failures: 9, Failed: at(t, "2026-11-20T10:30:00Z"), View: world(2, 2),
		}, "act after-2026-11-20T10:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.s.Now = at(t, c.now)
			d := decide(rules(), c.s)
			got := d.Next.UTC().Format(time.RFC3339)
			if d.Act {
				got = "act " + d.Key
			} else if d.Why == "" {
				t.Error("it does not say why")
			}
			if got != c.want {
				t.Errorf("%s (%s), want %s", got, d.Why, c.want)
			}
		})
	}
}

func TestBackoffGrowsToABound(t *testing.T) {
	for _, period := range []time.Duration{3 * time.Second, time.Minute, 15 * time.Minute, 24 * time.Hour} {
		r := rules()
		r.Schedule.Interval = period
		last := time.Duration(0)
		for n := 1; n < 2000; n++ {
			wait := r.backoff(State{Failures: n, Now: at(t, "2026-11-20T10:00:00Z")})
			most := min(maxRetryDelay, period)
			if wait <= 0 || wait > most+most/5 || wait < last*4/5 {
				t.Fatalf("every %s: after %d failures %s, before %s", period, n, wait, last)
			}
			last = wait
		}
	}
	a, b := rules(), rules()
	b.Agent = "b"
	s := State{Failures: 3}
	if a.backoff(s) == b.backoff(s) {
		t.Error("two agents try again at the same time")
	}
}

// Whatever the state, a decision acts or names a time that lies ahead, and the
// same state gives the same decision.
func TestDecideAlwaysGoesOn(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	now := at(t, "2026-11-20T10:00:00Z")
	some := func() time.Time {
		if r.IntN(4) == 0 {
			return time.Time{}
		}
		return now.Add(time.Duration(r.IntN(7200)-6000) * time.Second)
	}
	for i := range 1500 {
		s := State{Now: now, Listed: r.IntN(2) == 0, Newest: some(), Confirmed: some(),
			View: world(1+r.IntN(5), cluster.MemberID(r.IntN(6)))}
		if r.IntN(2) == 0 {
			s.Failures, s.Failed = r.IntN(20), now.Add(-time.Duration(r.IntN(600))*time.Second)
		}
		for _, schedule := range []Schedule{{Interval: time.Second}, {Interval: 24 * time.Hour}, {Cron: "*/5 * * * *"}} {
			rules := rules()
			rules.Schedule = schedule
			rules.Prefer = []Prefer{Follower, Leader, Local, LeaderOnly}[r.IntN(4)]
			d := decide(rules, s)
			if d.Act == d.Next.After(now) || d.Act != (d.Key != "" && d.Candidate.Mine) {
				t.Fatalf("case %d: %+v of %+v", i, d, s)
			}
			if again := decide(rules, s); again.Act != d.Act || again.Key != d.Key || !again.Next.Equal(d.Next) {
				t.Fatalf("case %d: %+v, then %+v", i, d, again)
			}
		}
	}
}

func TestWhatCountsAsTheNewest(t *testing.T) {
	now := at(t, "2026-11-20T10:00:00Z")
	old, good := cluster.Backup{Name: "old", At: now.Add(-time.Hour)}, cluster.Backup{
		Name: "good", At: now.Add(-time.Minute),
	}
	ahead := cluster.Backup{Name: "ahead", At: now.Add(time.Minute)}
	damaged := cluster.Backup{Name: "damaged", At: now, Damaged: true}
	future := cluster.Backup{Name: "future", At: now.Add(time.Hour)}
	for want, list := range map[string][]cluster.Backup{
		"":      {damaged, future},
		"good":  {damaged, good, future, old},
		"ahead": {ahead, good},
	} {
		if got := newestGood(list, now); got.Name != want {
			t.Errorf("%q, want %q", got.Name, want)
		}
	}
}
