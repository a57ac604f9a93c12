// Package wait waits for a time, or for the end of a context, once or again and again.
package wait

import (
	"context"
	"time"
)

// For returns after d, or with the cause as soon as ctx ends.
func For(ctx context.Context, d time.Duration) error { return Until(ctx, d, nil) }

// Every is a loop: it goes round at once, and then again after each d until ctx ends.
// What is after it is for a ctx that has ended.
func Every(ctx context.Context, d time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for yield() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

// Until is [For] that returns early when something comes from a channel.
func Until(ctx context.Context, d time.Duration, early <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	case <-early:
		return nil
	}
}
