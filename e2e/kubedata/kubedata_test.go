package kubedata

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
)

func made(t *testing.T, o Options) (string, Summary) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.db")
	s, err := Write(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	return path, s
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheSameOptionsMakeTheSameFile(t *testing.T) {
	a, sa := made(t, Options{Bytes: 5 << 20, Seed: 3})
	b, sb := made(t, Options{Bytes: 5 << 20, Seed: 3})
	c, sc := made(t, Options{Bytes: 5 << 20, Seed: 4})
	if sa != sb || !bytes.Equal(content(t, a), content(t, b)) {
		t.Errorf("one seed made %+v and %+v", sa, sb)
	}
	if sa == sc || bytes.Equal(content(t, a), content(t, c)) {
		t.Errorf("another seed made the same: %+v", sc)
	}
}

func TestWhatIsInTheFile(t *testing.T) {
	for _, o := range []Options{
		{}, {Bytes: 10 << 20, Seed: 9},
		{Bytes: 3 << 20, StorageVersion: etcdversion.Version{Major: 3, Minor: 7}},
		{Bytes: 3 << 20, Raw: true},
	} {
		reported := int64(0)
		o.Progress = func(n int64) { reported = n }
		path, s := made(t, o)
		want := max(o.Bytes, 1<<20)
		if s.Size < want || s.Size > want*13/10 {
			t.Errorf("%d bytes were asked for, there are %d", want, s.Size)
		}
		if reported == 0 || reported > s.Size {
			t.Errorf("progress ended at %d of %d", reported, s.Size)
		}
		if s.Keys < 100 || s.Revisions <= s.Keys || s.Compacted >= s.Revision || s.Leases == 0 {
			t.Errorf("there is not everything in it: %+v", s)
		}
		got, err := snapshot.Read(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if got.Size != s.Size || int64(got.Revision) != s.Revision || got.Keys != s.Keys || got.Digest == o.Raw {
			t.Errorf("the file is %+v, its summary %+v", got, s)
		}
		if o.StorageVersion.AtLeast(3, 6) && got.StorageVersion.String() != o.StorageVersion.String()+".0" &&
			got.StorageVersion != o.StorageVersion {
			t.Errorf("the storage version is %s", got.StorageVersion)
		}
	}
}

// Benchmarks of backups are worth nothing on data that compress like no real
// ones: those compress 5.3-fold with gzip.
func TestItCompressesAsRealData(t *testing.T) {
	path, s := made(t, Options{Bytes: 16 << 20})
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	if _, err := io.Copy(zip, bytes.NewReader(content(t, path))); err != nil || zip.Close() != nil {
		t.Fatal(err)
	}
	if ratio := float64(s.Size) / float64(b.Len()); ratio < 4.5 || ratio > 6.5 {
		t.Errorf("it compresses %.1f-fold", ratio)
	}
}

func TestAFailureLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	stop := func(int64) { cancel() }
	if _, err := Write(ctx, filepath.Join(dir, "s.db"), Options{Bytes: 32 << 20, Progress: stop}); !errors.Is(err,
		context.Canceled) {
		t.Error(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "d", "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(t.Context(), filepath.Join(dir, "d"), Options{}); err == nil {
		t.Error("a directory was replaced")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("there are %v, %v", entries, err)
	}
}
