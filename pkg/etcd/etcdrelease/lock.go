package etcdrelease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// lockDir waits until no other process has the lock of a directory, for at
// most limit. The lock is on the directory itself, so that no file is left in
// a place like /usr/bin; the kernel frees it when the process ends.
//
// On file systems that have no such locks (directories on NFS) it locks
// nothing. Even then no half file gets a final name: renames are atomic, and
// digests and versions are checked before.
func lockDir(ctx context.Context, dir string, limit time.Duration) (unlock func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("another process has been using %s for %s", dir, limit))
	defer cancel()
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	for {
		err = unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil, errors.Is(err, unix.EBADF), errors.Is(err, unix.ENOLCK), errors.Is(err, unix.EOPNOTSUPP):
			return func() { d.Close() }, nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EWOULDBLOCK):
			err = wait.For(ctx, 50*time.Millisecond)
		}
		if err != nil {
			d.Close()
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
	}
}

// relative returns text with the paths below dir as if they began there.
func relative(text, dir string) string { return strings.ReplaceAll(text, dir+"/", "") }
