package backupagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// backups returns the backups, oldest first.
func backups(t *testing.T, s *store.Store) []cluster.Backup {
	t.Helper()
	list, err := s.Backups(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	return list
}

// wantSteady checks that there is a backup each interval, and not one more.
func wantSteady(t *testing.T, s *store.Store, began time.Time, interval, slack time.Duration) {
	t.Helper()
	last := began.Add(-interval)
	list := backups(t, s)
	for _, b := range list {
		if gap := b.At.Sub(last); gap < interval-time.Second || gap > interval+slack {
			t.Errorf("%s comes %s after the one before", b.Name, gap)
		}
		last = b.At
	}
	if time.Since(last) > interval+slack {
		t.Errorf("the newest of %d is %s old", len(list), time.Since(last))
	}
}

// bubble runs a test in virtual time, with a store in memory.
func bubble(t *testing.T, n int, f func(t *testing.T, c *crew, s *store.Store)) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, newFake(n))
		defer c.stop()
		f(t, c, open(t, "mem://"))
		if t.Failed() {
			t.Log(c.log.String())
		}
	})
}

func TestThreeAgentsTakeOneBackupEachInterval(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *crew, s *store.Store) {
		began := time.Now()
		c.f.slow = 20 * time.Second
		for i := range 3 {
			c.start(i+1, s, nil)
		}
		time.Sleep(12 * time.Hour)
		c.stop()
		wantSteady(t, s, began, 15*time.Minute, 20*time.Second)
		if n := len(backups(t, s)); n < 45 || n > 49 {
			t.Errorf("%d backups in half a day", n)
		}
		if c.f.asked(1) > 1 || c.f.asked(2) < 10 || c.f.asked(3) < 10 || c.f.most > 1 {
			t.Errorf("snapshots by member: %v, %d at a time", c.f.snapshots, c.f.most)
		}
		claims, err := s.Exists(context.WithoutCancel(t.Context()), claimPrefix+"first/1")
		if claims || err != nil {
			t.Errorf("a claim is left: %v", err)
		}
	})
}

// An agent that waited for another's backup does not take the one after it under
// the claim of the one before, even if it is due by then.
func TestAClaimIsForOneBackup(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *crew, s *store.Store) {
		ctx := t.Context()
		a := New(Config{ClusterName: "main", Store: s, Schedule: Schedule{Interval: 2 * time.Second}, Name: "a",
			Log: slog.New(slog.DiscardHandler)})
		a.list(ctx)
		key := a.rules().key(a.state)
		_, err := backup.Take(ctx, backup.TakeOptions{
			Source: fakeMember{c.f, 1}, Store: s, Info: backup.Info{EtcdVersion: version},
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		var busy *busyError
		if h, _, err := a.claim(ctx, key); h != nil || !errors.As(err, &busy) {
			t.Errorf("it claims %q: %+v, %v", key, h, err)
		}
		if h, needless, err := a.claim(ctx, a.rules().key(a.state)); h == nil || needless || err != nil {
			t.Errorf("it does not claim the next one: %+v, %v", h, err)
		}
	})
}

func TestAgentsThatSeeOnlyTheirOwnMember(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *crew, s *store.Store) {
		began := time.Now()
		for i := range 3 {
			own := fmt.Sprintf("http://m%d", i+1)
			c.start(i+1, s, func(config *Config) {
				config.Dial = func(e string) (Member, error) {
					if e != own {
						return nil, errors.New("no way there")
					}
					return c.f.dial(e)
				}
			})
		}
		time.Sleep(12 * time.Hour)
		c.stop()
		wantSteady(t, s, began, 15*time.Minute, 20*time.Second)
	})
}

