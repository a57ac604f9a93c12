package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// changedKey is written after each request and spec that this program queues. A bucket has
	// no cheap question about a prefix; one about a key costs a twelfth of a listing.
	changedKey = controlPrefix + "changed"
	// announceTimeout bounds the write of changedKey.
	announceTimeout = 5 * time.Second
)

// A Watcher finds out at little cost whether a store has a new request, command or spec: by the
// times of a few directories, or by HEAD requests for a few keys. It may miss a change that a
// poll shows; it never replaces the poll.
type Watcher struct {
	store *Store
	// checking holds a token while a check is under way: of a store that hangs one check hangs.
	checking chan struct{}

	mu sync.Mutex
	// versions are what the last check saw, nil before the first.
	versions map[string]string
}

// NewWatcher returns a watcher that has seen nothing yet.
func (s *Store) NewWatcher() *Watcher {
	return &Watcher{store: s, checking: make(chan struct{}, 1)}
}

// Changed reports whether anything has changed since the last call. The first call reports no
// change. Now is the time by the clock of this machine: the name of a command of the existing
// etcd-manager-ctl is the second in which it was queued. An error says that some of it could not
// be checked.
func (w *Watcher) Changed(ctx context.Context, now time.Time) (bool, error) {
	versions, err := call(ctx, nil, w.checking, func() (map[string]string, error) {
		return w.store.objects.versions(ctx, now)
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := false
	if w.versions != nil {
		for key, version := range versions {
			changed = changed || w.versions[key] != version
		}
	}
	if err != nil && w.versions != nil {
		// What was not answered counts as unchanged.
		maps.Copy(w.versions, versions)
		return changed, err
	}
	w.versions = versions
	return changed, err
}

// announce has the watchers of a store see a change. Without it they see it in their next poll.
func (s *Store) announce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	_, _ = call(ctx, nil, s.calls, func() (struct{}, error) { return struct{}{}, s.objects.announce(ctx) })
}

// versions returns the times of the directories in which requests, commands and the spec are
// created and replaced, and of the spec, which somebody may edit in place.
func (f *files) versions(context.Context, time.Time) (map[string]string, error) {
	found := map[string]string{}
	for _, key := range []string{"control", "control/requests", specKey} {
		switch info, err := os.Stat(f.path(key)); {
		case err == nil:
			found[key] = fmt.Sprint(info.ModTime().UnixNano(), info.Size(), inode(info))
		case errors.Is(err, os.ErrNotExist):
			found[key] = ""
		default:
			return found, err
		}
	}
	return found, nil
}

// inode returns the number of a file, which is another one after a rename.
func inode(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}

// announce has nothing to do: a directory has a time.
func (f *files) announce(context.Context) error { return nil }

// commandsWindow is how far back a check looks for a command by the second in its name: longer
// than the time between two checks, and than it takes to write one.
const commandsWindow = time.Second

// versions asks for the spec, for what this program announces, and for the commands that may have
// been queued since the last check. They have no other name than the second.
func (b *bucket) versions(ctx context.Context, now time.Time) (map[string]string, error) {
	keys := []string{specKey, changedKey}
	for _, at := range []time.Time{now.Add(-commandsWindow), now} {
		keys = append(keys, controlPrefix+at.UTC().Format(time.RFC3339)+"-000000/"+commandFile)
	}
	var mu sync.Mutex
	found := map[string]string{}
	var group errgroup.Group
	for _, key := range keys {
		group.Go(func() error {
			b.requests.Add(1)
			a, err := b.Blobs.Attributes(ctx, b.prefix+key)
			version := ""
			if err = b.kind(err); err == nil {
				version = fmt.Sprint(a.ETag, a.ModTime.UnixNano(), a.Size)
			} else if !errors.Is(err, ErrAbsent) {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			found[key] = version
			return nil
		})
	}
	err := group.Wait()
	return found, err
}

func (b *bucket) announce(ctx context.Context) error {
	b.requests.Add(1)
	text := rand.Text()
	return b.put(ctx, b.prefix+changedKey, bytesReader([]byte(text)), WriteOptions{Size: int64(len(text))})
}

func (l *lazy) versions(ctx context.Context, now time.Time) (map[string]string, error) {
	b, err := l.bucket(ctx)
	if err != nil {
		return nil, err
	}
	return b.versions(ctx, now)
}

func (l *lazy) announce(ctx context.Context) error {
	b, err := l.bucket(ctx)
	if err != nil {
		return err
	}
	return b.announce(ctx)
}
