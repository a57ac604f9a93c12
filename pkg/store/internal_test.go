package store

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// hung is a place that does not answer until it is released, and does not care
// about contexts, as a dead NFS server.
type hung struct {
	objects
	release chan struct{}
}

func (h hung) page(ctx context.Context, prefix string, from []byte) ([]object, []byte, error) {
	<-h.release
	return h.objects.page(ctx, prefix, from)
}

func (h hung) open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	<-h.release
	return h.objects.open(ctx, key)
}

func (h hung) write(ctx context.Context, key string, r io.Reader, c condition) error {
	<-h.release
	return h.objects.write(ctx, key, r, c)
}

func (h hung) remove(ctx context.Context, key string) error {
	<-h.release
	return h.objects.remove(ctx, key)
}

func (h hung) versions(ctx context.Context, now time.Time) (map[string]string, error) {
	<-h.release
	return h.objects.versions(ctx, now)
}

func hungStore(t *testing.T) (*Store, hung) {
	requests := new(atomic.Int64)
	h := hung{&files{root: t.TempDir(), requests: requests}, make(chan struct{})}
	return newStore(h, requests), h
}

func TestHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := hungStore(t)
		calls := map[string]func(context.Context) error{
			"poll":    func(ctx context.Context) error { _, err := s.Poll(ctx); return err },
			"get":     func(ctx context.Context) error { _, err := s.Get(ctx, "a"); return err },
			"open":    func(ctx context.Context) error { _, err := s.Open(ctx, "a"); return err },
			"put":     func(ctx context.Context) error { return s.Put(ctx, "a", []byte("late")) },
			"upload":  func(ctx context.Context) error { _, err := s.Upload(ctx, "b", strings.NewReader("late")); return err },
			"delete":  func(ctx context.Context) error { return s.Delete(ctx, "a") },
			"backups": func(ctx context.Context) error { _, err := s.Backups(ctx); return err },
		}
		// More rounds than there are places for calls that hang.
		for range 5 {
			for name, call := range calls {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				err := call(ctx)
				cancel()
				if took := time.Since(began); took < time.Second || took > time.Second+closingTime ||
					!errors.Is(err, ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v after %s", name, err, took)
				}
			}
		}
		if len(s.calls) != maxCalls || len(s.streams) != maxStreams {
			t.Errorf("%d calls and %d streams hang", len(s.calls), len(s.streams))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close says %v", err)
		}
		close(h.release)
		synctest.Wait()
		if len(s.calls) != 0 || len(s.streams) != 0 {
			t.Errorf("after the release %d calls and %d streams hang", len(s.calls), len(s.streams))
		}
		if _, err := s.Poll(t.Context()); err != nil {
			t.Errorf("after the release: %v", err)
		}
		for _, key := range []string{"a", "b"} {
			if b, err := s.Get(t.Context(), key); !errors.Is(err, ErrAbsent) {
				t.Errorf("a write that was given up took place later: %q, %v", b, err)
			}
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestCallsHaveADeadlineOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := hungStore(t)
		began := time.Now()
		if _, err := s.Get(t.Context(), "a"); !errors.Is(err, ErrUnreachable) || time.Since(began) > callTimeout+closingTime {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		began = time.Now()
		if _, err := s.Backups(t.Context()); !errors.Is(err, ErrUnreachable) || time.Since(began) > listTimeout+closingTime {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		close(h.release)
		synctest.Wait()
	})
}

func TestPollsTakeTurnsAndKeepTheirDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := hungStore(t)
		first := make(chan error)
		go func() {
			_, err := s.Poll(t.Context())
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Poll(ctx); !errors.Is(err, ErrUnreachable) {
			t.Errorf("the second poll says %v", err)
		}
		close(h.release)
		if err := <-first; err != nil {
			t.Errorf("the first poll says %v", err)
		}
	})
}

