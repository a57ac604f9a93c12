package drill

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/isolate"
)

// hostileDatabase makes a database that bbolt takes for whole, and whose bucket of users
// lies where there is no page.
func hostileDatabase(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err == nil {
		err = db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucket([]byte("auth"))
			if err != nil {
				return err
			}
			// Large enough to have pages of its own.
			return b.Put([]byte("authEnabled"), bytes.Repeat([]byte{1}, 3000))
		})
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for rest := b; ; found++ {
		i := bytes.Index(rest, []byte("auth"))
		if i < 0 {
			break
		}
		rest = rest[i+4:]
		if !bytes.HasPrefix(rest, []byte("Enabled")) {
			binary.LittleEndian.PutUint64(rest, 1<<30)
		}
	}
	if err := os.WriteFile(path, b, 0o600); err != nil || found < 2 {
		t.Fatalf("%d places, %v", found, err)
	}
	return path
}

// A database that makes bbolt fault ends the process that reads it, and no other.
func TestAHostileDatabaseEndsOnlyWhoReadsIt(t *testing.T) {
	err := openToAll(t.Context(), hostileDatabase(t))
	var ended *isolate.EndedError
	if !errors.As(err, &ended) || !errors.Is(err, snapshot.ErrDamaged) || !strings.Contains(err.Error(), "fault") {
		t.Errorf("it is read, or refused, with %v", err)
	}
}

// A file that is no database is refused by the process in words.
func TestWhatTheProcessSaysComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, bytes.Repeat([]byte("garbage "), 1024), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := inspect(t.Context(), question{Path: path}, nil); !errors.Is(err, snapshot.ErrDamaged) ||
		errors.As(err, new(*isolate.EndedError)) {
		t.Errorf("garbage is read with %v", err)
	}
	if _, err := inspect(t.Context(), question{Path: path + ".none"}, nil); !errors.Is(err, os.ErrNotExist) ||
		errors.Is(err, snapshot.ErrDamaged) {
		t.Errorf("what is not there is read with %v", err)
	}
}
