package keyspace

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/snapshottest"
)

// wide returns a database of many pages: a tree with branches, pages with
// overflow, buckets within a page.
func wide(t snapshottest.TB) []byte {
	d := snapshottest.New("3.6")
	for i := range 2000 {
		d.Put(fmt.Sprintf("/registry/pods/default/%04d", i%700), string(make([]byte, 20+i%300)), int64(i%3))
		if i%50 == 0 {
			d.Put("/big", string(make([]byte, 20_000)), 0)
			d.Delete(fmt.Sprintf("/registry/pods/default/%04d", i%700))
		}
	}
	for i := range int64(300) {
		d.Lease(i+1, 60)
	}
	return d.Database(t)
}

// use does all that can be done with a file. It must end, and not with a panic.
func use(ctx context.Context, path string) error {
	s, err := Open(ctx, path, Options{SkipDigest: true})
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Hash(ctx); err != nil {
		return err
	}
	var buffer []byte
	for _, k := range s.Keys("") {
		if buffer, err = s.Value(k, buffer); err != nil {
			return err
		}
	}
	return nil
}

// Whoever makes a hostile file can put a right digest behind it.
func TestHostileFiles(t *testing.T) {
	db := wide(t)
	path := filepath.Join(t.TempDir(), "db")
	r := rand.New(rand.NewPCG(11, 5))
	pages := len(db) / 4096
	found, began := 0, time.Now()
	for i := 0; i < 600 && (found < 100 || time.Since(began) < 8*time.Second); i++ {
		b := slices.Clone(db)
		for range 1 + r.IntN(3) {
			page := b[(2+r.IntN(pages-2))*4096:][:4096]
			at := r.IntN(128)
			switch r.IntN(5) {
			case 0:
				page[at] = byte(r.Uint32())
			case 1:
				copy(page[at:], "\xff\xff\xff\xff\xff\xff\xff\xff")
			case 2:
				copy(page, b[(2+r.IntN(pages-2))*4096:][:4096])
			case 3: // a page under another's name
				from := b[(2+r.IntN(pages-2))*4096:][:4096]
				copy(page[8:], from[8:])
			case 4: // overflow
				binary.LittleEndian.PutUint32(page[12:], uint32(r.IntN(pages*2)))
			}
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		err := use(t.Context(), path)
		if err != nil && !errors.Is(err, snapshot.ErrDamaged) {
			t.Fatalf("file %d: %v", i, err)
		}
		if err != nil {
			found++
		}
	}
	if found < 100 {
		t.Errorf("only %d files were found to be damaged", found)
	}
}

// Elements that share their bytes could be more than there is in any disk.
func TestElementsThatOverlap(t *testing.T) {
	db := wide(t)
	tried := 0
	for at := 2 * 4096; at < len(db); at += 4096 {
		page := db[at:][:4096]
		if binary.LittleEndian.Uint16(page[8:]) != 2 || binary.LittleEndian.Uint16(page[10:]) < 2 ||
			binary.LittleEndian.Uint64(page) != uint64(at/4096) {
			continue
		}
		b := slices.Clone(db)
		// The second element gets the key and the value of the first.
		first := b[at+16:][:16]
		copy(b[at+32:], first)
		binary.LittleEndian.PutUint32(b[at+36:], binary.LittleEndian.Uint32(first[4:])-16)
		if err := use(t.Context(), snapshottest.Write(t, b)); !errors.Is(err, snapshot.ErrDamaged) {
			t.Fatalf("page %d: %v", at/4096, err)
		}
		if tried++; tried == 10 {
			break
		}
	}
	if tried == 0 {
		t.Error("there was no page to try it with")
	}
}

// Each byte of a snapshot is covered by its digest.
func TestEveryFlippedByteIsFound(t *testing.T) {
	good := scenario().Snapshot(t)
	path := filepath.Join(t.TempDir(), "db")
	for at := 0; at < len(good); at += 37 {
		b := slices.Clone(good)
		b[at] ^= 1 << (at % 8)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, snapshot.ErrDamaged) {
			t.Fatalf("byte %d: %v", at, err)
		}
	}
}

// A file that is cut off while it is read gives an error, and no signal.
func TestAFileThatShrinks(t *testing.T) {
	path := snapshottest.Write(t, wide(t))
	s := opened(t, path, Options{})
	if err := os.Truncate(path, 4096*3); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Hash(t.Context()); !errors.Is(err, snapshot.ErrDamaged) {
		t.Error(err)
	}
	k := s.Keys("")[0]
	if _, err := s.Value(k, nil); !errors.Is(err, snapshot.ErrDamaged) {
		t.Error(err)
	}
}

// The second meta page serves where the first is damaged.
func TestTheOtherMeta(t *testing.T) {
	db := wide(t)
	for _, page := range []int{0, 1} {
		b := slices.Clone(db)
		copy(b[page*4096:], make([]byte, 4096))
		err := use(t.Context(), snapshottest.Write(t, b))
		// The one of the transaction before has an empty database.
		if err != nil && !errors.Is(err, snapshot.ErrDamaged) {
			t.Error(err)
		}
	}
	b := slices.Clone(db)
	copy(b, make([]byte, 8192))
	if err := use(t.Context(), snapshottest.Write(t, b)); !errors.Is(err, snapshot.ErrDamaged) {
		t.Error(err)
	}
}

func FuzzOpen(f *testing.F) {
	d := scenario()
	d.Compacted(3)
	db := d.Database(f)
	for page := range len(db) / 4096 {
		f.Add(uint16(page), uint16(8), []byte{1, 0, 2, 0}, uint16(page))
		f.Add(uint16(page), uint16(24), []byte{0xff, 0xff, 0xff, 0xff}, uint16(1))
	}
	path := filepath.Join(f.TempDir(), "db")
	f.Fuzz(func(t *testing.T, page, at uint16, content []byte, from uint16) {
		b := slices.Clone(db)
		pages := len(b) / 4096
		to := b[int(page)%pages*4096:][:4096]
		copy(to, b[int(from)%pages*4096:][:4096])
		copy(to[int(at)%4096:], content)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := use(t.Context(), path); err != nil && !errors.Is(err, snapshot.ErrDamaged) {
			t.Error(err)
		}
	})
}
