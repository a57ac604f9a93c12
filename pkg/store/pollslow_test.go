package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// slow is a place that takes a second to open an object.
type slow struct{ objects }

func (s slow) open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	select {
	case <-time.After(time.Second):
		return s.objects.open(ctx, key)
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
}

// Polls of a slow store, none of which has the time to read everything, come to an
// end.
func TestAPollGoesOnWhereTheLastOneEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := new(atomic.Int64)
		s := newStore(slow{&files{root: t.TempDir(), requests: requests}}, requests)
		const nodes = 40
		for i := range nodes {
			if err := s.PutNode(t.Context(), NodeRecord{
				Name: cluster.NodeName(fmt.Sprint("n", i)), At: time.Now(),
			}); err != nil {
				t.Fatal(err)
			}
		}
		poll := func() (View, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
			defer cancel()
			return s.Poll(ctx)
		}
		time.Sleep(settleTime)
		v, err := poll()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a poll of %d objects ends with %v", nodes, err)
		}
		// What is new is read twice, see settleTime.
		for range 8 {
			if v, err = poll(); err == nil {
				break
			}
		}
		if err != nil || len(v.Nodes) != nodes {
			t.Errorf("%d nodes are read, %v", len(v.Nodes), err)
		}
	})
}
