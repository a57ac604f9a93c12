package etcdbuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lock waits until nobody else builds name, and keeps others from building
// it until the returned function is called. The kernel lets go of the lock of
// a builder that dies.
func (b *Builder) lock(ctx context.Context, name string) (unlock func(), err error) {
	dir := filepath.Join(b.Cache, "lock")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the lock directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := b.acquire(ctx, f); err != nil {
		return nil, errors.Join(fmt.Errorf("wait for another builder: %w", err), f.Close())
	}
	// Closing the only descriptor gives up the lock. Nothing was written, so
	// there is nothing to lose in an error.
	return func() { _ = f.Close() }, nil
}

// acquire polls, because a blocking flock does not end with ctx.
func (b *Builder) acquire(ctx context.Context, f *os.File) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for waited := false; ; waited = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		if !waited {
			fmt.Fprintf(b.Progress, "etcd: another builder holds %s, waiting\n", f.Name())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
