package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc/election"
)

type names = []cluster.NodeName

var abc = names{"a", "b", "c"}

// A parliament is lease voters without a network. Those in hung do not answer.
type parliament struct {
	t      *testing.T
	voters map[cluster.NodeName]*election.Voter

	mu   sync.Mutex
	hung names
}

// bootstrapped is a parliament of a, b and c; d has joined and is no lease voter yet.
func bootstrapped(t *testing.T) *parliament {
	t.Helper()
	p := &parliament{t: t, voters: map[cluster.NodeName]*election.Voter{}}
	for _, n := range append(abc, "d") {
		v := election.NewVoter(election.VoterOptions{
			Cluster: "main", Self: n, Persist: func(lease.Durable) error { return nil },
		})
		var err error
		if n == "d" {
			err = v.Join(t.Context(), record())
		} else {
			err = v.Prepare(t.Context(), "t1", abc)
		}
		if err != nil {
			t.Fatal(err)
		}
		p.voters[n] = v
	}
	return p
}

func record() cluster.LeaseVoters { return cluster.LeaseVoters{Token: "t1", Names: slices.Clone(abc)} }

func (p *parliament) Lease(ctx context.Context, node cluster.NodeName, req lease.Request) (lease.Reply, error) {
	p.mu.Lock()
	hung := slices.Contains(p.hung, node)
	p.mu.Unlock()
	if hung {
		<-ctx.Done()
		return lease.Reply{}, ctx.Err()
	}
	return p.voters[node].Lease(ctx, req)
}

func (p *parliament) hang(list ...cluster.NodeName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hung = list
}

// lease is a lease of the daemon name. Nothing of it is left when the test
// ends; the bubble would say so.
func (p *parliament) lease(name cluster.NodeName) *Lease {
	l := newLease(election.New(election.Options{
		Cluster: "main", Self: name, Boot: cluster.Token("boot-" + name), Voters: p,
	}), time.Now, nil, nil)
	p.t.Cleanup(l.Close)
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want one with %q", err, text)
	}
}

func wantHeld(t *testing.T, l *Lease, term cluster.Term) {
	t.Helper()
	got, ok := l.Held()
	if got != term || ok != (term > 0) {
		t.Errorf("held is %t in term %d, want term %d", ok, got, term)
	}
}

func TestALeaseIsKeptUntilItIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bootstrapped(t)
		a, b := p.lease("a"), p.lease("b")
		wantHeld(t, a, 0)
		must(t, a.Acquire(t.Context(), record()))
		for range 100 {
			time.Sleep(3 * time.Second)
			wantHeld(t, a, 1)
		}
		err := b.Acquire(t.Context(), record())
		var held *lease.HeldError
		if !errors.As(err, &held) || held.Holder != "a" || held.Remaining <= 0 || held.Remaining > lease.DefaultTTL {
			t.Errorf("the second gets %v", err)
		}
		wantHeld(t, b, 0)

		a.Release(t.Context())
		wantHeld(t, a, 0)
		must(t, b.Acquire(t.Context(), record())) // at once, without waiting for the end of a's
		if term, _ := b.Held(); term <= 1 {
			t.Errorf("the next term is %d", term)
		}
		a.Release(t.Context()) // of nothing
		a.Close()
		time.Sleep(time.Minute)
		wantHeld(t, a, 0)
		if _, ok := b.Held(); !ok {
			t.Error("b has lost its lease to nobody")
		}
	})
}

func TestTheInitSystemEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bootstrapped(t)
		ctx, cancel := context.WithCancel(t.Context())
		a := p.lease("a")
		must(t, a.Acquire(ctx, record()))
		cancel()
		time.Sleep(lease.DefaultTTL)
		wantHeld(t, a, 0)
	})
}

func TestALeaseThatCannotBeRenewedIsOverInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bootstrapped(t)
		a, b := p.lease("a"), p.lease("b")
		must(t, a.Acquire(t.Context(), record()))
		p.hang("c")
		time.Sleep(time.Minute)
		wantHeld(t, a, 1) // a minority that hangs changes nothing

		began := time.Now()
		p.hang("b", "c")
		for _, ok := a.Held(); ok; _, ok = a.Held() {
			if time.Since(began) > lease.DefaultTTL {
				t.Fatal("it holds the lease longer than the lease voters know of")
			}
			time.Sleep(10 * time.Millisecond)
		}
		p.hang()
		if err := b.Acquire(t.Context(), record()); err == nil {
			t.Error("another got it before the lease voters' time was over")
		}
		time.Sleep(lease.DefaultTTL)
		must(t, b.Acquire(t.Context(), record()))
	})
}

func TestACampaignAmongTheDeafEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bootstrapped(t)
		p.hang(abc...)
		a := p.lease("a")
		began := time.Now()
		err := a.Acquire(t.Context(), record())
		var held *lease.HeldError
		if err == nil || errors.As(err, &held) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took > campaignTimeout {
			t.Errorf("it took %s", took)
		}
		wantHeld(t, a, 0)
	})
}

func TestAcquiringAgainBeginsANewTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := bootstrapped(t).lease("a")
		must(t, a.Acquire(t.Context(), record()))
		must(t, a.Acquire(t.Context(), record()))
		wantHeld(t, a, 2)
		time.Sleep(time.Minute) // one renewal is left
		wantHeld(t, a, 2)
	})
}

func TestConfirmProvesUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bootstrapped(t)
		a := p.lease("a")
		must(t, a.Acquire(t.Context(), record()))
		time.Sleep(10 * time.Second)
		began := time.Now()
		ctx, cancel, term, err := a.Confirm(t.Context())
		must(t, err)
		defer cancel()
		if until, _ := ctx.Deadline(); term != 1 || until.Sub(began) != lease.DefaultTTL-lease.Margin(lease.DefaultTTL) {
			t.Errorf("term %d, proven for %s", term, until.Sub(began))
		}
		<-ctx.Done() // renewals in the background do not make an old proof longer
		if took := time.Since(began); took != lease.DefaultTTL-lease.Margin(lease.DefaultTTL) {
			t.Errorf("the proof ended after %s", took)
		}
		p.hang("b", "c")
		if _, _, _, err := a.Confirm(t.Context()); err == nil {
			t.Error("a majority that does not answer proved something")
		}
	})
}

func TestWithoutLeaseVotersThereIsNothingToProve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := bootstrapped(t).lease("a")
		ctx, cancel, term, err := a.Confirm(t.Context())
		must(t, err)
		if _, limited := ctx.Deadline(); term != 0 || limited {
			t.Errorf("term %d, limited %t", term, limited)
		}
		cancel()
		if ctx.Err() == nil {
			t.Error("cancel does not end it")
		}
	})
}

func TestALeaseThatWasNeverHadProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bootstrapped(t)
		a, b := p.lease("a"), p.lease("b")
		must(t, a.Acquire(t.Context(), record()))
		if err := b.Acquire(t.Context(), record()); err == nil {
			t.Fatal("two hold the lease")
		}
		if _, _, _, err := b.Confirm(t.Context()); err == nil {
			t.Error("b proved what it does not have")
		}
	})
}

func TestLeaseVotersChangeOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bootstrapped(t)
		a := p.lease("a")
		if err := a.ChangeLeaseVoters(t.Context(), "t1", names{"a", "b"}); err == nil {
			t.Error("the lease voters were changed without the lease")
		}
		must(t, a.Acquire(t.Context(), record()))
		wantError(t, a.ChangeLeaseVoters(t.Context(), "t1", names{"a"}), "one at a time")
		must(t, a.ChangeLeaseVoters(t.Context(), "t1", names{"a", "b", "c", "d"}))
		got := a.LeaseVoters()
		if got.Term != 1 || got.Seq != 1 || !slices.Equal(got.Names, names{"a", "b", "c", "d"}) {
			t.Errorf("the record is %+v", got)
		}
		adopted := 0
		for _, v := range p.voters {
			if d, err := v.Durable(t.Context()); err == nil && slices.Equal(d.LeaseVoters.Names, got.Names) {
				adopted++
			}
		}
		if adopted < 3 {
			t.Errorf("%d of 4 lease voters have it on disk", adopted)
		}
		p.hang("d")
		must(t, a.ChangeLeaseVoters(t.Context(), "t1", abc)) // one that is gone can go
		must(t, a.ChangeLeaseVoters(t.Context(), "t1", abc)) // the same again is nothing
	})
}

func TestAnotherIncarnationEndsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := bootstrapped(t).lease("a")
		must(t, a.Acquire(t.Context(), record()))
		if err := a.Acquire(t.Context(), cluster.LeaseVoters{Token: "t2", Names: abc}); err == nil {
			t.Error("lease voters of one incarnation granted a lease of another")
		}
		wantHeld(t, a, 0)
	})
}

// A holder that does not get on must not keep others from the lease, and one that
// is unfit gets none, nor proves any.
func TestALeaseOfADaemonThatDoesNotGetOnRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stuck, unfit atomic.Bool
		says := func(b *atomic.Bool, text string) func() error {
			return func() error {
				if b.Load() {
					return errors.New(text)
				}
				return nil
			}
		}
		p := bootstrapped(t)
		s := election.New(election.Options{Cluster: "main", Self: "a", Boot: "boot-a", Voters: p})
		l := newLease(s, time.Now, says(&unfit, "the disk hangs"), says(&stuck, "the loop is stuck"))
		defer l.Close()
		must(t, l.Acquire(t.Context(), record()))
		held := func() bool { _, ok := l.Held(); return ok }
		time.Sleep(time.Minute)
		if !held() {
			t.Fatal("it is not renewed")
		}
		stuck.Store(true)
		time.Sleep(lease.DefaultTTL)
		if held() {
			t.Error("it is renewed while the loop is stuck")
		}
		stuck.Store(false)
		unfit.Store(true)
		if err := l.Acquire(t.Context(), record()); err == nil || !strings.Contains(err.Error(), "the disk hangs") {
			t.Errorf("an unfit daemon asks for the lease: %v", err)
		}
		unfit.Store(false)
		must(t, l.Acquire(t.Context(), record()))
		unfit.Store(true)
		if _, _, _, err := l.Confirm(t.Context()); err == nil || !strings.Contains(err.Error(), "the disk hangs") {
			t.Errorf("an unfit daemon proves its lease: %v", err)
		}
	})
}
