package backup_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// broken is a store of which one call fails.
type broken struct {
	*store.Store
	exists, upload, create error
	// at is what create fails at.
	at string
	// early makes Upload return before it has read anything.
	early bool
	// careless makes Upload store what it read before the reader failed.
	careless bool
}

var errBroken = errors.New("disk on fire")

func (b broken) Exists(ctx context.Context, key string) (bool, error) {
	if b.exists != nil {
		return false, b.exists
	}
	return b.Store.Exists(ctx, key)
}

func (b broken) Upload(ctx context.Context, key string, r io.Reader) (bool, error) {
	switch {
	case b.early:
		return false, b.upload
	case b.upload != nil:
		_, _ = io.CopyN(io.Discard, r, 1000)
		return false, b.upload
	case b.careless:
		content, _ := io.ReadAll(r)
		return b.Store.Upload(ctx, key, bytes.NewReader(content))
	}
	return b.Store.Upload(ctx, key, r)
}

func (b broken) Create(ctx context.Context, key string, content []byte) (bool, error) {
	if b.create != nil && strings.HasSuffix(key, b.at) {
		return false, b.create
	}
	return b.Store.Create(ctx, key, content)
}

func TestStoresThatFail(t *testing.T) {
	for name, b := range map[string]broken{
		"at the upload":               {upload: errBroken},
		"before the upload has begun": {upload: errBroken, early: true},
	} {
		t.Run(name, func(t *testing.T) {
			b.Store = memory(t)
			// The snapshot stalls: a store that failed must not wait for it.
			hanging := newStalled(snapshot(1 << 20)[:1<<19])
			_, err := backup.Take(t.Context(), backup.TakeOptions{
				Source: source(func(context.Context) (io.ReadCloser, error) { return hanging, nil }), Store: b, Info: info(),
			})
			if !errors.Is(err, errBroken) {
				t.Error(err)
			}
			isEmpty(t, b.Store)
		})
	}
}

// After a failure at the marker nobody knows whether it is there, so the data
// stays: a marker without data would be a complete backup of nothing.
func TestDataStaysWhenTheMarkerFails(t *testing.T) {
	b := broken{Store: memory(t), create: errBroken, at: retention.MarkerFile}
	_, err := backup.Take(t.Context(), backup.TakeOptions{
		Source: stream(bytes.NewReader(snapshot(512))), Store: b, Info: info(),
	})
	if !errors.Is(err, errBroken) {
		t.Error(err)
	}
	left, err := b.Leftovers(t.Context(), at.Add(24*time.Hour*365*10))
	if err != nil || len(left) != 1 {
		t.Errorf("left over are %v, %v", left, err)
	}
	if all, err := b.Backups(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("backups are %v, %v", all, err)
	}
}

func TestCarelessStore(t *testing.T) {
	b := broken{Store: memory(t), careless: true}
	_, err := backup.Take(t.Context(), backup.TakeOptions{
		Source: stream(bytes.NewReader(snapshot(1 << 20)[:5000])), Store: b, Info: info(),
	})
	if !errors.Is(err, backup.ErrDamaged) {
		t.Error(err)
	}
	isEmpty(t, b.Store)
}

// taken is a store in which another writer takes the key of an upload between
// the observation and the upload, or the key of the marker before that is created.
type taken struct {
	*store.Store
	data bool
	// file is a small object whose key is taken.
	file string
	done *bool
}

func (s taken) Upload(ctx context.Context, key string, r io.Reader) (bool, error) {
	if s.data && !*s.done {
		*s.done = true
		if _, err := s.Store.Create(ctx, key, []byte("theirs")); err != nil {
			return false, err
		}
	}
	return s.Store.Upload(ctx, key, r)
}

func (s taken) Create(ctx context.Context, key string, b []byte) (bool, error) {
	if s.file != "" && strings.HasSuffix(key, s.file) && !*s.done {
		*s.done = true
		if _, err := s.Store.Create(ctx, key, []byte("theirs")); err != nil {
			return false, err
		}
	}
	return s.Store.Create(ctx, key, b)
}

func TestCollisions(t *testing.T) {
	for name, s := range map[string]taken{
		"of the data": {data: true}, "of the marker": {file: retention.MarkerFile}, "of the description": {
			file: retention.DescriptionFile,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.Store, s.done = memory(t), new(bool)
			content := snapshot(1 << 16)
			fresh := source(func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
			b, err := backup.Take(t.Context(), backup.TakeOptions{Source: fresh, Store: s, Info: info()})
			if err != nil || b.Name != retention.Name(at, 2) {
				t.Fatalf("%+v, %v", b, err)
			}
			if _, err := backup.Fetch(t.Context(), s, b.Name, io.Discard, backup.FetchOptions{}); err != nil {
				t.Error(err)
			}
			theirs := s.file
			if s.data {
				theirs = retention.DataFile
			}
			if got, err := s.Get(t.Context(), retention.Name(at, 1)+"/"+theirs); string(got) != "theirs" || err != nil {
				t.Errorf("the other writer's object is %q, %v", got, err)
			}
		})
	}
}

func TestSecondWithoutFreeNames(t *testing.T) {
	s := memory(t)
	for i := range 101 {
		if err := s.Put(t.Context(), retention.Name(at, i)+"/"+retention.MarkerFile, nil); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := backup.Take(t.Context(), backup.TakeOptions{Source: stream(), Store: s, Info: info()}); err == nil ||
		!strings.Contains(err.Error(), "100 backups") {
		t.Errorf("%+v, %v", b, err)
	}
}
