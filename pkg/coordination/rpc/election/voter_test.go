package election

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// A disk that hangs keeps a new promise from being made, and nobody from what
// has been promised.
func TestAStandingDoesNotWaitForTheDisk(t *testing.T) {
	record := cluster.LeaseVoters{Token: "t1", Term: 1, Names: []cluster.NodeName{"a", "b"}}
	writing, goOn := make(chan struct{}), make(chan struct{})
	v := NewVoter(VoterOptions{
		Cluster: "c", Self: "a", Durable: lease.Durable{Term: 1, LeaseVoters: record},
		Persist: func(lease.Durable) error {
			writing <- struct{}{}
			<-goOn
			return nil
		},
	})
	ended := make(chan error)
	go func() {
		_, err := v.Lease(context.Background(), lease.Request{
			Cluster: "c", Token: "t1", Term: 5, Holder: "b", Boot: "x", TTL: lease.DefaultTTL, LeaseVoters: record,
		})
		ended <- err
	}()
	<-writing
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if s, err := v.Standing(ctx); err != nil || s.Seen != 1 || s.Holder != "" || len(s.LeaseVoters.Names) != 2 {
		t.Errorf("while the promise is written it says %+v, %v", s, err)
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if s, err := v.Standing(ctx); err != nil || s.Seen != 5 || s.Holder != "b" {
		t.Errorf("afterwards it says %+v, %v", s, err)
	}
}

// A request whose caller does not wait for it any more, as one that lay in a socket while the process stood
// still, is not promised anything, and nothing is written for it.
func TestARequestThatIsOverIsNotGranted(t *testing.T) {
	record := cluster.LeaseVoters{Token: "t1", Term: 1, Names: list{"a", "b"}}
	written := 0
	v := NewVoter(VoterOptions{
		Cluster: "c", Self: "a", Durable: lease.Durable{Term: 1, LeaseVoters: record},
		Persist: func(lease.Durable) error { written++; return nil },
	})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	req := lease.Request{
		Cluster: "c", Token: "t1", Term: 5, Holder: "b", Boot: "x", TTL: lease.DefaultTTL, LeaseVoters: record,
	}
	for range 20 { // which of two ready channels is taken is not determined
		if r, err := v.Lease(over, req); err == nil || r.Granted || written != 0 {
			t.Fatalf("it answers %+v, %v, and has written %d times", r, err, written)
		}
	}
	if r, err := v.Lease(t.Context(), req); err != nil || !r.Granted {
		t.Errorf("who waits gets %+v, %v", r, err)
	}
}

// Who asks says itself who it is; only the node itself may have the lease without being a
// lease voter.
func TestAVoterRefusesWhoIsNoLeaseVoter(t *testing.T) {
	v := NewVoter(VoterOptions{Cluster: "c", Self: "a", Persist: func(lease.Durable) error { return nil }})
	must(t, v.Prepare(t.Context(), "tok", list{"b", "c", "d"}))
	for holder, want := range map[cluster.NodeName]bool{"x": false, "b": true, "a": true} {
		v := NewVoter(VoterOptions{Cluster: "c", Self: "a", Durable: v.g.Durable, Persist: v.o.Persist})
		r, err := v.Lease(t.Context(), lease.Request{
			Cluster: "c", Token: "tok", Term: 1, Holder: holder, Boot: "x", TTL: lease.DefaultTTL,
			LeaseVoters: cluster.LeaseVoters{Token: "tok", Names: list{"b", "c", "d"}},
		})
		if must(t, err); r.Granted != want {
			t.Errorf("%s: granted %t, %s", holder, r.Granted, r.Reason)
		}
	}
}

// A disk that hangs takes a grant after the voter has given up on it. While that
// is open the voter promises nothing; afterwards it builds on what the disk has,
// also where it is no lease voter any more and nobody asks it for another grant.
func TestAGrantThatLandsLate(t *testing.T) {
	record := cluster.LeaseVoters{Token: "t1", Term: 1, Names: []cluster.NodeName{"a", "b"}}
	disk, slow := lease.Durable{Term: 1, LeaseVoters: record, Grant: lease.Grant{Term: 1, Holder: "b", Released: true}},
		errors.New("the disk hangs")
	hangs, open := true, true
	var pending lease.Durable
	now := time.Now()
	v := NewVoter(VoterOptions{
		Cluster: "c", Self: "a", Durable: disk, Now: func() time.Time { return now },
		Persist: func(d lease.Durable) error {
			if hangs {
				pending = d
				return slow
			}
			if d.Term < disk.Term || d.Grant.Term < disk.Grant.Term {
				t.Errorf("%+v goes back behind %+v", d, disk)
			}
			disk = d
			return nil
		},
		Reload: func() (lease.Durable, error) {
			if open {
				return lease.Durable{}, slow
			}
			return disk, nil
		},
	})
	ask := func(term cluster.Term, holder cluster.NodeName) lease.Reply {
		t.Helper()
		r, err := v.Lease(t.Context(), lease.Request{
			Cluster: "c", Token: "t1", Term: term, Holder: holder, Boot: "x", TTL: lease.DefaultTTL, LeaseVoters: record,
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := ask(2, "b"); r.Granted {
		t.Fatal("granted what is not on disk")
	}
	hangs = false
	if r := ask(3, "a"); r.Granted {
		t.Error("granted while nobody knows what the disk will have")
	}
	if err := v.Witness(t.Context(), 3, "a"); !errors.Is(err, slow) {
		t.Errorf("an order while nobody knows what the disk will have: %v", err)
	}
	disk, open = pending, false // the thaw
	if s, err := v.Standing(t.Context()); err != nil || s.Seen != 2 || s.Holder != "" {
		t.Errorf("after the thaw it says %+v, %v", s, err)
	}
	if err := v.Witness(t.Context(), 2, "a"); err == nil {
		t.Error("it obeys another holder of the term that it granted")
	}
	if err := v.Witness(t.Context(), 4, "a"); err != nil {
		t.Errorf("it does not obey after the thaw: %v", err)
	}
	if disk.Term != 4 || disk.Grant.Term != 2 {
		t.Errorf("the disk has %+v", disk)
	}
}
