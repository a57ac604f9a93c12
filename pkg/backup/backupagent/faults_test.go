package backupagent

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/store"
)

func TestEtcdThatIsDownIsAskedAgain(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *crew, s *store.Store) {
		c.f.down[1] = true
		c.start(1, s, nil)
		time.Sleep(10 * time.Minute)
		if err := c.agents[1].Health(time.Now()); err != nil {
			t.Errorf("after ten minutes: %v", err)
		}
		time.Sleep(time.Hour)
		if err := c.agents[1].Health(time.Now()); err == nil || !strings.Contains(err.Error(), "no backup is known") {
			t.Errorf("after an hour: %v", err)
		}
		c.f.set(func() { c.f.down[1] = false })
		time.Sleep(time.Minute)
		if err := c.agents[1].Health(time.Now()); err != nil || len(backups(t, s)) != 1 {
			t.Errorf("a minute after it is back: %v, %d backups", err, len(backups(t, s)))
		}
		c.stop()
		if n := strings.Count(c.log.String(), "no member answers"); n != 1 {
			t.Errorf("the log says %d times that no member answers", n)
		}
	})
}

func TestABrokenSnapshotIsTriedAgainLessAndLessOften(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *crew, s *store.Store) {
		c.f.broken = true
		c.start(1, s, nil)
		time.Sleep(time.Hour)
		n := c.f.asked(1)
		if n < 10 || n > 25 || len(backups(t, s)) != 0 {
			t.Errorf("%d tries in an hour, %d backups", n, len(backups(t, s)))
		}
		if err := c.agents[1].Health(time.Now()); err == nil {
			t.Error("it is healthy")
		}
		c.f.set(func() { c.f.broken = false })
		time.Sleep(6 * time.Minute)
		if len(backups(t, s)) != 1 {
			t.Error("no backup after it works again")
		}
		c.stop()
	})
}

// hanging is a store whose uploads hang until the context ends.
type hanging struct {
	*store.Store
	hang atomic.Bool
}

func (h *hanging) Upload(ctx context.Context, key string, r io.Reader) (bool, error) {
	if h.hang.Load() {
		<-ctx.Done()
		return false, ctx.Err()
	}
	return h.Store.Upload(ctx, key, r)
}

func TestAStoreThatHangsIsLeftAfterAWhile(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *crew, s *store.Store) {
		h := &hanging{Store: s}
		h.hang.Store(true)
		c.start(1, h, nil)
		time.Sleep(4 * time.Minute)
		if c.f.asked(1) != 1 {
			t.Errorf("%d tries", c.f.asked(1))
		}
		time.Sleep(4 * time.Minute)
		if c.f.asked(1) != 2 {
			t.Errorf("%d tries", c.f.asked(1))
		}
		h.hang.Store(false)
		time.Sleep(10 * time.Minute)
		if len(backups(t, s)) != 1 {
			t.Error("no backup after it works again")
		}
		c.stop()
		if !strings.Contains(c.log.String(), "it has made no progress for 5m0s") {
			t.Error("the log does not say so")
		}
	})
}

func TestWhatIsUnderWayAtTheEndLeavesNothing(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *crew, s *store.Store) {
		c.f.slow = 4 * time.Minute
		c.start(1, s, nil)
		time.Sleep(2 * time.Minute)
		if c.f.underWay() != 1 {
			t.Fatal("no snapshot is under way")
		}
		c.stop()
		ctx := context.WithoutCancel(t.Context())
		left, err := s.Leftovers(ctx, time.Now().Add(1000*time.Hour))
		if err != nil || len(left) > 0 || len(backups(t, s)) > 0 || c.f.underWay() != 0 {
			t.Errorf("left are %v, %d backups, %v", left, len(backups(t, s)), err)
		}
		if claimed, err := s.Exists(ctx, claimPrefix+"first/1"); claimed || err != nil {
			t.Errorf("the claim is left: %v", err)
		}
		if strings.Contains(c.log.String(), "level=ERROR") {
			t.Error("an end that was asked for is reported as a failure")
		}
	})
}

func TestNobodyActsWhileOneIsAtIt(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *crew, s *store.Store) {
		h := &hanging{Store: s}
		h.hang.Store(true)
		c.start(2, h, func(config *Config) { config.Stall = 10 * time.Minute })
		// It may be another's rank at first.
		time.Sleep(20 * time.Second)
		c.start(1, s, nil)
		c.start(3, s, nil)
		time.Sleep(9 * time.Minute)
		if n := len(backups(t, s)); n != 0 {
			t.Errorf("%d backups while one is being taken", n)
		}
		time.Sleep(2 * time.Minute)
		if n := len(backups(t, s)); n != 1 {
			t.Errorf("%d backups after it was broken off", n)
		}
		c.stop()
	})
}

func TestStoresThatDenyAlmostEverything(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *crew, s *store.Store) {
		began := time.Now()
		for i := range 3 {
			c.start(i+1, blind{worm{s}}, func(config *Config) {
				config.Verify = true
				config.Retention = &retention.Policy{}
			})
		}
		time.Sleep(6 * time.Hour)
		c.stop()
		// Without a list they go by the clock: one in each quarter of an hour.
		slots := map[int64]int{}
		for _, b := range backups(t, s) {
			slots[b.At.Truncate(15*time.Minute).Unix()]++
		}
		for slot := began.Truncate(15 * time.Minute); slot.Before(time.Now().Add(-16 * time.Minute)); slot = slot.Add(
			15 * time.Minute) {
			if slots[slot.Unix()] != 1 {
				t.Errorf("%d backups at %s", slots[slot.Unix()], slot)
			}
		}
		if n := strings.Count(c.log.String(), "backups cannot be listed: using"); n != 3 {
			t.Errorf("the log says %d times that the store cannot be listed", n)
		}
	})
}

// flipping is a store that alters what it stores.
type flipping struct {
	*store.Store
	flip atomic.Bool
}

func (f *flipping) Upload(ctx context.Context, key string, r io.Reader) (bool, error) {
	if f.flip.Load() {
		b, err := io.ReadAll(r)
		if err != nil {
			return false, err
		}
		b[len(b)/2] ^= 1
		r = strings.NewReader(string(b))
	}
	return f.Store.Upload(ctx, key, r)
}

func TestADamagedBackupDoesNotCount(t *testing.T) {
	for name, wrap := range map[string]func(*flipping) Store{
		"reported":   func(f *flipping) Store { return f },
		"not stored": func(f *flipping) Store { return struct{ Store }{denyPut{f}} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, c *crew, s *store.Store) {
				f := &flipping{Store: s}
				f.flip.Store(true)
				c.start(1, wrap(f), func(config *Config) { config.Verify = true })
				time.Sleep(time.Hour)
				if err := c.agents[1].Health(time.Now()); err == nil {
					t.Error("it is healthy with damaged backups")
				}
				f.flip.Store(false)
				time.Sleep(6 * time.Minute)
				if err := c.agents[1].Health(time.Now()); err != nil {
					t.Error(err)
				}
				c.stop()
				list := backups(t, s)
				if last := list[len(list)-1]; last.Damaged || !last.Verified.IsZero() != (name == "reported") {
					t.Errorf("%+v", last)
				}
				if n := c.f.asked(1); n > 25 {
					t.Errorf("%d tries in an hour", n)
				}
			})
		})
	}
}

// denyPut is a store that denies overwriting.
type denyPut struct{ Store }

func (denyPut) Put(context.Context, string, []byte) error { return store.ErrDenied }
