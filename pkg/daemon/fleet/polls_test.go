package fleet

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/blob/memblob"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A counted bucket knows how many lists of the control objects were under way at most.
type counted struct {
	*slow
	now, most, all atomic.Int64
}

func (c *counted) ListPaged(ctx context.Context, o *driver.ListOptions) (*driver.ListPage, error) {
	if o.Prefix == "" {
		return c.slow.ListPaged(ctx, o)
	}
	c.all.Add(1)
	if n := c.now.Add(1); n > c.most.Load() {
		c.most.Store(n)
	}
	defer c.now.Add(-1)
	return c.slow.ListPaged(ctx, o)
}

// slowPoll is how long a poll of the store takes in these tests.
const slowPoll = 25 * time.Second

func newCounted() (*counted, *StoreView) {
	c := &counted{slow: &slow{content: memblob.OpenBucket(nil), page: slowPoll}}
	return c, NewStoreView(store.New(blob.NewBucket(c)), time.Second, time.Now)
}

// Whoever waits for what the store says from now on waits for the poll under way and for one
// more, and shares both.
func TestWhoeverWaitsForALaterPollSharesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, v := newCounted()
		defer v.Close()
		ask := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			return v.Answer(ctx).Err
		}
		if err := ask(); !errors.Is(err, store.ErrUnreachable) {
			t.Fatalf("the first observation: %v", err)
		}
		must(t, c.content.WriteAll(t.Context(), "control/etcd-cluster-spec", []byte(specText), nil))
		moment := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*slowPoll)
		defer cancel()
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				view, err := v.Since(ctx, moment)
				if took := time.Since(moment); err != nil || view.Spec == nil || took < slowPoll || took > 2*slowPoll {
					t.Errorf("after %s: %v, the spec is %+v", took, err, view.Spec)
				}
			})
		}
		for range 10 {
			_ = ask()
		}
		all.Wait()
		if n := c.most.Load(); n != 1 {
			t.Errorf("%d polls were under way at once", n)
		}
		if n := c.all.Load(); n != 2 {
			t.Errorf("there were %d polls", n)
		}
		if err := ask(); err != nil || v.Spec() == nil {
			t.Errorf("the next observation does not have what the poll said: %v", err)
		}
	})
}

// Of a store that was changed, an observation does not take what was read before.
func TestAPollThatBeganBeforeAChangeDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, v := newCounted()
		defer v.Close()
		ask := func() observe.StoreAnswer {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return v.Answer(ctx)
		}
		ask()
		// The list of the poll under way was made before this, or may have been.
		must(t, c.content.WriteAll(t.Context(), "control/etcd-cluster-spec", []byte(specText), nil))
		v.Stale()
		began, a := time.Now(), ask()
		for ; a.Err != nil && time.Since(began) < 3*slowPoll; a = ask() {
			time.Sleep(time.Second)
		}
		if took := time.Since(began); a.Err != nil || a.Store.SpecMissing || took < slowPoll {
			t.Errorf("after %s the answer is %+v", took, a)
		}
		if n := c.all.Load(); n != 2 {
			t.Errorf("there were %d polls", n)
		}
	})
}

func TestWhoeverWaitsForAPollGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, v := newCounted()
		defer v.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := v.Since(ctx, time.Now()); !errors.Is(err, store.ErrUnreachable) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ends with %v", err)
		}
		if _, err := NewStoreView(nil, time.Second, time.Now).Since(ctx, time.Now()); !errors.Is(err, errNoStore) {
			t.Errorf("without a store: %v", err)
		}
		var none cluster.Store
		if view, at := v.Heard(); !at.IsZero() || view.Created != none.Created {
			t.Errorf("it heard %+v at %s", view, at)
		}
	})
}