// Clocks that differ by minutes change who takes the backups, and when by as
// much, and the first one may be taken twice; none is missing.
func TestClocksThatDiffer(t *testing.T) {
	for _, tc := range []struct{ ahead, slow time.Duration }{
		{7 * time.Second, 3 * time.Second}, {20 * time.Second, 20 * time.Second}, {2 * time.Minute, 3 * time.Second}, {
			2 * time.Minute, 20 * time.Second,
		},
	} {
		ahead, slow := tc.ahead, tc.slow
		t.Run(fmt.Sprint(ahead, " ", slow), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *crew, s *store.Store) {
				const interval = 15 * time.Minute
				var taken []time.Time
				c.f.slow = slow
				for i := range 3 {
					off := time.Duration(i-1) * ahead
					c.start(i+1, s, func(config *Config) {
						config.Clock = func() time.Time { return time.Now().Add(off) }
					})
				}
				for until := time.Now().Add(12 * time.Hour); time.Now().Before(until); time.Sleep(10 * time.Second) {
					if n := len(backups(t, s)); n > len(taken) {
						taken = append(taken, time.Now())
					}
				}
				c.stop()
				for i := 2; i < len(taken); i++ {
					if gap := taken[i].Sub(taken[i-1]); gap < interval-2*ahead-time.Minute || gap > interval+2*ahead+time.Minute {
						t.Errorf("backup %d of %d comes %s after the one before", i, len(taken), gap)
					}
				}
				if len(taken) < 46 || len(taken) > 50 || time.Since(taken[len(taken)-1]) > interval+2*ahead+time.Minute {
					t.Errorf("%d backups in half a day, the last at %s", len(taken), taken[len(taken)-1])
				}
				t.Logf("%d backups, snapshots by member: %v", len(taken), c.f.snapshots)
			})
		})
	}
}

func TestManyAgentsOfAllMembers(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *crew, s *store.Store) {
		began := time.Now()
		c.f.slow = 3 * time.Minute
		for i := range 4 {
			c.start(i+1, s, func(config *Config) { config.Endpoints = []string{"http://m1", "http://m2", "http://m3"} })
		}
		time.Sleep(4 * time.Hour)
		c.stop()
		wantSteady(t, s, began, 15*time.Minute, 20*time.Second)
		if c.f.most > 1 || c.f.asked(1) > 0 {
			t.Errorf("snapshots by member: %v, %d at a time", c.f.snapshots, c.f.most)
		}
	})
}

func TestAnotherTakesOverFromAnAgentThatIsGone(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *crew, s *store.Store) {
		began := time.Now()
		c.start(1, s, nil)
		c.start(2, s, nil)
		time.Sleep(12 * time.Hour)
		c.stop()
		// Half of the time it was the rank of the third.
		wantSteady(t, s, began, 15*time.Minute, 40*time.Second)
		if c.f.asked(2) < 40 {
			t.Errorf("snapshots by member: %v", c.f.snapshots)
		}
	})
}

func TestABackupByOthersCounts(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *crew, s *store.Store) {
		c.start(1, s, nil)
		time.Sleep(10 * time.Minute)
		_, err := backup.Take(t.Context(), backup.TakeOptions{
			Source: fakeMember{c.f, 1}, Store: s, Info: backup.Info{EtcdVersion: version},
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(14 * time.Minute)
		if n := len(backups(t, s)); n != 2 {
			t.Errorf("%d backups after 24 minutes", n)
		}
		time.Sleep(2 * time.Minute)
		if n := len(backups(t, s)); n != 3 {
			t.Errorf("%d backups after 26 minutes", n)
		}
		c.stop()
	})
}

func TestCronAgents(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *crew, s *store.Store) {
		for i := range 3 {
			c.start(i+1, s, func(config *Config) { config.Schedule = Schedule{Cron: "30 */6 * * *", Offset: 5 * time.Minute} })
		}
		time.Sleep(5 * 24 * time.Hour)
		c.stop()
		list := backups(t, s)
		if len(list) != 21 {
			t.Errorf("%d backups in five days, want the first and four a day", len(list))
		}
		for _, b := range list[1:] {
			if b.At.Hour()%6 != 0 || b.At.Minute() != 35 {
				t.Errorf("%s is not at its time", b.Name)
			}
		}
	})
}

func TestAMemberThatIsDownIsNotWaitedFor(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *crew, s *store.Store) {
		began := time.Now()
		for i := range 3 {
			c.start(i+1, s, nil)
		}
		time.Sleep(6 * time.Hour)
		c.f.set(func() { c.f.down[2] = true })
		time.Sleep(6 * time.Hour)
		c.f.set(func() { c.f.down[2], c.f.leader = false, 2 })
		time.Sleep(6 * time.Hour)
		c.stop()
		wantSteady(t, s, began, 15*time.Minute, 20*time.Second)
	})
}

func TestUnchangedIsSkipped(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *crew, s *store.Store) {
		c.start(1, s, func(config *Config) { config.SkipUnchanged = true })
		time.Sleep(6 * time.Hour)
		if n := len(backups(t, s)); n != 1 {
			t.Errorf("%d backups of one revision", n)
		}
		if err := c.agents[1].Health(time.Now()); err != nil {
			t.Errorf("%v", err)
		}
		c.f.set(func() { c.f.revision++ })
		time.Sleep(6 * time.Hour)
		c.stop()
		if n := len(backups(t, s)); n != 2 {
			t.Errorf("%d backups of two revisions", n)
		}
	})
}

