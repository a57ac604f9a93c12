package fleet

import (
	"context"
	"time"
)

// A task is a function that runs in the background: who waits for it no longer
// may come again.
type task[T any] struct {
	// done is closed when value and err are set.
	done  chan struct{}
	value T
	err   error
}

// begin runs f until it ends, the limit is over or quit is closed. It outlives
// ctx.
func begin[T any](ctx context.Context, quit <-chan struct{}, limit time.Duration,
	f func(context.Context) (T, error)) *task[T] {
	t := &task[T]{done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	go func() {
		select {
		case <-quit:
		case <-t.done:
		}
		cancel()
	}()
	go func() {
		defer close(t.done)
		t.value, t.err = f(ctx)
	}()
	return t
}

// over waits for the end of the task until ctx ends, and reports whether it has
// ended.
func (t *task[T]) over(ctx context.Context) bool {
	if t.ended() {
		return true
	}
	select {
	case <-t.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// ended reports whether the task has ended.
func (t *task[T]) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}
