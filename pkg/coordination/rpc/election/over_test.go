package election

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// longWay is a net in which answers take long.
type longWay struct{ *net }

func (l longWay) Lease(ctx context.Context, node cluster.NodeName, req lease.Request) (lease.Reply, error) {
	r, err := l.net.Lease(ctx, node, req)
	time.Sleep(100 * time.Millisecond)
	return r, err
}

// Answers to a renewal that was under way when the lease was given back do not bring it back.
func TestALeaseThatIsGivenBackDuringARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, abc, nil)
		s := n.session(t, "a")
		must(t, s.Campaign(t.Context()))
		s.Wait()
		s.o.Voters = longWay{n}
		renewed := make(chan error)
		go func() { renewed <- s.Renew(t.Context()) }()
		synctest.Wait() // the lease voters have granted it, and their answers are on their way
		s.Release(t.Context())
		wantErr(t, <-renewed, "the lease was given back")
		if _, _, ok := s.Held(time.Now()); ok {
			t.Error("it is held")
		}
	})
}

// jump is a net in which the holder's machine stands still while the lease voters answer.
type jump struct {
	*net
	pause *atomic.Int64
	by    time.Duration
}

func (j jump) Lease(ctx context.Context, node cluster.NodeName, req lease.Request) (lease.Reply, error) {
	r, err := j.net.Lease(ctx, node, req)
	j.pause.Store(int64(j.by))
	return r, err
}

// A holder whose machine has stood still until its lease was over does not act on the answers.
func TestAnswersThatAreReadWhenTheLeaseIsOver(t *testing.T) {
	n, pause := newNet(t, abc, nil), &atomic.Int64{}
	now := func() time.Time { return time.Now().Add(time.Duration(pause.Load())) }
	s := New(Options{Cluster: "c", Self: "a", Boot: "boot-a", Voters: n, Now: now})
	s.Enter("tok")
	s.Learn(cluster.LeaseVoters{Token: "tok", Names: abc}, 0)
	t.Cleanup(s.Wait)
	must(t, s.Campaign(t.Context()))
	s.Wait()
	s.o.Voters = jump{n, pause, lease.DefaultTTL}
	_, _, err := s.Confirm(t.Context())
	wantErr(t, err, "it was over when the lease voters answered")
}

// Who waits for a round that hangs waits no longer than its context.
func TestARoundIsWaitedForWithADeadline(t *testing.T) {
	n := newNet(t, abc, nil)
	s := n.session(t, "a")
	must(t, s.take(t.Context()))
	defer s.leave()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, confirm := s.Confirm(ctx)
	for what, err := range map[string]error{
		"confirm": confirm, "renew": s.Renew(ctx), "campaign": s.Campaign(ctx),
		"change": s.SetLeaseVoters(ctx, "tok", abc),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A lease that was given back, and whose end was written late, keeps nobody waiting.
func TestAReleaseThatLandsLate(t *testing.T) {
	record := cluster.LeaseVoters{Token: "t1", Term: 1, Names: list{"a", "b"}}
	disk, fails := lease.Durable{Term: 1, LeaseVoters: record}, false
	now := time.Now()
	v := NewVoter(VoterOptions{
		Cluster: "c", Self: "a", Durable: disk, Now: func() time.Time { return now },
		Persist: func(d lease.Durable) error {
			if disk = d; fails {
				return errors.New("no answer from the disk")
			}
			return nil
		},
		Reload: func() (lease.Durable, error) { return disk, nil },
	})
	now = now.Add(lease.MaxTTL + time.Second) // the quiet time of its start is over
	ask := func(term cluster.Term, holder cluster.NodeName, release bool) lease.Reply {
		t.Helper()
		r, err := v.Lease(t.Context(), lease.Request{Cluster: "c", Token: "t1", Term: term, Holder: holder, Boot: "x",
			TTL: lease.DefaultTTL, LeaseVoters: record, Release: release})
		must(t, err)
		return r
	}
	if r := ask(2, "b", false); !r.Granted {
		t.Fatalf("it is free, and not granted: %s", r.Reason)
	}
	if r := ask(3, "a", false); r.Granted {
		t.Error("two hold it")
	}
	fails = true
	ask(2, "b", true)
	fails = false
	if r := ask(4, "a", false); !r.Granted {
		t.Errorf("it was given back, and is not granted: %s", r.Reason)
	}
}
