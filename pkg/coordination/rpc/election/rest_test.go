package election

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// At rest the lease voters are asked less often, and the lease is held all the time.
func TestAtRestTheLeaseIsRenewedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, abc, nil)
		s := n.session(t, "a")
		must(t, s.Campaign(t.Context()))
		keep := func(d time.Duration) int {
			t.Helper()
			synctest.Wait() // a round may have ended before its last call
			before := n.called("b")
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			must(t, s.Keep(ctx, always))
			if term, _, ok := s.Held(time.Now()); !ok || term != 1 {
				t.Fatalf("term %d is held: %t", term, ok)
			}
			synctest.Wait()
			return n.called("b") - before
		}
		if got, want := keep(time.Minute), int(time.Minute/lease.RenewInterval); got < want-1 || got > want {
			t.Errorf("%d renewals in a minute of work, want %d", got, want)
		}
		s.Rest(true)
		if got, want := keep(time.Minute), int(time.Minute/lease.RestRenewInterval); got < want-1 || got > want+1 {
			t.Errorf("%d renewals in a minute of rest, want %d", got, want)
		}
		s.Rest(false)
		if got, want := keep(time.Minute), int(time.Minute/lease.RenewInterval); got < want-4 || got > want {
			t.Errorf("%d renewals in a minute of work after rest, want %d", got, want)
		}
	})
}

// At any moment at which the lease voters stop to answer, three renewals are tried before the lease
// is over, at rest and where rest has just begun or ended; another gets it when the grants are over.
func TestAsManyRenewalsCanBeLostAtRest(t *testing.T) {
	for at := 10 * time.Millisecond; at < 7*time.Second; at += 100 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			n := newNet(t, abc, nil)
			s := n.session(t, "a")
			must(t, s.Campaign(t.Context()))
			time.AfterFunc(2*time.Second+5*time.Millisecond, func() { s.Rest(true) })
			time.AfterFunc(5*time.Second+5*time.Millisecond, func() { s.Rest(false) })
			var asked atomic.Int64
			time.AfterFunc(at, func() {
				n.set(list{"b", "c"}, nil)
				asked.Store(int64(n.called("b")))
			})
			begin := time.Now()
			var lost *LostError
			if err := s.Keep(t.Context(), always); !errors.As(err, &lost) {
				t.Fatalf("Keep returns %v", err)
			}
			took := time.Since(begin) - at
			if took > lease.RestTTL+lease.CallTimeout {
				t.Errorf("unreachable from %v: Keep gave up after %v", at, took)
			}
			if got := n.called("b") - int(asked.Load()); got < 3 {
				t.Errorf("unreachable from %v: %d renewals were tried", at, got)
			}
			n.set(nil, nil)
			time.Sleep(max(0, lease.RestTTL-took)) // until the lease voters have let go
			must(t, n.session(t, "b").Campaign(t.Context()))
		})
	}
}

// A new lease is one for work.
func TestACampaignEndsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, abc, nil)
		s := n.session(t, "a")
		s.Rest(true)
		must(t, s.Campaign(t.Context()))
		_, until, _ := s.Held(time.Now())
		if got, want := time.Until(until), lease.DefaultTTL-lease.Margin(lease.DefaultTTL); got != want {
			t.Errorf("it is held for %v, want %v", got, want)
		}
	})
}