// A store that does not change is asked one thing, once what it holds is old
// enough to be distinguished from what it may hold next.
func TestPollOfAnUnchangedStoreIsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		poll := func() int64 {
			t.Helper()
			before := s.Requests()
			v, err := s.Poll(ctx)
			if err != nil || v.Spec == nil || len(v.Nodes) != 1 {
				t.Fatalf("a poll shows %+v, %v", v, err)
			}
			return s.Requests() - before
		}
		if err := errors.Join(s.PutSpec(ctx, SpecFile{MemberCount: 3}), s.PutNode(ctx, NodeRecord{Name: "a"})); err != nil {
			t.Fatal(err)
		}
		for at, want := range []int64{3, 3, 3, 3, 1, 1, 1} {
			if n := poll(); n != want {
				t.Errorf("the poll after %d s makes %d requests, want %d", at, n, want)
			}
			time.Sleep(time.Second)
		}
		if err := s.PutNode(ctx, NodeRecord{Name: "a"}); err != nil {
			t.Fatal(err)
		}
		if n := poll(); n != 2 {
			t.Errorf("after one change a poll makes %d requests", n)
		}
	})
}

// A file that is rewritten in place, with its old size and time, is seen while
// it is new.
func TestPollSeesAChangeWithinOneTick(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "control", "etcd-cluster-spec")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	tick := began.Truncate(time.Second)
	for count := 1; count <= 7; count++ {
		text := strings.Replace(`{"memberCount":N}`, "N", string(rune('0'+count)), 1)
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chtimes(file, tick, tick)); err != nil {
			t.Fatal(err)
		}
		v, err := s.Poll(t.Context())
		if time.Since(began) > settleTime { // on a busy machine it is not new any more
			tick, began = tick.Add(time.Second), time.Now()
			continue
		}
		if err != nil || v.Spec == nil || v.Spec.MemberCount != count {
			t.Errorf("a poll shows %+v, %v, want the count %d", v.Spec, err, count)
		}
	}
}

func TestLinkWhoseAnswerWasLost(t *testing.T) {
	dir := t.TempDir()
	mine, other, target := filepath.Join(dir, "mine"), filepath.Join(dir, "other"), filepath.Join(dir, "target")
	for _, f := range []string{mine, other} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		if err := link(mine, target); err != nil {
			t.Errorf("try %d: %v", i, err)
		}
	}
	if err := link(other, target); !errors.Is(err, errExists) {
		t.Errorf("the other file takes the name: %v", err)
	}
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := s.Put(ctx, "a", []byte("old")); err != nil {
		t.Fatal(err)
	}
	large := make([]byte, 1<<20)
	if err := s.Put(ctx, "a", large); !errors.Is(err, ErrUnreachable) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("writing to a full disk says %v", err)
	}
	if made, err := s.Upload(ctx, "b", strings.NewReader(string(large))); made || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("uploading to a full disk says %t, %v", made, err)
	}
	if b, err := s.Get(ctx, "a"); err != nil || string(b) != "old" {
		t.Errorf("the old object is %q, %v", b, err)
	}
	if ok, err := s.Exists(ctx, "b"); ok || err != nil {
		t.Errorf("part of an upload is there: %t, %v", ok, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind are %v, %v", entries, err)
	}
}

// A check for changes costs no request in a directory and four cheap ones in a bucket, and of a
// store that hangs one check hangs.
func TestWhatACheckForChangesCosts(t *testing.T) {
	for want, location := range map[int64]string{0: t.TempDir(), 4: "mem://"} {
		s, err := Open(t.Context(), location)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.NewWatcher().Changed(t.Context(), time.Now()); err != nil || s.Requests() != want {
			t.Errorf("%s: %d requests, %v", location, s.Requests(), err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s, h := hungStore(t)
		w := s.NewWatcher()
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if changed, err := w.Changed(ctx, time.Now()); changed || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("changed: %t, %v", changed, err)
			}
			cancel()
		}
		if len(s.calls) != 0 {
			t.Errorf("%d calls hang", len(s.calls))
		}
		close(h.release)
		synctest.Wait()
	})
}
