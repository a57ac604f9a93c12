package snapshot

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

func TestWhatAFileHolds(t *testing.T) {
	db := database(t, 1000, entry{"a", false}, entry{"b", false}, entry{"b", true}, entry{"a", false}, entry{"", false})
	v := etcdversion.Must("3.6.0")
	want := Status{Size: int64(len(db)), Revision: 1006, Keys: 1001, StorageVersion: v, ClusterVersion: v}
	if got, err := Read(t.Context(), write(t, db)); got != want || err != nil {
		t.Errorf("a raw database is %+v, %v, want %+v", got, err, want)
	}
	want.Size, want.Digest = want.Size+32, true
	if got, err := Read(t.Context(), write(t, sealed(db))); got != want || err != nil {
		t.Errorf("a snapshot is %+v, %v, want %+v", got, err, want)
	}
	want.Digest, want.Keys = false, 0
	if got, err := Peek(write(t, sealed(db))); got != want || err != nil {
		t.Errorf("an observation of it says %+v, %v, want %+v", got, err, want)
	}
}

func TestServedStatus(t *testing.T) {
	for written, want := range map[cluster.Revision]cluster.Revision{0: 1, 1: 1, 2: 2, 1006: 1006} {
		if got := (Status{Revision: written, Keys: 3}).Served(); got != (Status{Revision: want, Keys: 3}) {
			t.Errorf("with revision %d it is served as %+v", written, got)
		}
	}
}

func TestFilesThatAreNoSnapshot(t *testing.T) {
	db := database(t, 100, entry{"a", false})
	good := sealed(db)
	altered := bytes.Clone(good)
	altered[len(altered)/2] ^= 1
	empty := filepath.Join(t.TempDir(), "empty")
	if b, err := bbolt.Open(empty, 0o600, nil); err != nil || b.Close() != nil {
		t.Fatal(err)
	}
	foreign, err := os.ReadFile(empty)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		content []byte
		want    string
	}{
		"empty":                  {nil, "0 bytes"},
		"a word":                 {[]byte("hello"), "5 bytes"},
		"only a digest":          {sealed(nil), "32 bytes"},
		"cut off":                {good[:len(good)-100], "bytes, which is not the size of a database and a digest"},
		"cut off at a page":      {db[:8192], ""},
		"altered":                {altered, "digest is wrong"},
		"compressed":             {append([]byte{0x1f, 0x8b}, make([]byte, 510)...), "gzip"},
		"zeros":                  {make([]byte, 8192), "invalid"},
		"sealed zeros":           {sealed(make([]byte, 8192)), "invalid"},
		"a database of no etcd":  {foreign, "not one of etcd"},
		"sealed and of no etcd":  {sealed(foreign), "not one of etcd"},
		"a page and no more":     {db[:4096], ""},
		"a digest behind a hole": {sealed(append(bytes.Clone(db[:4096*3]), make([]byte, len(db)-4096*3)...)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, tc.content)
			s, err := Read(t.Context(), path)
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	if _, err := Read(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Read(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, write(t, database(t, 10))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAFileThatARunningEtcdUses(t *testing.T) {
	path := write(t, database(t, 10))
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := Read(t.Context(), path); err == nil || !strings.Contains(err.Error(), "a running etcd uses it") {
		t.Error(err)
	}
}

// Whoever makes a hostile file can put a right digest behind it. Reading it
// must end, and must not end the program.
func TestHostileFiles(t *testing.T) {
	db := database(t, 3000, entry{"a", false})
	dir := t.TempDir()
	path := filepath.Join(dir, "db")
	r := rand.New(rand.NewPCG(7, 7))
	damaged := 0
	began := time.Now()
	for i := 0; i < 400 && (damaged < 50 || time.Since(began) < 10*time.Second); i++ {
		b := bytes.Clone(db)
		// The headers and the elements of pages do the most harm; metas are checked
		// by sums.
		for range 1 + r.IntN(4) {
			page := (2 + r.IntN(len(b)/4096-2)) * 4096
			at := page + r.IntN(96)
			switch r.IntN(3) {
			case 0:
				b[at] = byte(r.Uint32())
			case 1:
				copy(b[at:], []byte{0xff, 0xff, 0xff, 0xff})
			case 2:
				copy(b[page:page+4096], b[4096*(2+r.IntN(len(b)/4096-2)):][:4096])
			}
		}
		if err := os.WriteFile(path, sealed(b), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Peek(path); err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("an observation of it: %v", err)
		}
		_, err := Read(t.Context(), path)
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatalf("file %d: %v", i, err)
		}
		if err != nil {
			damaged++
		}
	}
	if damaged < 50 {
		t.Errorf("only %d files were found to be damaged", damaged)
	}
}

// A page that is below itself is one that bbolt would walk through forever.
func TestCircles(t *testing.T) {
	const branchFlag, headerSize = 1, 16 // of bbolt's pages
	db := database(t, 3000, entry{"a", false})
	circles := 0
	for page := 2; page < len(db)/4096; page++ {
		b := bytes.Clone(db)
		at := page * 4096
		if b[at+8] != branchFlag {
			continue
		}
		circles++
		b[at+headerSize+8] = byte(page) // the first page below is the page itself
		b[at+headerSize+9] = byte(page >> 8)
		if _, err := Read(t.Context(), write(t, b)); !errors.Is(err, ErrDamaged) ||
			!strings.Contains(err.Error(), "belongs to two others, or to itself") {
			t.Errorf("page %d: %v", page, err)
		}
	}
	if circles == 0 {
		t.Error("the database has no branch page to test with")
	}
}
