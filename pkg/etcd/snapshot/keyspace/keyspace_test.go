package keyspace

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/snapshottest"
)

func opened(t *testing.T, path string, o Options) *Space {
	t.Helper()
	s, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// scenario is a history with a bit of everything. The comments are revisions.
func scenario() *snapshottest.DB {
	d := snapshottest.New("3.6")
	d.Lease(77, 60)
	d.Lease(78, 15)
	d.Put("/a/1", "one", 0)   // 2
	d.Put("/a/2", "two", 77)  // 3
	d.Put("/b", "bee", 0)     // 4
	d.Put("/a/1", "eins", 77) // 5
	d.Delete("/a/2", "/b")    // 6
	d.Put("/b", "", 0)        // 7
	d.PutAt(1, "/c", strings.Repeat("x", 10_000), 0)
	return d
}

func names(keys []Key) string {
	var list []string
	for _, k := range keys {
		list = append(list, k.Key)
	}
	return strings.Join(list, " ")
}

func TestWhatASpaceHolds(t *testing.T) {
	reported := int64(0)
	s := opened(t, scenario().File(t), Options{Progress: func(done, total int64) {
		if done < reported || done > total {
			t.Errorf("progress went from %d to %d of %d", reported, done, total)
		}
		reported = done
	}})
	want := Summary{
		Digest: true, Revision: 7, Newest: 7, Keys: 3, Bytes: 4 + 4 + 2 + 2 + 10_000, Changes: 8, Deletions: 2, Leases: 2,
		StorageVersion: etcdversion.Must("3.6.0"), ClusterVersion: etcdversion.Must("3.6.0"), RaftIndex: 9, RaftTerm: 2,
	}
	got := s.Summary()
	want.Size, want.Used = got.Size, got.Size-32
	if got != want {
		t.Errorf("the summary is %+v,\nwant %+v", got, want)
	}
	k, ok := s.Get("/a/1")
	k.at = 0
	if !ok || k != (Key{Key: "/a/1", CreateRevision: 2, ModRevision: 5, Version: 2, Lease: 77, Size: 4}) {
		t.Errorf("the key is %+v, %t", k, ok)
	}
	if _, ok := s.Get("/a/2"); ok {
		t.Error("a deleted key is there")
	}
	// It was deleted and made again, with nothing in it.
	if k, _ := s.Get("/b"); k.CreateRevision != 7 || k.Version != 1 || k.Size != 0 {
		t.Errorf("the key made again is %+v", k)
	}
	if got := s.Leases(); !slices.Equal(got, []Lease{{77, 60, 0, 1}, {78, 15, 0, 0}}) {
		t.Errorf("the leases are %+v", got)
	}
	if reported == 0 {
		t.Error("no progress was reported")
	}
}

func TestValues(t *testing.T) {
	s := opened(t, scenario().File(t), Options{})
	buffer := make([]byte, 0, 8)
	for key, want := range map[string]string{"/a/1": "eins", "/b": "", "/c": strings.Repeat("x", 10_000)} {
		k, _ := s.Get(key)
		if b, err := s.Value(k, buffer); err != nil || string(b) != want {
			t.Errorf("%s is %.20q, %v", key, b, err)
		}
	}
}

func TestKeysByPrefix(t *testing.T) {
	d := snapshottest.New("3.5")
	for _, k := range []string{"a", "/b/2", "/b/1", "/b", "/b0", "\xff\xff", "/b/\x00", "/c"} {
		d.Put(k, "v", 0)
	}
	d.Bump(10) // its entry is no key
	s := opened(t, d.File(t), Options{})
	for prefix, want := range map[string]string{
		"":     "/b /b/\x00 /b/1 /b/2 /b0 /c a \xff\xff",
		"/b":   "/b /b/\x00 /b/1 /b/2 /b0",
		"/b/":  "/b/\x00 /b/1 /b/2",
		"/b/2": "/b/2", "/b/3": "", "\xff": "\xff\xff", "zz": "", "!": "",
	} {
		if got := names(s.Keys(prefix)); got != want {
			t.Errorf("with %q begin %q, want %q", prefix, got, want)
		}
	}
}

func TestEarlierRevisions(t *testing.T) {
	d := scenario()
	d.Compacted(3)
	path := d.File(t)
	for rev, want := range map[cluster.Revision]string{
		3: "/a/1 /a/2", 4: "/a/1 /a/2 /b", 5: "/a/1 /a/2 /b", 6: "/a/1", 7: "/a/1 /b /c", 0: "/a/1 /b /c",
	} {
		s := opened(t, path, Options{Revision: rev})
		if got := names(s.Keys("")); got != want {
			t.Errorf("at %d there are %s, want %s", rev, got, want)
		}
		if sum := s.Summary(); sum.Newest != 7 || rev > 0 && sum.Revision != rev || sum.Compacted != 3 {
			t.Errorf("at %d the summary is %+v", rev, sum)
		}
	}
	for _, rev := range []cluster.Revision{1, 2, 8} {
		_, err := Open(t.Context(), path, Options{Revision: rev})
		if gone := (&RevisionError{}); !errors.As(err, &gone) || *gone != (RevisionError{rev, 3, 7}) {
			t.Errorf("revision %d: %v", rev, err)
		}
	}
}

func TestAnEmptyDatabase(t *testing.T) {
	s := opened(t, snapshottest.New("3.5").File(t), Options{})
	if sum := s.Summary(); sum.Newest != 1 || sum.Keys != 0 || len(s.Keys("")) != 0 {
		t.Errorf("the summary is %+v", sum)
	}
}

func TestARawDatabase(t *testing.T) {
	d := scenario()
	s := opened(t, snapshottest.Write(t, d.Database(t)), Options{})
	if sum := s.Summary(); sum.Digest || sum.Keys != 3 {
		t.Errorf("the summary is %+v", sum)
	}
}

// A restore raises the revision. That is the newest, also where the
// compaction that belongs to it is yet to be done.
func TestARaisedRevision(t *testing.T) {
	d := scenario()
	d.Bump(1000)
	s := opened(t, d.File(t), Options{})
	if sum := s.Summary(); sum.Newest != 1007 || sum.Compacted != 1007 || sum.Keys != 3 {
		t.Errorf("the summary is %+v", sum)
	}
}

func TestFilesThatAreDamaged(t *testing.T) {
	good := scenario().Snapshot(t)
	flipped := slices.Clone(good)
	flipped[9000] ^= 4
	with := func(change func(*snapshottest.DB)) []byte {
		d := scenario()
		change(d)
		return d.Snapshot(t)
	}
	for name, tc := range map[string]struct {
		content []byte
		want    string
	}{
		"one bit":           {flipped, "digest is wrong"},
		"cut off":           {good[:8192], "is truncated"},
		"no bucket of keys": {snapshottest.Sealed(empty(t)), "not one of etcd"},
		"no revision":       {with(func(d *snapshottest.DB) { d.Values["key"]["abc"] = "" }), "is not a revision"},
		"a negative one":    {with(func(d *snapshottest.DB) { d.Values["key"]["\xff1234567_12345678"] = "" }), "negative"},
		"no message":        {with(func(d *snapshottest.DB) { d.Raw(8, []byte("\x0a\x7fk")) }), "revision 8.0"},
		"another revision": {with(func(d *snapshottest.DB) { d.Raw(8, []byte("\x0a\x01k\x10\x02\x18\x05\x20\x01")) }),
			"is labelled 5"},
		"made later": {with(func(d *snapshottest.DB) { d.Raw(8, []byte("\x0a\x01k\x10\x09\x18\x08\x20\x01")) }),
			"made at 9"},
		"another lease": {with(func(d *snapshottest.DB) { d.Values["lease"]["12345678"] = "\x08\x01" }), "is labelled 1"},
		"no lease":      {with(func(d *snapshottest.DB) { d.Values["lease"]["12345678"] = "\x08" }), "lease 3132"},
		"no compaction": {with(func(d *snapshottest.DB) { d.Values["meta"]["finishedCompactRev"] = "x" }), "not a revision"},
	} {
		t.Run(name, func(t *testing.T) {
			path := snapshottest.Write(t, tc.content)
			_, err := Open(t.Context(), path, Options{})
			if !errors.Is(err, snapshot.ErrDamaged) || !strings.Contains(err.Error(), tc.want) ||
				!strings.Contains(err.Error(), path) {
				t.Error(err)
			}
		})
	}
}

// empty returns a database of bbolt that has nothing of etcd.
func empty(t *testing.T) []byte {
	d := snapshottest.New("3.5")
	for name := range d.Values {
		d.Values[name] = nil
	}
	return d.Database(t)
}

func TestFilesThatCannotBeOpened(t *testing.T) {
	if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "none"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Open(t.Context(), t.TempDir(), Options{}); err == nil ||
		!strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, o := range []Options{{}, {SkipDigest: true}} {
		if _, err := Open(ctx, scenario().File(t), o); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
