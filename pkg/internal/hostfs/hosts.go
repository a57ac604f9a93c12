package hostfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// ErrOverwritten is returned by [WriteHosts] when other writers replaced its
// block again and again.
var ErrOverwritten = errors.New("another writer overwrites it each time")

const (
	// hostsTries is how often WriteHosts writes before it gives up.
	hostsTries = 10
	// hostsPause is the longest pause before WriteHosts checks whether its block
	// is still there, and before it asks again for the lock.
	hostsPause = 20 * time.Millisecond
	// hostsLocks is how often it asks for the lock; together about two seconds.
	hostsLocks = 200
)

// HostsKey returns the key of the block that the daemon of a cluster keeps in
// the hosts file. It is the key of the existing etcd-manager, so its block is
// taken over.
func HostsKey(clusterName string) string { return "etcd-manager[" + clusterName + "]" }

// WriteHosts makes the hosts file at path have exactly one block with the
// given key and entries, or none if there are no entries. Everything else in
// the file stays as it is. It reports whether it wrote; a file that is right
// already is not touched.
//
// The file is written in place because a hosts file is often a bind mount,
// which cannot be renamed over. Writers of this package take turns through a
// lock on the file. Others may overwrite it, so WriteHosts observes again after
// a short pause and writes again, a bounded number of times, and then returns
// [ErrOverwritten]. All in all it takes a few milliseconds, and at most about
// three seconds. Where ctx ends it waits no longer, neither for the lock nor to
// observe again, and returns the cause; a write that has begun is finished.
func WriteHosts(ctx context.Context, path, key string, entries []cluster.HostEntry) (changed bool, err error) {
	if err := checkHosts(key, entries); err != nil {
		return false, fmt.Errorf("write hosts file %s: %w", path, err)
	}
	return writeHosts(ctx, path, newBlock(key), entries, pause)
}

// writeHosts is WriteHosts; wait is what it does between writing and observing
// again.
func writeHosts(ctx context.Context, path string, b block, entries []cluster.HostEntry,
	wait func(context.Context) error) (changed bool, err error) {
	for try := 0; ; try++ {
		// Without the lock, and read-only: a right file needs nothing else.
		right, err := isRight(path, b, entries)
		if err != nil {
			return changed, fmt.Errorf("write hosts file: %w", err)
		}
		if right {
			return changed, nil
		}
		if try == hostsTries {
			return changed, fmt.Errorf("write hosts file %s: %w", path, ErrOverwritten)
		}
		if err := rewrite(ctx, path, b, entries); err != nil {
			return changed, fmt.Errorf("write hosts file %s: %w", path, err)
		}
		changed = true
		if err := wait(ctx); err != nil {
			return changed, fmt.Errorf("write hosts file %s: %w", path, err)
		}
	}
}

func isRight(path string, b block, entries []cluster.HostEntry) (bool, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return len(entries) == 0, nil
	}
	return string(content) == b.render(string(content), entries), err
}

// rewrite reads the file, replaces the block and writes the file, all under
// the lock.
func rewrite(ctx context.Context, path string, b block, entries []cluster.HostEntry) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := waitFlock(ctx, f); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	content, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	return overwrite(f, content, []byte(b.render(string(content), entries)))
}

// waitFlock takes the lock on f, and gives up after hostsLocks pauses, or when ctx ends.
func waitFlock(ctx context.Context, f *os.File) error {
	for try := 1; ; try++ {
		err := flock(f)
		if !errors.Is(err, unix.EWOULDBLOCK) || try == hostsLocks {
			return err
		}
		if stopped := pause(ctx); stopped != nil {
			return fmt.Errorf("%w: %w", stopped, err)
		}
	}
}

// overwrite changes the content of f from old to new, from the first byte that
// differs. A block that changes is the last thing in the file, so the lines of
// others before it are not even written, and a crash here cannot lose them.
func overwrite(f *os.File, old, new []byte) error {
	same := 0
	for same < len(old) && same < len(new) && old[same] == new[same] {
		same++
	}
	if bytes.Equal(old, new) {
		return nil
	}
	if _, err := f.WriteAt(new[same:], int64(same)); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(new))); err != nil {
		return err
	}
	return f.Sync()
}

// pause waits for a random time of up to hostsPause, so that two writers do
// not keep in step.
func pause(ctx context.Context) error {
	return wait.For(ctx, time.Millisecond+rand.N(hostsPause))
}
