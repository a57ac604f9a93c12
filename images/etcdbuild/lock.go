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

// atOnce is how many versions are built at the same time, by all builders of a cache.
const atOnce = 2

// lock waits until nobody else builds name, and keeps others from building
// it until the returned function is called. The kernel lets go of the lock of
// a builder that dies.
func (b *Builder) lock(ctx context.Context, name string) (unlock func(), err error) {
	return b.lockOne(ctx, filepath.Join(b.Cache, "lock", name), name)
}

// slot waits until fewer than [atOnce] versions are being built.
func (b *Builder) slot(ctx context.Context) (free func(), err error) {
	var names []string
	for i := range atOnce {
		names = append(names, fmt.Sprintf("slot-%d", i))
	}
	return b.lockOne(ctx, "the machine", names...)
}

// lockOne waits for one of some locks.
func (b *Builder) lockOne(ctx context.Context, what string, names ...string) (unlock func(), err error) {
	dir := filepath.Join(b.Cache, "lock")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the lock directory: %w", err)
	}
	var files []*os.File
	var mine *os.File
	// Closing the only descriptor gives up a lock. Nothing was written, so there is
	// nothing to lose in an error.
	defer func() {
		for _, f := range files {
			if f != mine {
				_ = f.Close()
			}
		}
	}()
	for _, name := range names {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return nil, fmt.Errorf("open the lock: %w", err)
		}
		files = append(files, f)
	}
	f, err := b.acquire(ctx, what, files...)
	if err != nil {
		return nil, fmt.Errorf("wait for another builder: %w", err)
	}
	mine = f
	return func() { _ = f.Close() }, nil
}

// acquire polls, because a blocking flock does not end with ctx. It returns the file of
// those given that it has the lock of.
func (b *Builder) acquire(ctx context.Context, wanted string, files ...*os.File) (*os.File, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for waited := false; ; waited = true {
		for _, f := range files {
			err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
			if !errors.Is(err, syscall.EWOULDBLOCK) {
				return f, err
			}
		}
		if !waited {
			fmt.Fprintf(b.Progress, "etcd: another builder holds %s, waiting\n", wanted)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
