package election

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// A net is a network of voters. Nodes in hung do not answer before the
// caller's deadline, those in down refuse at once.
type net struct {
	mu     sync.Mutex
	voters map[cluster.NodeName]*Voter
	hung   []cluster.NodeName
	down   []cluster.NodeName
	calls  map[cluster.NodeName]int
	delay  time.Duration
	late   cluster.NodeName // answers later than the others
}

func always() error { return nil }

func newNet(t *testing.T, initialMembers, later []cluster.NodeName) *net {
	t.Helper()
	n := &net{voters: map[cluster.NodeName]*Voter{}, calls: map[cluster.NodeName]int{}}
	for _, name := range slices.Concat(initialMembers, later) {
		n.voters[name] = NewVoter(VoterOptions{Cluster: "c", Self: name, Persist: func(lease.Durable) error { return nil }})
		if slices.Contains(initialMembers, name) {
			if err := n.voters[name].Prepare(t.Context(), "tok", initialMembers); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

func (n *net) Lease(ctx context.Context, node cluster.NodeName, req lease.Request) (lease.Reply, error) {
	n.mu.Lock()
	n.calls[node]++
	hung, down, v, delay := slices.Contains(n.hung, node), slices.Contains(n.down, node), n.voters[node], n.delay
	n.mu.Unlock()
	if down {
		return lease.Reply{}, errors.New("connection refused")
	}
	if node == n.late {
		delay += 100 * time.Millisecond
	}
	if delay > 0 {
		time.Sleep(delay)
	}
	if hung {
		<-ctx.Done()
		return lease.Reply{}, ctx.Err()
	}
	return v.Lease(ctx, req)
}

func (n *net) set(hung, down []cluster.NodeName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hung, n.down = hung, down
}

func (n *net) called(node cluster.NodeName) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[node]
}

func (n *net) session(t *testing.T, name cluster.NodeName) *Session {
	t.Helper()
	s := New(Options{Cluster: "c", Self: name, Boot: cluster.Token("boot-" + name), Voters: n})
	s.Enter("tok")
	for _, v := range n.voters {
		d, err := v.Durable(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.Learn(d.LeaseVoters, d.Term)
	}
	t.Cleanup(s.Wait)
	return s
}

type list = []cluster.NodeName

var abc = list{"a", "b", "c"}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Fatalf("error %v, want one with %q", err, text)
	}
}

func TestAHungMinorityDoesNotSlowTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, list{"a", "b", "c", "d", "e"}, nil)
		n.set(list{"d", "e"}, nil)
		s := n.session(t, "a")
		begin := time.Now()
		must(t, s.Campaign(t.Context()))
		for range 20 {
			must(t, s.Renew(t.Context()))
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("it took %v, with two of five lease voters hanging", took)
		}
		n.mu.Lock()
		calls := n.calls["d"]
		n.mu.Unlock()
		if calls > maxUnanswered {
			t.Errorf("%d calls to a hung lease voter are under way", calls)
		}
		s.Wait()
		if took := time.Since(begin); took != lease.WriteTimeout {
			t.Errorf("the last call ended after %v, want %v", took, lease.WriteTimeout)
		}
	})
}

func TestAHungMajorityEndsTheLeaseInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, abc, nil)
		s := n.session(t, "a")
		must(t, s.Campaign(t.Context()))
		begin := time.Now()
		n.set(list{"b", "c"}, nil)
		err := s.Keep(t.Context(), always)
		wantErr(t, err, "deadline exceeded")
		var lost *LostError
		if !errors.As(err, &lost) || len(lost.Answers) != 2 {
			t.Errorf("the error is %#v, not a LostError with two answers", err)
		}
		held := lease.DefaultTTL - lease.Margin(lease.DefaultTTL)
		if took := time.Since(begin); took < held || took > lease.DefaultTTL+lease.CallTimeout {
			t.Errorf("Keep gave up after %v, the lease ended after %v", took, held)
		}
		n.set(nil, nil)
		time.Sleep(max(0, lease.DefaultTTL-time.Since(begin))) // until the lease voters have let go
		must(t, n.session(t, "b").Campaign(t.Context()))
	})
}

func TestKeepKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, abc, nil)
		s := n.session(t, "a")
		must(t, s.Campaign(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		must(t, s.Keep(ctx, always))
		if term, _, ok := s.Held(time.Now()); !ok || term != 1 {
			t.Errorf("after an hour: term %d, held %v", term, ok)
		}
	})
}

