package election

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// slowNet is a network whose voters take d for each write.
func slowNet(t *testing.T, initialMembers, later []cluster.NodeName, d time.Duration) *net {
	t.Helper()
	n := newNet(t, initialMembers, later)
	for _, v := range n.voters {
		v.o.Persist = func(lease.Durable) error { time.Sleep(d); return nil }
	}
	return n
}

// Disks that take half a second for a write do not keep a cluster from having a
// coordinator, nor from changing its lease voters.
func TestSlowDisksOfAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := slowNet(t, abc, list{"d"}, 500*time.Millisecond)
		s := n.session(t, "a")
		begin := time.Now()
		must(t, s.Campaign(t.Context()))
		if took := time.Since(begin); took != time.Second {
			t.Errorf("two writes took %v", took)
		}
		if _, until, ok := s.Held(time.Now()); !ok || time.Until(until) < lease.RenewInterval+lease.CallTimeout {
			t.Errorf("the lease is held %t, for %v", ok, time.Until(until))
		}
		begin = time.Now()
		must(t, s.Renew(t.Context()))
		if took := time.Since(begin); took != 0 {
			t.Errorf("a renewal that writes nothing took %v", took)
		}
		must(t, n.voters["d"].Join(t.Context(), s.LeaseVoters()))
		must(t, s.Renew(t.Context()))
		must(t, s.SetLeaseVoters(t.Context(), "tok", list{"a", "b", "c", "d"}))
		if _, _, ok := s.Held(time.Now()); !ok {
			t.Error("the lease ran out meanwhile")
		}
	})
}

// Where one lease voter is gone, and another has granted to it, waiting for the first
// does not delay the next try.
func TestTheDeadHolderIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, abc, nil)
		must(t, n.session(t, "c").Campaign(t.Context()))
		n.set(list{"c"}, nil)
		s, begin := n.session(t, "a"), time.Now()
		var lost *LostError
		if err := s.Campaign(t.Context()); !errors.As(err, &lost) || lost.Holder != "c" {
			t.Fatalf("the campaign ends with %v", err)
		}
		if took := time.Since(begin); took > lease.CallTimeout {
			t.Errorf("it took %v to learn that", took)
		}
	})
}
