// Package wait waits for a time, or for the end of a context.
package wait

import (
	"context"
	"time"
)

// For returns after d, or with the cause as soon as ctx ends.
func For(ctx context.Context, d time.Duration) error { return Until(ctx, d, nil) }

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
