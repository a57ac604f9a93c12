package backupagent

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/store"
)

func open(t *testing.T, location string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's own context has ended.
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestOneOfManyGetsTheClaim(t *testing.T) {
	s := open(t, t.TempDir())
	now := time.Now()
	var mu sync.Mutex
	var got []*held
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			c := claims{s, "agent " + string(rune('a'+i)), time.Minute, time.Now}
			h, err := c.take(t.Context(), "first", now, true)
			var busy *busyError
			if err != nil && !errors.As(err, &busy) {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				got = append(got, h)
			}
		})
	}
	all.Wait()
	if len(got) != 1 {
		t.Fatalf("%d have it", len(got))
	}
	got[0].release(t.Context(), true, true)
	if _, err := (claims{s, "z", time.Minute, time.Now}).take(t.Context(), "first", now, true); err != nil {
		t.Errorf("after it was released: %v", err)
	}
}

func TestAClaimRunsOut(t *testing.T) {
	s, now := open(t, "mem://"), time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	a, b := claims{s, "a", time.Minute, time.Now}, claims{s, "b", time.Minute, time.Now}
	if _, err := a.take(t.Context(), "k", now, true); err != nil {
		t.Fatal(err)
	}
	_, err := b.take(t.Context(), "k", now.Add(59*time.Second), true)
	var busy *busyError
	if !errors.As(err, &busy) || busy.By != "a" || !strings.Contains(err.Error(), "a is taking this backup") {
		t.Errorf("%v", err)
	}
	h, err := b.take(t.Context(), "k", now.Add(time.Minute), true)
	if err != nil || h.links != 2 {
		t.Errorf("%+v, %v", h, err)
	}
	// The dead one comes back, and another with nothing to do with it.
	if _, err := a.take(t.Context(), "k", now.Add(time.Minute+time.Second), true); !errors.As(err, &busy) ||
		busy.By != "b" {
		t.Errorf("%v", err)
	}
	if _, err := a.take(t.Context(), "k2", now, true); err != nil {
		t.Errorf("%v", err)
	}
}

func TestAClaimIsKeptWithFewLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "mem://")
		a, b := claims{s, "a", 30 * time.Second, time.Now}, claims{s, "b", 30 * time.Second, time.Now}
		h, err := a.take(t.Context(), "k", time.Now(), true)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		kept := make(chan error)
		go func() { kept <- h.keep(ctx) }()
		for ctx.Err() == nil {
			if _, err := b.take(ctx, "k", time.Now(), true); err == nil {
				t.Fatalf("another has it after %s", time.Since(h.began))
			}
			time.Sleep(7 * time.Second)
		}
		if err := <-kept; err != nil {
			t.Errorf("%v", err)
		}
		if h.links > 20 {
			t.Errorf("three hours have %d links", h.links)
		}
		h.release(t.Context(), true, true)
		if _, there, err := a.read(t.Context(), "k", 1); there || err != nil {
			t.Errorf("the chain is there: %v", err)
		}
	})
}

func TestWhoseClaimIsTakenOverIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "mem://")
		a, b := claims{s, "a", time.Minute, time.Now}, claims{s, "b", time.Minute, time.Now}
		h, err := a.take(t.Context(), "k", time.Now(), true)
		if err != nil {
			t.Fatal(err)
		}
		// It stood still for too long, as a stopped process does.
		time.Sleep(2 * time.Minute)
		if _, err := b.take(t.Context(), "k", time.Now(), true); err != nil {
			t.Fatal(err)
		}
		if err := h.keep(t.Context()); !errors.Is(err, errLost) {
			t.Errorf("%v", err)
		}
	})
}

// lossy is a store whose answers to Create are lost, though it did it.
type lossy struct {
	*store.Store
	lose int
}

func (l *lossy) Create(ctx context.Context, key string, b []byte) (bool, error) {
	made, err := l.Store.Create(ctx, key, b)
	if l.lose > 0 {
		l.lose--
		return false, errors.New("connection reset")
	}
	return made, err
}

func TestALostAnswerDoesNotLoseTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lossy{Store: open(t, "mem://")}
		h, err := (claims{s, "a", time.Minute, time.Now}).take(t.Context(), "k", time.Now(), true)
		if err != nil {
			t.Fatal(err)
		}
		s.lose = 3
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := h.keep(ctx); err != nil || h.until.Before(time.Now()) {
			t.Errorf("%v, until %s", err, h.until)
		}
	})
}

// worm is a store that denies deletion and overwriting.
type worm struct{ *store.Store }

func (worm) Delete(context.Context, string) error { return store.ErrDenied }
func (worm) Put(context.Context, string, []byte) error {
	return store.ErrDenied
}
func (worm) DeleteBackup(context.Context, string) error { return store.ErrDenied }

func TestClaimsWithoutDeletion(t *testing.T) {
	s, now := worm{open(t, "mem://")}, time.Now()
	a, b := claims{s, "a", time.Minute, time.Now}, claims{s, "b", time.Minute, time.Now}
	var busy *busyError

	// Where the list shows what was taken, a claim that stays runs out.
	h, err := a.take(t.Context(), "seen", now, true)
	if err != nil {
		t.Fatal(err)
	}
	h.release(t.Context(), true, true)
	if _, err := b.take(t.Context(), "seen", now, true); !errors.As(err, &busy) {
		t.Errorf("%v", err)
	}
	if _, err := b.take(t.Context(), "seen", now.Add(time.Minute), true); err != nil {
		t.Errorf("%v", err)
	}

	// Where there is no list it says that the backup is taken, forever.
	if h, err = a.take(t.Context(), "unseen", now, false); err != nil {
		t.Fatal(err)
	}
	h.release(t.Context(), true, false)
	if _, err := b.take(t.Context(), "unseen", now.Add(time.Hour), false); !errors.As(err, &busy) || !busy.Done ||
		!strings.Contains(err.Error(), "a has taken") {
		t.Errorf("%v", err)
	}
}

// racing does something just before one link is created.
type racing struct {
	*store.Store
	before func()
}

func (r *racing) Create(ctx context.Context, key string, b []byte) (bool, error) {
	if f := r.before; f != nil {
		r.before = nil
		f()
	}
	return r.Store.Create(ctx, key, b)
}

// An agent that saw the first link of a chain, and then not the second because
// its holder was deleting all of them, has nothing.
func TestAClaimAddedToAChainThatIsBeingDeleted(t *testing.T) {
	s, now := open(t, "mem://"), time.Now()
	a, b, c := claims{s, "a", time.Minute, time.Now}, claims{s, "b", time.Minute, time.Now}, claims{
		s, "c", time.Minute, time.Now,
	}
	h, err := a.take(t.Context(), "k", now, true)
	if err != nil {
		t.Fatal(err)
	}
	var other *held
	b.store = &racing{s, func() {
		h.release(t.Context(), false, true)
		if other, err = c.take(t.Context(), "k", now, true); err != nil {
			t.Error(err)
		}
	}}
	var busy *busyError
	if _, err := b.take(t.Context(), "k", now.Add(2*time.Minute), true); !errors.As(err, &busy) {
		t.Errorf("two have it: %v", err)
	}
	// Nor is the one that has it disturbed.
	if added, err := other.add(t.Context(), claim{By: "c", Until: now.Add(time.Hour)}); !added || err != nil {
		t.Errorf("its next link: %v, %v", added, err)
	}
}

func TestAClaimThatIsGarbageHoldsNobodyBack(t *testing.T) {
	s := open(t, "mem://")
	for n, text := range map[string]string{"1": "garbage", "2": `{"until":7}`} {
		if _, err := s.Create(t.Context(), claimPrefix+"k/"+n, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	h, err := (claims{s, "a", time.Minute, time.Now}).take(t.Context(), "k", time.Now(), true)
	if err != nil || h.links != 3 {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestAStoreThatDoesNotAnswerGivesNoClaim(t *testing.T) {
	s := open(t, "mem://")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if h, err := (claims{s, "a", time.Minute, time.Now}).take(ctx, "k", time.Now(), true); err == nil {
		t.Errorf("%+v", h)
	}
}
