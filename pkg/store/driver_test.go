package store_test

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// driven returns a store whose bucket a function opens.
func driven(t *testing.T, dial store.Dial) *store.Store {
	t.Helper()
	store.Register("driven", func(*url.URL) (store.Dial, error) { return dial, nil })
	return open(t, "driven://bucket")
}

// A store that cannot be reached when it is opened is opened later, once.
func TestDialling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("no route to host")
		var dials atomic.Int64
		b := memblob.OpenBucket(nil)
		s := driven(t, func(ctx context.Context) (*store.Bucket, error) {
			switch dials.Add(1) {
			case 1:
				return nil, down
			case 2:
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &store.Bucket{Blobs: b, Dir: "/a/b/"}, nil
		})
		if dials.Load() != 0 {
			t.Error("opening a store makes a request")
		}
		if _, err := s.Poll(t.Context()); !errors.Is(err, store.ErrUnreachable) || !errors.Is(err, down) {
			t.Errorf("the first poll says %v", err)
		}
		// Another call does not wait longer than it wants to.
		hung := make(chan error)
		go func() {
			_, err := s.Get(t.Context(), "x")
			hung <- err
		}()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := s.Poll(short); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("beside a dial that hangs: %v after %s", err, time.Since(began))
		}
		if err := <-hung; !errors.Is(err, store.ErrUnreachable) {
			t.Errorf("a dial that hangs: %v", err)
		}
		if err := s.Put(t.Context(), "x", []byte("1")); err != nil {
			t.Error(err)
		}
		if text, err := b.ReadAll(t.Context(), "a/b/x"); err != nil || string(text) != "1" {
			t.Errorf("in the bucket is %q, %v", text, err)
		}
		if got, err := s.Get(t.Context(), "x"); err != nil || string(got) != "1" || dials.Load() != 3 {
			t.Errorf("%q, %v after %d dials", got, err, dials.Load())
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := b.ReadAll(t.Context(), "a/b/x"); err == nil {
			t.Error("the bucket is not closed")
		}
	})
}

func TestCloseOfAStoreThatWasNeverUsed(t *testing.T) {
	if err := driven(t, nil).Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// The conditional write of a driver: whose object is there decides, not what
// the last answer said.
func TestOutcomeOfAConditionalWrite(t *testing.T) {
	lost := errors.New("connection lost")
	for name, c := range map[string]struct {
		// present is an object of somebody else, stores that the write takes place.
		present, stores bool
		answer          error
		made            bool
		want            error
	}{
		"made":                           {false, true, nil, true, nil},
		"taken":                          {true, false, store.ErrTaken, false, nil},
		"made, and then it is taken":     {false, true, store.ErrTaken, true, nil},
		"made, and the answer lost":      {false, true, lost, true, nil},
		"not made, and the answer lost":  {false, false, lost, false, store.ErrUnreachable},
		"taken, and the answer lost":     {true, false, lost, false, store.ErrUnreachable},
		"denied":                         {false, false, store.ErrDenied, false, store.ErrDenied},
		"denied, as it would overwrite":  {true, false, store.ErrDenied, false, nil},
		"made of parts that are not one": {false, true, errors.Join(store.ErrIncomplete, lost), false, store.ErrUnreachable},
		"taken by a deleted version":     {false, false, store.ErrTaken, false, store.ErrUnreachable},
	} {
		b := memblob.OpenBucket(nil)
		s := driven(t, func(context.Context) (*store.Bucket, error) {
			return &store.Bucket{Blobs: b,
				Write: func(ctx context.Context, key string, r io.Reader, o store.WriteOptions) error {
					if c.stores {
						if err := b.Upload(ctx, key, r, &blob.WriterOptions{ContentType: "x", Metadata: o.Metadata}); err != nil {
							return err
						}
					}
					return c.answer
				}}, nil
		})
		if c.present {
			if err := b.WriteAll(t.Context(), "key", []byte("other"), nil); err != nil {
				t.Fatal(err)
			}
		}
		made, err := s.Create(t.Context(), "key", []byte("mine"))
		if made != c.made || !errors.Is(err, c.want) {
			t.Errorf("%s: %t, %v, want %t, %v", name, made, err, c.made, c.want)
		}
	}
}

// What a driver explains counts for all calls.
func TestDriverExplains(t *testing.T) {
	b := memblob.OpenBucket(nil)
	s := driven(t, func(context.Context) (*store.Bucket, error) {
		return &store.Bucket{
			Blobs:   b,
			Remove:  func(context.Context, string) error { return errors.New("locked") },
			Explain: func(err error) error { return errors.Join(store.ErrDenied, err) },
		}, nil
	})
	_, err := s.Get(t.Context(), "absent")
	for _, err := range []error{err, s.Delete(t.Context(), "x")} {
		if !errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrAbsent) || errors.Is(err, store.ErrUnreachable) {
			t.Errorf("%v", err)
		}
	}
}

// A directory that may not be written to denies, and is not unreachable.
func TestReadOnlyDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	s, ctx := open(t, dir), t.Context()
	const name = "2026-11-20T10:39:37Z-000001"
	if err := errors.Join(s.Put(ctx, name+"/"+retention.MarkerFile, []byte("{}")),
		s.Put(ctx, name+"/"+retention.DataFile, []byte("x"))); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, createErr := s.Create(ctx, "b", nil)
	_, uploadErr := s.Upload(ctx, "c", strings.NewReader("x"))
	for what, err := range map[string]error{
		"put": s.Put(ctx, "a", nil), "create": createErr, "upload": uploadErr,
		"delete": s.Delete(ctx, name+"/"+retention.DataFile), "delete backup": s.DeleteBackup(ctx, name),
	} {
		if !errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrUnreachable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if all, err := s.Backups(ctx); err != nil || len(all) != 1 {
		t.Errorf("backups are %v, %v", all, err)
	}
}

// The newest result of a check counts.
func TestDamageAndRepair(t *testing.T) {
	dir := t.TempDir()
	s, ctx := open(t, dir), t.Context()
	const name = "2026-11-20T10:39:37Z-000001"
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, file := range []string{
		retention.DataFile, retention.MarkerFile, retention.VerifiedFile, retention.DrilledFile, retention.DamagedFile,
	} {
		if err := s.Put(ctx, name+"/"+file, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		verified, drilled, damaged int
		want                       bool
	}{{1, 2, 3, true}, {1, 3, 2, false}, {3, 1, 2, false}, {2, 1, 2, true}} {
		for file, hours := range map[string]int{
			retention.VerifiedFile: c.verified, retention.DrilledFile: c.drilled, retention.DamagedFile: c.damaged,
		} {
			when := at.Add(time.Duration(hours) * time.Hour)
			if err := os.Chtimes(filepath.Join(dir, name, file), when, when); err != nil {
				t.Fatal(err)
			}
		}
		all, err := s.Backups(ctx)
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		b := all[0]
		if b.Damaged != c.want || b.Verified != at.Add(time.Duration(c.verified)*time.Hour) ||
			b.Drilled != at.Add(time.Duration(c.drilled)*time.Hour) || b.Size != 1 {
			t.Errorf("%+v: %+v", c, b)
		}
	}
}
