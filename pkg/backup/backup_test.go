package backup_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

var at = time.Date(2026, 11, 20, 10, 39, 37, 123, time.UTC)

func info() backup.Info {
	return backup.Info{EtcdVersion: etcdversion.Must("3.6.16"), At: at, MemberCount: 3,
		SpecVersion: etcdversion.Must("3.6.16")}
}

// snapshot returns a stream as etcd sends it: a database, which compresses by
// half, and its digest.
func snapshot(size int) []byte {
	b := make([]byte, size, size+sha256.Size)
	r := rand.New(rand.NewPCG(1, 1))
	for i := 0; i < size; i += 2 {
		b[i] = byte(r.Uint32())
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// source is a Snapshotter that streams what it holds.
type source func(ctx context.Context) (io.ReadCloser, error)

func (s source) Snapshot(ctx context.Context) (io.ReadCloser, error) { return s(ctx) }

func stream(readers ...io.Reader) source {
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(io.MultiReader(readers...)), nil }
}

func memory(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	// All calls, and the goroutines of Take with them, have ended by then.
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// counting is a source that knows how many keys there were at revision 7.
type counting struct{ source }

func (counting) CountKeys(_ context.Context, at cluster.Revision) (int64, error) {
	if at != 7 {
		return 0, errors.New("compacted")
	}
	return 12, nil
}

func TestTheNumberOfKeysIsThatOfTheRevision(t *testing.T) {
	for _, c := range []struct {
		facts backup.Facts
		want  int64
	}{
		{backup.Facts{Revision: 7}, 12}, {backup.Facts{Revision: 8}, -1}, {backup.Facts{}, -1}, {
			backup.Facts{Revision: 7, Keys: 3}, 3,
		},
	} {
		s := memory(t)
		b, err := backup.Take(t.Context(), backup.TakeOptions{
			Source: counting{stream(bytes.NewReader(snapshot(5120)))}, Store: s, Info: info(), Facts: c.facts,
		})
		if err != nil {
			t.Fatal(err)
		}
		if d, err := backup.Describe(t.Context(), s, b.Name); d.Keys != c.want || err != nil {
			t.Errorf("%+v: %d keys, %v", c.facts, d.Keys, err)
		}
	}
}

// isEmpty fails the test if the store holds a part of a backup.
func isEmpty(t *testing.T, s *store.Store) {
	t.Helper()
	whole, err1 := s.Backups(t.Context())
	parts, err2 := s.Leftovers(t.Context(), time.Now().AddDate(10, 0, 0))
	if len(whole)+len(parts) > 0 || err1 != nil || err2 != nil {
		t.Errorf("the store holds backups %v, parts %v (%v, %v)", whole, parts, err1, err2)
	}
}

func TestRoundTrip(t *testing.T) {
	s, ctx := memory(t), t.Context()
	for i, size := range []int{512, 4096, 1<<17 + 512, 2 << 20} {
		want := snapshot(size)
		// Pieces of all sizes, as a network delivers them.
		got, err := backup.Take(ctx, backup.TakeOptions{
			Source: stream(iotest.HalfReader(bytes.NewReader(want))), Store: s, Info: info(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if name := retention.Name(at, i+1); got.Name != name || !got.At.Equal(at.Truncate(time.Second)) {
			t.Errorf("the backup is %+v, want the name %s", got, name)
		}
		var out bytes.Buffer
		if d, err := backup.Fetch(ctx, s, got.Name, &out, backup.FetchOptions{}); err != nil ||
			d.Content.Size != int64(len(want)) || !bytes.Equal(out.Bytes(), want) {
			t.Errorf("fetched %d of %d bytes, %v", d.Content.Size, len(want), err)
		}
		described, err := backup.Describe(ctx, s, got.Name)
		want2 := info()
		want2.At = got.At
		if err != nil || described.Info != want2 {
			t.Errorf("the marker says %+v, %v", described, err)
		}
		marker, err := s.Get(ctx, got.Name+"/"+retention.MarkerFile)
		if want := `{"etcdVersion":"3.6.16","timestamp":"1795171177","clusterSpec":{"memberCount":3,"etcdVersion":"3.6.16"}}`; string(marker) != want || err != nil {
			t.Errorf("the marker is %s, %v", marker, err)
		}
	}
	all, err := s.Backups(ctx)
	if err != nil || len(all) != 4 || all[0].Name != retention.Name(at, 4) {
		t.Errorf("backups are %v, %v", all, err)
	}
}

func TestBytewiseStream(t *testing.T) {
	s := memory(t)
	if _, err := backup.Take(t.Context(), backup.TakeOptions{
		Source: stream(iotest.OneByteReader(bytes.NewReader(snapshot(1024)))), Store: s, Info: info(),
	}); err != nil {
		t.Error(err)
	}
}

func TestSnapshotsThatFail(t *testing.T) {
	good := snapshot(1 << 18)
	flipped := bytes.Clone(good)
	flipped[1000] ^= 1
	digest := bytes.Clone(good)
	digest[len(digest)-1] ^= 1
	lost := errors.New("connection lost")
	for name, c := range map[string]struct {
		source source
		want   error
	}{
		"empty":               {stream(), backup.ErrDamaged},
		"only a digest":       {stream(bytes.NewReader(snapshot(0))), backup.ErrDamaged},
		"short":               {stream(bytes.NewReader(good[:10])), backup.ErrDamaged},
		"without digest":      {stream(bytes.NewReader(good[:1<<18])), backup.ErrDamaged},
		"cut at a page":       {stream(bytes.NewReader(good[:512*100+32])), backup.ErrDamaged},
		"cut in the digest":   {stream(bytes.NewReader(good[:len(good)-1])), backup.ErrDamaged},
		"too long":            {stream(bytes.NewReader(good), strings.NewReader("x")), backup.ErrDamaged},
		"one bit wrong":       {stream(bytes.NewReader(flipped)), backup.ErrDamaged},
		"wrong digest":        {stream(bytes.NewReader(digest)), backup.ErrDamaged},
		"breaks off":          {stream(bytes.NewReader(good[:1<<17]), iotest.ErrReader(lost)), lost},
		"breaks off at start": {stream(iotest.ErrReader(lost)), lost},
		"refused":             {func(context.Context) (io.ReadCloser, error) { return nil, lost }, lost},
	} {
		t.Run(name, func(t *testing.T) {
			s := memory(t)
			b, err := backup.Take(t.Context(), backup.TakeOptions{Source: c.source, Store: s, Info: info()})
			if !errors.Is(err, c.want) || b.Name != "" || errors.Is(err, store.ErrUnreachable) {
				t.Errorf("%+v, %v", b, err)
			}
			isEmpty(t, s)
		})
	}
}

func TestVersionIsNeeded(t *testing.T) {
	s := memory(t)
	if _, err := backup.Take(t.Context(), backup.TakeOptions{Source: stream(), Store: s}); err == nil || s.Requests() > 0 {
		t.Errorf("%v after %d requests", err, s.Requests())
	}
}

func TestTimeIsNowByDefault(t *testing.T) {
	before := time.Now().Truncate(time.Second)
	b, err := backup.Take(t.Context(), backup.TakeOptions{
		Source: stream(bytes.NewReader(snapshot(512))), Store: memory(t), Info: backup.Info{
			EtcdVersion: etcdversion.Must("3.5.9"),
		},
	})
	if err != nil || b.At.Before(before) || b.At.After(time.Now()) {
		t.Errorf("%+v, %v", b, err)
	}
}

// stalled is a stream that gives some bytes, then nothing until it is closed.
type stalled struct {
	io.Reader
	reached chan struct{}
	closed  context.Context
	close   func()
}

func (s *stalled) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != io.EOF {
		return n, err
	}
	s.reached <- struct{}{}
	<-s.closed.Done()
	return 0, io.ErrClosedPipe
}

func (s *stalled) Close() error {
	s.close()
	return nil
}

func newStalled(content []byte) *stalled {
	ctx, cancel := context.WithCancel(context.Background())
	return &stalled{bytes.NewReader(content), make(chan struct{}, 1), ctx, cancel}
}

func TestCancelled(t *testing.T) {
	s := memory(t)
	ctx, cancel := context.WithCancel(t.Context())
	hanging := newStalled(snapshot(1 << 20)[:1<<19])
	go func() {
		<-hanging.reached
		cancel()
	}()
	_, err := backup.Take(ctx, backup.TakeOptions{
		Source: source(func(context.Context) (io.ReadCloser, error) { return hanging, nil }), Store: s, Info: info(),
	})
	if !errors.Is(err, context.Canceled) && !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	isEmpty(t, s)
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	s, err := store.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = backup.Take(t.Context(), backup.TakeOptions{
		Source: stream(bytes.NewReader(snapshot(4 << 20))), Store: s, Info: info(),
	})
	if !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, store.ErrUnreachable) {
		t.Error(err)
	}
	isEmpty(t, s)
	if _, err := backup.Take(t.Context(), backup.TakeOptions{
		Source: stream(bytes.NewReader(snapshot(4096))), Store: s, Info: info(),
	}); err != nil {
		t.Errorf("the disk stays full: %v", err)
	}
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func verify(r io.Reader) error {
	_, err := backup.Extract(r, io.Discard, backup.FetchOptions{})
	return err
}

func TestExtract(t *testing.T) {
	good := zipped(snapshot(1 << 16))
	if err := verify(bytes.NewReader(good)); err != nil {
		t.Error(err)
	}
	bad := map[string][]byte{
		"empty": nil, "not gzip": snapshot(4096), "of nothing": zipped(nil), "without digest": zipped(make([]byte, 4096)),
		"a header only": good[:10], "cut off": good[:len(good)/2], "without its end": good[:len(good)-4],
		"with more behind it": append(bytes.Clone(good), "more"...),
	}
	for _, i := range []int{0, 20, len(good) / 2, len(good) - 6, len(good) - 1} {
		flipped := bytes.Clone(good)
		flipped[i] ^= 0x40
		bad["with a wrong byte at "+string(rune('a'+i%26))] = flipped
	}
	for name, b := range bad {
		if err := verify(bytes.NewReader(b)); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	lost := errors.New("connection lost")
	if err := verify(io.MultiReader(bytes.NewReader(good[:100]), iotest.ErrReader(lost))); !errors.Is(err, lost) ||
		errors.Is(err, backup.ErrDamaged) {
		t.Errorf("a lost connection: %v", err)
	}
	r, w := io.Pipe()
	r.CloseWithError(errBroken)
	if _, err := backup.Extract(bytes.NewReader(good), w, backup.FetchOptions{}); !errors.Is(err, errBroken) ||
		errors.Is(err, backup.ErrDamaged) {
		t.Errorf("a broken writer: %v", err)
	}
}

func TestFetchOfWhatIsNotThere(t *testing.T) {
	s := memory(t)
	if _, err := backup.Fetch(t.Context(), s, "2026-11-20T10:39:37Z-000001", io.Discard,
		backup.FetchOptions{}); !errors.Is(err, store.ErrAbsent) {
		t.Error(err)
	}
	if _, err := backup.Describe(t.Context(), s, "2026-11-20T10:39:37Z-000001"); !errors.Is(err, store.ErrAbsent) {
		t.Error(err)
	}
}

func TestMain(m *testing.M) {
	backup.HurryUp()
	os.Exit(m.Run())
}