// A holder that does not get on stops to renew its lease, for another to have it.
func TestKeepEndsWhereTheHolderDoesNotGetOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, abc, nil)
		s := n.session(t, "a")
		must(t, s.Campaign(t.Context()))
		begin, stuck := time.Now(), errors.New("stuck")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Keep(ctx, func() error { return stuck }); !errors.Is(err, stuck) {
			t.Errorf("Keep returns %v", err)
		}
		if took := time.Since(begin); took > lease.DefaultTTL+lease.RenewInterval {
			t.Errorf("it kept the lease for %v", took)
		}
		time.Sleep(lease.DefaultTTL)
		must(t, n.session(t, "b").Campaign(t.Context()))
	})
}

func TestTheSecondCandidateWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, abc, nil)
		a, b := n.session(t, "a"), n.session(t, "b")
		must(t, a.Campaign(t.Context()))
		err := b.Campaign(t.Context())
		var lost *LostError
		if !errors.As(err, &lost) || lost.Holder != "a" || lost.Remaining <= 0 || lost.Remaining > lease.DefaultTTL {
			t.Fatalf("the loser receives %+v", err)
		}
		time.Sleep(lost.Remaining)
		must(t, b.Campaign(t.Context()))
		if _, _, ok := a.Held(time.Now()); ok {
			t.Error("both hold")
		}
		wantErr(t, a.Renew(t.Context()), "is over")
		if term, _, _ := b.Held(time.Now()); term < 2 {
			t.Errorf("b holds term %d", term)
		}
	})
}

func TestALostCampaignGivesItsGrantsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, abc, nil)
		n.set(nil, list{"b", "c"})
		a := n.session(t, "a")
		wantErr(t, a.Campaign(t.Context()), "b: connection refused")
		a.Wait()
		n.set(nil, list{"c"})
		must(t, n.session(t, "b").Campaign(t.Context())) // a's lease voter is free at once
	})
}

func TestReleaseLetsTheNextOneInAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, abc, nil)
		a, b := n.session(t, "a"), n.session(t, "b")
		must(t, a.Campaign(t.Context()))
		a.Release(t.Context())
		if _, _, ok := a.Held(time.Now()); ok {
			t.Error("held after the release")
		}
		must(t, b.Campaign(t.Context()))
		a.Release(t.Context()) // nothing to give back
		must(t, b.Renew(t.Context()))
	})
}

func TestConfirmCountsFromBeforeTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, abc, nil)
		s := n.session(t, "a")
		must(t, s.Campaign(t.Context()))
		n.mu.Lock()
		n.delay = 300 * time.Millisecond
		n.mu.Unlock()
		asked := time.Now()
		term, until, err := s.Confirm(t.Context())
		must(t, err)
		if want := asked.Add(lease.DefaultTTL - lease.Margin(lease.DefaultTTL)); term != 1 || !until.Equal(want) {
			t.Errorf("term %d until %v after the question, want %v", term, until.Sub(asked), want.Sub(asked))
		}
	})
}

func TestLeaseVotersChangeOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, list{"a"}, list{"b", "c"})
		s := n.session(t, "a")
		must(t, s.Campaign(t.Context()))
		wantErr(t, s.SetLeaseVoters(t.Context(), "other", list{"a"}), "the lease is of incarnation tok")
		wantErr(t, s.SetLeaseVoters(t.Context(), "tok", list{"a", "b"}), "lease voter b is not ready")
		if got := s.LeaseVoters().Names; !slices.Equal(got, list{"a"}) {
			t.Fatalf("lease voters %v after a refused change", got)
		}
		for _, name := range (list{"b", "c"}) {
			must(t, n.voters[name].Join(t.Context(), s.LeaseVoters()))
			must(t, s.SetLeaseVoters(t.Context(), "tok", append(s.LeaseVoters().Names, name)))
		}
		n.set(nil, list{"a"})
		must(t, s.Renew(t.Context()))
		wantErr(t, s.SetLeaseVoters(t.Context(), "tok", list{"b"}), "one at a time")
		must(t, s.SetLeaseVoters(t.Context(), "tok", list{"b", "c"}))
		for _, name := range (list{"b", "c"}) {
			d, err := n.voters[name].Durable(t.Context())
			must(t, err)
			if !slices.Equal(d.LeaseVoters.Names, list{"b", "c"}) {
				t.Errorf("%s has the lease voters %v on disk", name, d.LeaseVoters.Names)
			}
		}
	})
}

func TestAnUnfinishedChangeIsFinishedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, abc, nil)
		s := n.session(t, "a")
		must(t, s.Campaign(t.Context()))
		n.set(nil, list{"a"}) // b alone is no majority of the new two
		wantErr(t, s.SetLeaseVoters(t.Context(), "tok", list{"a", "b"}), "connection refused")
		n.set(nil, nil)
		must(t, s.SetLeaseVoters(t.Context(), "tok", list{"a", "b"}))
		if got := s.LeaseVoters(); got.Seq != 1 {
			t.Errorf("the record is %+v, the change was made twice", got)
		}
	})
}

func TestRoundsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, abc, nil)
		n.set(abc, nil)
		s := n.session(t, "a")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := s.Campaign(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("campaign: %v", err)
		}
		go func() { _ = s.Campaign(t.Context()) }()
		synctest.Wait()
		if err := s.Campaign(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting for another round: %v", err)
		}
	})
}

func TestAPromiseThatIsNotOnDiskIsNotGiven(t *testing.T) {
	full := errors.New("no space left on device")
	var fail error
	v := NewVoter(VoterOptions{Cluster: "c", Self: "a", Persist: func(lease.Durable) error { return fail }})
	must(t, v.Prepare(t.Context(), "tok", abc))
	req := lease.Request{
		Cluster: "c", Token: "tok", Term: 1, Holder: "a", TTL: time.Second,
		LeaseVoters: cluster.LeaseVoters{Token: "tok", Names: abc},
	}
	fail = full
	reply, err := v.Lease(t.Context(), req)
	must(t, err)
	if reply.Granted || !strings.Contains(reply.Reason, full.Error()) || reply.Term != 0 {
		t.Fatalf("reply %+v with a full disk", reply)
	}
	if err := v.Witness(t.Context(), 5, "a"); !errors.Is(err, full) {
		t.Errorf("witness with a full disk: %v", err)
	}
	fail = nil
	other := req
	other.Holder = "b"
	reply, err = v.Lease(t.Context(), other)
	must(t, err)
	if !reply.Granted {
		t.Errorf("the promise that failed was remembered: %s", reply.Reason)
	}
	fail = full // a renewal writes nothing
	if reply, err = v.Lease(t.Context(), other); err != nil || !reply.Granted {
		t.Errorf("renewal with a full disk: %+v, %v", reply, err)
	}
	var stale *lease.StaleError
	if err := v.Witness(t.Context(), 0, "b"); !errors.As(err, &stale) {
		t.Errorf("witness of term 0 after 1: %v", err)
	}
}

// The same with a real disk that is full: a file is where the directory of the
// state should be.
func TestPersistOnARealDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	write := func(d lease.Durable) error {
		return os.WriteFile(filepath.Join(dir, "durable"), fmt.Append(nil, d), 0o600)
	}
	v := NewVoter(VoterOptions{Cluster: "c", Self: "a", Persist: write})
	wantErr(t, v.Prepare(t.Context(), "tok", abc), "no such file")
	must(t, os.Mkdir(dir, 0o700))
	must(t, v.Prepare(t.Context(), "tok", abc))
}

func TestAHungDiskDoesNotHoldTheOthersForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		v := NewVoter(VoterOptions{Cluster: "c", Self: "a", Persist: func(lease.Durable) error { <-release; return nil }})
		go func() { _ = v.Prepare(context.Background(), "tok", abc) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := v.Lease(ctx, lease.Request{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the deadline", err)
		}
		close(release)
	})
}

// TestAUsedTermIsPassedAtOnce makes sure that a daemon does not wait to ask in a later
// term: another that cannot win may use up that one meanwhile, each time.
func TestAUsedTermIsPassedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, abc, nil)
		n.set(nil, list{"c"})
		s := n.session(t, "a")
		must(t, n.voters["b"].Witness(t.Context(), 41, "z"))
		must(t, s.Campaign(t.Context()))
		if term, _, _ := s.Held(time.Now()); term != 42 {
			t.Errorf("term %d, want 42", term)
		}
	})
}

// TestALateAnswerHasTheTerm makes sure that what a lease voter has seen is learned
// also where the round was won without it.
func TestALateAnswerHasTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, abc, nil)
		n.late = "b"
		s := n.session(t, "a")
		must(t, n.voters["b"].Witness(t.Context(), 41, "z"))
		must(t, s.Campaign(t.Context()))
		s.Wait()
		must(t, s.Campaign(t.Context()))
		if term, _, _ := s.Held(time.Now()); term != 42 {
			t.Errorf("term %d, want 42", term)
		}
	})
}
