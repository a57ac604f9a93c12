package daemon

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/lease"
)

func TestWhoShouldTryForTheLease(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	alive := []cluster.NodeName{"a", "b", "c"}
	voted := func(to cluster.NodeName, ago time.Duration) *vote { return &vote{at: now.Add(-ago), to: to} }
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
		{"the lowest at once, when the lease was given back", "a", alive, voted("", 0), true},
		{"not another, when the lease was given back", "b", alive, voted("", time.Second), false},
		{"another, when the lowest does not take what was given back", "b", alive, voted("", orphaned+apart+1), true},
		{"not another, when it has just voted for itself", "b", alive, voted("b", time.Second), false},
		{"another that voted for itself long ago, and nobody has the lease", "b", alive, voted("b", orphaned+apart+1), true},
		{"the third one later than the second", "c", alive, voted("", orphaned+apart+1), false},
		{"the third", "c", alive, voted("", orphaned+2*apart+1), true},
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