func TestVerifyAndPruneAfterEachBackup(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *crew, s *store.Store) {
		c.start(1, s, func(config *Config) {
			config.Verify = true
			config.Retention = &retention.Policy{MaxCount: 3}
		})
		time.Sleep(3 * time.Hour)
		c.stop()
		list := backups(t, s)
		if len(list) != 3 {
			t.Errorf("%d backups are left", len(list))
		}
		for _, b := range list {
			if b.Verified.IsZero() {
				t.Errorf("%s is not verified", b.Name)
			}
		}
	})
}

func TestOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *crew, s *store.Store) {
		once := func(ifDue bool, change func(*Config)) (Outcome, error) {
			config := Config{ClusterName: "main", Store: s, Endpoints: []string{"http://m1"}, Dial: c.f.dial, Schedule: Schedule{
				Interval: 15 * time.Minute,
			}, Name: "once", Tool: "test"}
			if change != nil {
				change(&config)
			}
			return New(config).Once(t.Context(), ifDue)
		}
		for i := range 3 {
			time.Sleep(time.Second)
			if o, err := once(false, nil); err != nil || o.Backup.Name == "" || len(backups(t, s)) != i+1 {
				t.Errorf("%+v, %v", o, err)
			}
		}
		if o, err := once(true, nil); err != nil || o.Backup.Name != "" || !strings.Contains(o.Skipped, "due at") {
			t.Errorf("%+v, %v", o, err)
		}
		if o, err := once(false, func(config *Config) { config.SkipUnchanged = true }); err != nil ||
			!strings.Contains(o.Skipped, "is current: nothing has changed") {
			t.Errorf("%+v, %v", o, err)
		}
		if o, err := once(false, func(config *Config) {
			config.Endpoints, config.Prefer = []string{"http://m2"}, LeaderOnly
		}); err != nil || !strings.Contains(o.Skipped, "not the leader") {
			t.Errorf("%+v, %v", o, err)
		}
		c.f.set(func() { c.f.down[1] = true })
		if o, err := once(false, nil); err == nil || !strings.Contains(err.Error(), "nothing listens") {
			t.Errorf("%+v, %v", o, err)
		}
		time.Sleep(time.Hour)
		c.f.set(func() { c.f.down[1] = false })
		if o, err := once(true, nil); err != nil || o.Backup.Name == "" {
			t.Errorf("%+v, %v", o, err)
		}
		c.f.broken = true
		if o, err := once(false, nil); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("%+v, %v", o, err)
		}
	})
}

func TestTwoClustersInOneStore(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *crew, s *store.Store) {
		began := time.Now()
		names := map[int]string{1: "main", 2: "events"}
		for i, name := range names {
			c.start(i, s, func(config *Config) {
				config.ClusterName, config.Endpoints = name, []string{"http://m1"}
				config.Retention = &retention.Policy{MaxCount: 1}
			})
			time.Sleep(5 * time.Minute)
		}
		time.Sleep(6 * time.Hour)
		for i := range names {
			if err := c.agents[i].Health(time.Now()); err == nil || !strings.Contains(err.Error(), "another cluster") {
				t.Errorf("%v", err)
			}
		}
		c.stop()
		taken := map[string]int{}
		for _, b := range backups(t, s) {
			d, err := backup.Describe(context.WithoutCancel(t.Context()), s, b.Name)
			if err != nil {
				t.Fatal(err)
			}
			taken[d.Cluster]++
		}
		if taken["main"] < 24 || taken["events"] < 23 {
			t.Errorf("in %s: %v", time.Since(began), taken)
		}
		if n := strings.Count(c.log.String(), "backups of another cluster"); n != 2 {
			t.Errorf("it is logged %d times", n)
		}
	})
}

func TestProgressIsReported(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *crew, s *store.Store) {
		reported := int64(0)
		config := Config{ClusterName: "main", Store: s, Endpoints: []string{"http://m1"}, Dial: c.f.dial, Schedule: Schedule{
			Interval: time.Hour,
		}, Name: "once",
			Progress: func(done, _ int64) { reported = done }}
		if _, err := New(config).Once(t.Context(), false); err != nil || reported != 16*512+32 {
			t.Errorf("%d bytes, %v", reported, err)
		}
	})
}
