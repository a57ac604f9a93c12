package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/store"
)

var errDenied = errors.New("access denied")

// writeOnly is a store that lets its users create objects, and nothing else.
type writeOnly struct{ s *store.Store }

func (writeOnly) Exists(context.Context, string) (bool, error) { return false, errDenied }
func (writeOnly) Get(context.Context, string) ([]byte, error)  { return nil, errDenied }
func (writeOnly) Delete(context.Context, string) error         { return errDenied }
func (w writeOnly) Create(ctx context.Context, key string, b []byte) (bool, error) {
	return w.s.Create(ctx, key, b)
}

func (w writeOnly) Upload(ctx context.Context, key string, r io.Reader) (bool, error) {
	return w.s.Upload(ctx, key, r)
}

func TestWriteOnlyStore(t *testing.T) {
	s, content, one := memory(t), snapshot(1<<16), identity(t)
	sign, trusted := signer(t)
	fresh := source(func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	for i := range 3 {
		b, err := backup.Take(t.Context(), backup.TakeOptions{
			Source: fresh, Store: writeOnly{s}, Info: info(), Recipients: one.to, Signer: sign,
		})
		if err != nil || b.Name != retention.Name(at, i+1) {
			t.Fatalf("%+v, %v", b, err)
		}
		if _, err := backup.Verify(t.Context(), s, b.Name, backup.FetchOptions{
			Keys: one.keys, Trusted: trusted, RequireSignature: true,
		}); err != nil {
			t.Error(err)
		}
	}
	// What breaks off stays, where it must not be removed, and is no backup.
	later := info()
	later.At = at.Add(time.Hour)
	cut := stream(bytes.NewReader(content[:1<<15]), iotest.ErrReader(io.ErrUnexpectedEOF))
	if b, err := backup.Take(t.Context(), backup.TakeOptions{Source: cut, Store: writeOnly{s}, Info: later}); !errors.Is(
		err, io.ErrUnexpectedEOF) {
		t.Errorf("%+v, %v", b, err)
	}
	careless := broken{Store: s, careless: true}
	b, err := backup.Take(t.Context(), backup.TakeOptions{
		Source: stream(bytes.NewReader(content[:1<<15])), Store: undeletable{careless}, Info: later,
	})
	if !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), "could not be removed: access denied") {
		t.Errorf("%+v, %v", b, err)
	}
	if all, err := s.Backups(t.Context()); err != nil || len(all) != 3 {
		t.Errorf("%v, %v", all, err)
	}
}

// undeletable is a store that refuses to delete.
type undeletable struct{ backup.Target }

func (undeletable) Delete(context.Context, string) error { return errDenied }

// flaky is a store whose Create fails for some time, with or without effect.
type flaky struct {
	*store.Store
	file     string
	failures *int
	effect   bool
	blind    bool
}

func (f flaky) Get(ctx context.Context, key string) ([]byte, error) {
	if f.blind {
		return nil, errDenied
	}
	return f.Store.Get(ctx, key)
}

func (f flaky) Create(ctx context.Context, key string, b []byte) (bool, error) {
	if !strings.HasSuffix(key, f.file) || *f.failures == 0 {
		return f.Store.Create(ctx, key, b)
	}
	*f.failures--
	if f.effect {
		if _, err := f.Store.Create(ctx, key, b); err != nil {
			return false, err
		}
	}
	return false, errBroken
}

