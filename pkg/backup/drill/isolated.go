package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	bbolt "go.etcd.io/bbolt"

	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/isolate"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/keyspace"
)

// A question is what is asked of a file.
type question struct {
	Path string `json:"path"`
	// SkipDigest is for a file whose digest has been checked, Hash asks for that of
	// the keys too.
	SkipDigest bool `json:"skipDigest,omitempty"`
	Hash       bool `json:"hash,omitempty"`
}

// An expectation is what a file says.
type expectation struct {
	Sum  keyspace.Summary `json:"sum"`
	Hash keyspace.Hash    `json:"hash"`
}

// isolated is how files are read whose origin is not known: by a process of its own, which
// takes at most eight bytes for each byte of them. Of a database whose keys and values are as small as can
// be, the reader keeps about five.
var isolated = isolate.Options{
	Fault:  snapshot.ErrDamaged,
	Errors: []error{snapshot.ErrDamaged, os.ErrNotExist},
	Memory: isolate.PerByte(8),
}

// inspection reads a snapshot from its beginning to its end.
var inspection = isolate.Define("inspect-snapshot", isolated,
	func(ctx context.Context, q question, progress func(done, total int64)) (e expectation, err error) {
		s, err := keyspace.Open(ctx, q.Path, keyspace.Options{SkipDigest: q.SkipDigest, Progress: progress})
		if err != nil {
			return e, err
		}
		e.Sum = s.Summary()
		if q.Hash {
			e.Hash, err = s.Hash(ctx)
		}
		return e, errors.Join(err, s.Close())
	})

// inspect reads a snapshot in a process of its own.
func inspect(ctx context.Context, q question, progress func(done, total int64)) (expectation, error) {
	return inspection.Call(ctx, isolate.Input[question]{Value: q, Size: size(q.Path), Progress: progress})
}

// opening turns authentication off in a restored database, whose users this process does
// not know: etcd would answer nobody. bbolt maps the file, and panics or faults on what is
// not a database.
var opening = isolate.Define("open-database-to-all", isolated,
	func(_ context.Context, path string, _ func(done, total int64)) (struct{}, error) {
		return struct{}{}, authOff(path)
	})

// openToAll turns authentication off, in a process of its own.
func openToAll(ctx context.Context, path string) error {
	_, err := opening.Call(ctx, isolate.Input[string]{Value: path, Size: size(path)})
	return err
}

// size is that of a file, zero for one that cannot be checked: reading it shows why.
func size(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

func authOff(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoFreelistSync: true})
	if err != nil {
		return fmt.Errorf("open the restored database: %w", err)
	}
	enabled := []byte("authEnabled")
	on := false
	err = db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("auth"))
		on = b != nil && len(b.Get(enabled)) == 1 && b.Get(enabled)[0] == 1
		return nil
	})
	if err == nil && on {
		err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("auth")).Put(enabled, []byte{0}) })
	}
	return errors.Join(err, db.Close())
}
