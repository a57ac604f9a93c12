package daemon

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// Who hangs up while the store is read neither ends the reading nor leaves an
// error for others; and who waits can give up at any time.
func TestOneCallerDoesNotSpoilTheReadingOfOthers(t *testing.T) {
	now := time.Unix(1e9, 0)
	go1, began := make(chan struct{}), make(chan struct{}, 8)
	var reads atomic.Int32
	c := &cached[int]{now: func() time.Time { return now }, read: func(ctx context.Context) (int, error) {
		n := reads.Add(1)
		began <- struct{}{}
		select {
		case <-go1:
			return int(n), nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() {
		_, err := c.get(ctx)
		first <- err
	}()
	<-began
	over, stop := context.WithCancel(t.Context())
	stop()
	if _, err := c.get(over); !errors.Is(err, context.Canceled) {
		t.Errorf("who has given up gets %v", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("who hangs up gets %v", err)
	}
	close(go1)
	if v, err := c.get(t.Context()); v != 1 || err != nil {
		t.Errorf("the next gets %d, %v", v, err)
	}
	if v, err := c.get(t.Context()); v != 1 || err != nil || reads.Load() != 1 {
		t.Errorf("a moment later it is %d, %v, after %d readings", v, err, reads.Load())
	}
	now = now.Add(recordsInterval)
	if v, err := c.get(t.Context()); v != 2 || err != nil {
		t.Errorf("later it is %d, %v", v, err)
	}
}