func TestSmallObjectsAreTriedAgain(t *testing.T) {
	sign, trusted := signer(t)
	content := snapshot(1 << 14)
	for _, file := range []string{retention.DescriptionFile, retention.SignatureFile, retention.MarkerFile} {
		for _, effect := range []bool{false, true} {
			for _, blind := range []bool{false, true} {
				s := memory(t)
				failures := 3
				// The first name is lost where nobody can say whose description it is.
				want := 1
				if effect && blind && file == retention.DescriptionFile {
					want = 2
				}
				fresh := source(func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
				b, err := backup.Take(t.Context(), backup.TakeOptions{
					Source: fresh, Store: flaky{s, file, &failures, effect, blind}, Info: info(), Signer: sign,
				})
				if err != nil || b.Name != retention.Name(at, want) {
					t.Errorf("%s, effect %t, blind %t: %+v, %v", file, effect, blind, b, err)
					continue
				}
				if _, err := backup.Verify(t.Context(), s, b.Name, backup.FetchOptions{
					Trusted: trusted, RequireSignature: true,
				}); err != nil {
					t.Errorf("%s, effect %t, blind %t: %v", file, effect, blind, err)
				}
				if all, err := s.Backups(t.Context()); err != nil || len(all) != 1 {
					t.Errorf("%v, %v", all, err)
				}
			}
		}
	}
}

// hanging is a store of which one call hangs until its context ends.
type hanging struct {
	*store.Store
	call, file string
	reached    chan struct{}
}

func (h hanging) hang(ctx context.Context, call, key string) error {
	if h.call != call || !strings.HasSuffix(key, h.file) {
		return nil
	}
	close(h.reached)
	<-ctx.Done()
	return ctx.Err()
}

func (h hanging) Exists(ctx context.Context, key string) (bool, error) {
	if err := h.hang(ctx, "exists", key); err != nil {
		return false, err
	}
	return h.Store.Exists(ctx, key)
}

func (h hanging) Upload(ctx context.Context, key string, r io.Reader) (bool, error) {
	if err := h.hang(ctx, "upload", key); err != nil {
		return false, err
	}
	return h.Store.Upload(ctx, key, r)
}

func (h hanging) Create(ctx context.Context, key string, b []byte) (bool, error) {
	if err := h.hang(ctx, "create", key); err != nil {
		return false, err
	}
	return h.Store.Create(ctx, key, b)
}

func TestStoresThatHang(t *testing.T) {
	for _, c := range [][2]string{
		{"exists", retention.MarkerFile}, {"exists", retention.DataFile}, {"upload", retention.DataFile},
		{"create", retention.DescriptionFile}, {"create", retention.MarkerFile},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		h := hanging{memory(t), c[0], c[1], make(chan struct{})}
		go func() {
			<-h.reached
			cancel()
		}()
		b, err := backup.Take(ctx, backup.TakeOptions{
			Source: stream(bytes.NewReader(snapshot(1 << 20))), Store: h, Info: info(),
		})
		if !errors.Is(err, context.Canceled) || b.Name != "" {
			t.Errorf("%s of %s: %+v, %v", c[0], c[1], b, err)
		}
		if all, err := h.Backups(t.Context()); err != nil || len(all) > 0 {
			t.Errorf("%s of %s: %v, %v", c[0], c[1], all, err)
		}
	}
}

// A source that stops sending counts as broken, a store that is slow does not.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unreachable := newStalled(snapshot(1 << 20)[:1<<19])
		began := time.Now()
		_, err := backup.Take(t.Context(), backup.TakeOptions{
			Source: source(func(context.Context) (io.ReadCloser, error) { return unreachable, nil }), Store: sink{},
			Info: info(), Stall: time.Minute,
		})
		if err == nil || !strings.Contains(err.Error(), "etcd sent nothing for 1m0s") || time.Since(began) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		_, err = backup.Take(t.Context(), backup.TakeOptions{
			Source: stream(bytes.NewReader(snapshot(4 << 20))), Store: slow{}, Info: info(), Stall: time.Minute,
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// slow is a store that takes its time.
type slow struct{ sink }

func (slow) Upload(ctx context.Context, key string, r io.Reader) (bool, error) {
	time.Sleep(time.Hour)
	return sink{}.Upload(ctx, key, r)
}

// Several backup takers in one second, of all forms, never share a name.
func TestBackupsOfOneSecond(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair := identity(t)
	var all sync.WaitGroup
	names := make([]string, 12)
	for i := range names {
		all.Go(func() {
			content := snapshot(512 * (i + 1))
			o := backup.TakeOptions{
				Source: source(func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }),
				Store:  s, Info: info(), Compression: []string{backup.Gzip, backup.Zstd}[i%2],
			}
			if i%3 == 0 {
				o.Recipients = pair.to
			}
			b, err := backup.Take(t.Context(), o)
			if err != nil {
				t.Error(err)
				return
			}
			names[i] = b.Name
			var out bytes.Buffer
			if _, err := backup.Fetch(t.Context(), s, b.Name, &out, backup.FetchOptions{Keys: pair.keys}); err != nil ||
				!bytes.Equal(out.Bytes(), content) {
				t.Errorf("%s: %v", b.Name, err)
			}
		})
	}
	all.Wait()
	found, err := s.Backups(t.Context())
	if err != nil || len(found) != len(names) {
		t.Errorf("%d backups of %d backup takers: %v", len(found), len(names), names)
	}
}

// long is a snapshot of any size, without the memory for it.
type long struct {
	left  int64
	block []byte
}

func (l *long) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, io.EOF
	}
	n := copy(p, l.block[:min(int64(len(l.block)), l.left)])
	l.left -= int64(n)
	return n, nil
}

// TestMemory takes a backup of 512 MiB in a process of its own, and checks
// how much memory that ever had.
func TestMemory(t *testing.T) {
	const size, variable = 512 << 20, "ETCDADM_TEST_MEMORY"
	if form := os.Getenv(variable); form != "" {
		takeLong(t, form, size)
		return
	}
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	for _, form := range []string{"gzip", "zstd-age"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemory$", "-test.v")
		cmd.Env = append(os.Environ(), variable+"="+form, "GOMAXPROCS=4")
		out, err := cmd.CombinedOutput()
		_, text, found := strings.Cut(string(out), "peak: ")
		if err != nil || !found {
			t.Fatalf("%v\n%s", err, out)
		}
		peak, err := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
		t.Logf("%s: %d MiB", form, peak>>10)
		limit := int64(96 << 10)
		if raceEnabled {
			limit *= 8
		}
		if err != nil || peak > limit {
			t.Errorf("%s had %d KiB of memory, at most %d are allowed (%v)", form, peak, limit, err)
		}
	}
}

func takeLong(t *testing.T, form string, size int64) {
	compression, crypt, _ := strings.Cut(form, "-")
	o := backup.TakeOptions{Compression: compression, Store: sink{}, Info: info()}
	if crypt != "" {
		o.Recipients = identity(t).to
	}
	block := snapshot(1 << 20)[:1<<20]
	if raceEnabled {
		size /= 16
	}
	// The digest of it all is wrong, which is found at the very end.
	o.Source = stream(&long{left: size + 32, block: block})
	_, err := backup.Take(t.Context(), o)
	if !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), "digest") {
		t.Error(err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Println("peak:", strings.Fields(rest)[0])
}

var _ backup.Target = undeletable{}
