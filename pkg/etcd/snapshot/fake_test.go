package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"
)

// stream returns a stream as etcd sends it: a "database" and its digest.
func stream(size int) []byte {
	return sealed(bytes.Repeat([]byte{1, 2, 3, 4}, size/4))
}

// sealed returns a database with its digest.
func sealed(db []byte) []byte {
	sum := sha256.Sum256(db)
	return append(bytes.Clone(db), sum[:]...)
}

// source is a Source.
type source func(ctx context.Context) (io.ReadCloser, error)

func (s source) Snapshot(ctx context.Context) (io.ReadCloser, error) { return s(ctx) }

func of(readers ...io.Reader) source {
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(io.MultiReader(readers...)), nil }
}

// hanging gives some bytes, and then nothing until it is closed.
type hanging struct {
	io.Reader
	closed context.Context
	close  func()
}

func newHanging(b []byte) *hanging {
	ctx, cancel := context.WithCancel(context.Background())
	return &hanging{bytes.NewReader(b), ctx, cancel}
}

func (h *hanging) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if err != io.EOF {
		return n, err
	}
	<-h.closed.Done()
	return 0, io.ErrClosedPipe
}

func (h *hanging) Close() error {
	h.close()
	return nil
}

func write(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "snapshot.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An entry is one change of a key, at the revision of its place.
type entry struct {
	key     string
	deleted bool
}

// database returns a bbolt database as etcd's, with many changes in front of
// the given ones.
func database(t *testing.T, many int, entries ...entry) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("key"))
		if err != nil {
			return err
		}
		all := make([]entry, many)
		for i := range all {
			all[i].key = fmt.Sprintf("key-%04d", i)
		}
		for i, e := range append(all, entries...) {
			k := binary.BigEndian.AppendUint64(nil, uint64(i+2))
			k = append(append(k, '_'), make([]byte, 8)...)
			if e.deleted {
				k = append(k, 't')
			}
			v := protowire.AppendTag(nil, 1, protowire.BytesType)
			v = protowire.AppendBytes(v, []byte(e.key))
			for field, n := range map[protowire.Number]uint64{2: 2, 3: uint64(i + 2), 4: 1} {
				if !e.deleted {
					v = protowire.AppendVarint(protowire.AppendTag(v, field, protowire.VarintType), n)
				}
			}
			if err := b.Put(k, v); err != nil {
				return err
			}
		}
		meta, err := tx.CreateBucket([]byte("meta"))
		if err != nil {
			return err
		}
		if err := meta.Put([]byte("storageVersion"), []byte("3.6.0")); err != nil {
			return err
		}
		members, err := tx.CreateBucket([]byte("cluster"))
		if err != nil {
			return err
		}
		return members.Put([]byte("clusterVersion"), []byte("3.6.0"))
	})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
