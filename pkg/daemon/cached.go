package daemon

import (
	"context"
	"sync"
	"time"
)

// A cached reads something of the store at most once in a while: who may send
// orders must not make this node send requests without end. It reads in the
// background, with a time limit of its own, so that who waits for it can give up,
// and takes nothing from others by that.
type cached[T any] struct {
	read func(ctx context.Context) (T, error)
	now  func() time.Time

	mu sync.Mutex
	// at is when the last reading began, or failed.
	at    time.Time
	value T
	err   error
	// done is closed when the reading under way has ended, nil for none.
	done chan struct{}
}

const (
	recordsInterval = 500 * time.Millisecond
	recordsTimeout  = 3 * time.Second
	// maxRecordsAge is for how long what a slow store said last shows where nodes are.
	maxRecordsAge = 2 * time.Minute
)

// get returns what was read a moment ago, or reads. An error of ctx is nobody
// else's.
func (c *cached[T]) get(ctx context.Context) (T, error) {
	c.mu.Lock()
	if !c.at.IsZero() && c.now().Sub(c.at) < recordsInterval {
		defer c.mu.Unlock()
		return c.value, c.err
	}
	if c.done == nil {
		c.done = make(chan struct{})
		go c.refresh(context.WithoutCancel(ctx), c.done)
	}
	done := c.done
	c.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value, c.err
}

func (c *cached[T]) refresh(ctx context.Context, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, recordsTimeout)
	defer cancel()
	v, err := c.read(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value, c.err, c.at, c.done = v, err, c.now(), nil
	close(done)
}
