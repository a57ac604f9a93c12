package lease

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// Whose lease has run out is still known when another one, also this node itself, has got
// it and renews it: its first observation is not to wait for a machine that is off. Later
// it counts as any other.
func TestWhoLapsedIsKnownToTheNextOne(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	v := (*Vote)(nil).After(now, "b", Request{Holder: "a"}, true)
	if got := v.Lapsed(now.Add(time.Second)); got != "" {
		t.Errorf("%s has lapsed while its lease runs", got)
	}
	taken := now.Add(DefaultTTL)
	for _, after := range []time.Duration{0, 500 * time.Millisecond, time.Second} {
		v = v.After(taken.Add(after), "b", Request{Holder: "b"}, true)
		if got := v.Lapsed(taken.Add(after)); got != "a" {
			t.Errorf("%s after the next lease %q has lapsed, want a", after, got)
		}
	}
	v = v.After(taken.Add(1500*time.Millisecond), "b", Request{Holder: "b"}, true)
	if got := v.Lapsed(taken.Add(DefaultTTL)); got != "" {
		t.Errorf("%s has lapsed forever", got)
	}
	// Who lapses, and takes its own lease again, is not gone.
	again := (&Vote{At: now, To: "a"}).After(taken, "b", Request{Holder: "a"}, true)
	if got := again.Lapsed(taken); got != "" {
		t.Errorf("%s has lapsed, and has the lease", got)
	}
}

// The daemon of the next in line stood still. By its own clock the lease of the coordinator has run out; it
// has not heard of the renewals. It campaigns only when none comes, and not as the next in line.
func TestWhoStoodStillDoesNotTakeTheCoordinatorForGone(t *testing.T) {
	names := []cluster.NodeName{"a", "b", "c"}
	record := cluster.LeaseVoters{Token: "t", Names: names}
	began := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	due, now := began.Add(DefaultTTL), began.Add(20*time.Second)
	v := (*Vote)(nil).After(began, "b", Request{Holder: "a", TTL: DefaultTTL}, true)
	if !ShouldCampaign("b", names, names, v, now) {
		t.Fatal("without this the next in line waits as well")
	}
	late := v.Late(due, now, record)
	if got := late.Lapsed(now.Add(time.Second)); got != "" {
		t.Errorf("%s has lapsed", got)
	}
	for _, x := range []struct {
		self  cluster.NodeName
		after time.Duration
		want  bool
	}{
		{"a", 0, false},
		{"a", MaxTTL, false},
		{"a", MaxTTL + 2*RenewInterval, true}, // all of them stood still
		{"b", 0, false},
		{"b", MaxTTL + 2*RenewInterval, false},
		{"b", orphanGrace + 2*rankInterval, true},
	} {
		if got := ShouldCampaign(x.self, names, names, late, now.Add(x.after)); got != x.want {
			t.Errorf("%s campaigns %s after that: %t", x.self, x.after, got)
		}
	}
	if next := late.After(now.Add(time.Second), "b", Request{Holder: "a", TTL: DefaultTTL}, true); next.Gone != "" {
		t.Errorf("%s counts as gone when it renews the lease", next.Gone)
	}
}

func TestWhichVotesAGapEnds(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	three := cluster.LeaseVoters{Token: "t", Names: []cluster.NodeName{"a", "b", "c"}}
	one := cluster.LeaseVoters{Token: "t", Names: []cluster.NodeName{"a"}}
	old, fresh := &Vote{At: now.Add(-20 * time.Second), To: "a"}, &Vote{At: now.Add(-time.Second), To: "a"}
	for _, x := range []struct {
		name   string
		v      *Vote
		gap    time.Duration
		record cluster.LeaseVoters
		want   *Vote
	}{
		{"no gap", old, 0, three, old},
		{"one as long as a lease", old, DefaultTTL, three, old},
		{"a longer one", old, DefaultTTL + 1, three, &Vote{At: now, Started: true, Heard: true}},
		{"a vote since then", fresh, time.Minute, three, fresh},
		{"a lease voter alone", old, time.Minute, one, &Vote{At: now}},
		{"no vote", nil, time.Minute, three, nil},
		{"no lease voter any more", old, time.Minute, cluster.LeaseVoters{}, nil},
	} {
		got := x.v.Late(now.Add(-x.gap), now, x.record)
		if (got == nil) != (x.want == nil) || got != nil && *got != *x.want {
			t.Errorf("%s: %+v", x.name, got)
		}
	}
}
