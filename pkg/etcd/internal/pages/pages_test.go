package pages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// database returns a file of bbolt: a bucket with many items, a small one
// within a page, an empty one, and large values.
func database(t *testing.T, pageSize int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: pageSize, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		err = db.Update(func(tx *bbolt.Tx) error {
			for name, n := range map[string]int{"many": 5000, "few": 3, "none": 0} {
				b, err := tx.CreateBucketIfNotExists([]byte(name))
				if err != nil {
					return err
				}
				for i := range n {
					value := bytes.Repeat([]byte{byte(i), byte(round)}, 1+i%40*(i%7))
					if i%1000 == 0 {
						value = bytes.Repeat(value, 30_000)
					}
					if err := b.Put(fmt.Appendf(nil, "key %06d", i), value); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What is read is what bbolt reads, at the place that is named.
func TestAsBbolt(t *testing.T) {
	for _, pageSize := range []int{1024, 4096, 65536} {
		b := database(t, pageSize)
		path := filepath.Join(t.TempDir(), "db")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Buckets()) != 3 || f.Used() > int64(len(b)) || f.Transaction() == 0 {
			t.Errorf("there are %v, %d bytes", f.Buckets(), f.Used())
		}
		walk := f.Walk()
		err = db.View(func(tx *bbolt.Tx) error {
			for _, name := range []string{"many", "few", "none"} {
				mine, ok := f.Bucket(name)
				if !ok {
					t.Fatalf("no bucket %s", name)
				}
				c := tx.Bucket([]byte(name)).Cursor()
				k, v := c.First()
				err := walk.Bucket(mine, func(i Item) error {
					if !bytes.Equal(i.Key, k) || !bytes.Equal(i.Value, v) || !bytes.Equal(b[i.At:][:len(v)], v) {
						t.Fatalf("%s: %q with %d bytes at %d, want %q with %d", name, i.Key, len(i.Value), i.At, k, len(v))
					}
					k, v = c.Next()
					return nil
				})
				if err != nil || k != nil {
					t.Errorf("%s: %v, the next is %q", name, err, k)
				}
			}
			return nil
		})
		if err != nil || db.Close() != nil {
			t.Error(err)
		}
		if walk.Read() == 0 || walk.Read() > int64(len(b)) {
			t.Errorf("%d bytes were read", walk.Read())
		}
		if _, ok := f.Bucket("other"); ok {
			t.Error("there is another bucket")
		}
	}
}

// No page belongs to two buckets, and a walk goes nowhere twice.
func TestAWalkGoesNowhereTwice(t *testing.T) {
	b := database(t, 4096)
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	many, _ := f.Bucket("many")
	walk := f.Walk()
	nothing := func(Item) error { return nil }
	if err := walk.Bucket(many, nothing); err != nil {
		t.Error(err)
	}
	if err := walk.Bucket(many, nothing); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "belongs to two") {
		t.Error(err)
	}
	if err := f.Walk().Bucket(many, nothing); err != nil {
		t.Error(err)
	}
}

// remeta changes both metas and makes their checksums right.
func remeta(b []byte, change func(meta []byte)) []byte {
	b = bytes.Clone(b)
	for page := range 2 {
		m := b[page*4096:][:metaSize]
		change(m)
		sum := fnv.New64a()
		sum.Write(m[headerSize:checksumAt])
		binary.LittleEndian.PutUint64(m[checksumAt:], sum.Sum64())
	}
	return b
}

func TestHostileMetas(t *testing.T) {
	b := database(t, 4096)
	put64 := func(at int, v uint64) func([]byte) {
		return func(m []byte) { binary.LittleEndian.PutUint64(m[at:], v) }
	}
	put32 := func(at int, v uint32) func([]byte) {
		return func(m []byte) { binary.LittleEndian.PutUint32(m[at:], v) }
	}
	for name, change := range map[string]func([]byte){
		"no magic":                put32(headerSize, 1),
		"another version":         put32(headerSize+4, 3),
		"pages of nothing":        put32(headerSize+8, 0),
		"odd pages":               put32(headerSize+8, 4097),
		"pages of a gigabyte":     put32(headerSize+8, 1<<30),
		"more pages than bytes":   put64(pagesAt, 1<<40),
		"pages beyond arithmetic": put64(pagesAt, 1<<63),
		"root beyond the end":     put64(rootAt, 1<<50),
		"root is a meta":          put64(rootAt, 1),
		"root is nothing":         put64(rootAt, 0),
	} {
		changed := remeta(b, change)
		if _, err := Open(bytes.NewReader(changed), int64(len(changed))); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	same := remeta(b, func([]byte) {})
	if _, err := Open(bytes.NewReader(same), int64(len(same))); err != nil {
		t.Error(err)
	}
	for size := range 200 {
		if _, err := Open(bytes.NewReader(b[:size]), int64(size)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// failing is a disk that cannot be read.
type failing struct{ error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.error }

func TestADiskThatFails(t *testing.T) {
	broken := errors.New("input/output error")
	if _, err := Open(failing{broken}, 1<<20); !errors.Is(err, broken) || errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

func TestAVisitorThatStops(t *testing.T) {
	b := database(t, 4096)
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	stop, n := errors.New("stop"), 0
	many, _ := f.Bucket("many")
	err = f.Walk().Bucket(many, func(Item) error {
		if n++; n == 10 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || n != 10 {
		t.Errorf("%v after %d", err, n)
	}
}
