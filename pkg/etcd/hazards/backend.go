package hazards

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/internal/pages"
)

// A backend is what is of interest here in the database.
type backend struct {
	// applied is the raft index that it has reached.
	applied uint64
	members map[cluster.MemberID]member
	// version is the cluster version, empty where it does not say.
	version string
}

// rereads is how often the few pages are read at most. Under writes a transaction ends each
// 100 ms, and on a busy machine the reader may be kept waiting for as long, more than once.
const rereads = 20

// readBackend reads a few pages of the database of a member, which may run.
//
// It takes no lock: a transaction of bbolt writes to pages that are free only, and
// those of the one before are not free until it has ended. So what was read is
// what one transaction has written if that one is still the newest afterwards.
func readBackend(path string) (backend, error) { return readPages(path, read) }

// readPages has read called with one transaction.
func readPages[T any](path string, read func(*pages.File) (T, error)) (b T, err error) {
	// Not blocking, should it be a pipe.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return b, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return b, errors.Join(err, fmt.Errorf("%s is not a regular file", path))
	}
	for range rereads - 1 {
		b, same, err := readOnce(f, read)
		if same {
			return b, err
		}
	}
	b, same, err := readOnce(f, read)
	if err == nil && !same {
		err = errors.New("it changed while it was read")
	}
	return b, err
}

// readOnce reads the database, and says whether it stayed the same meanwhile.
func readOnce[T any](f *os.File, read func(*pages.File) (T, error)) (b T, same bool, err error) {
	db, err := open(f)
	if err != nil {
		return b, false, err
	}
	b, err = read(db)
	again, err2 := open(f)
	return b, err2 == nil && again.Transaction() == db.Transaction(), err
}

func open(f *os.File) (*pages.File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return pages.Open(f, info.Size())
}

func read(db *pages.File) (backend, error) {
	b := backend{members: map[cluster.MemberID]member{}}
	walk := db.Walk()
	for name, visit := range map[string]func(pages.Item) error{"meta": b.meta, "members": b.member} {
		bucket, ok := db.Bucket(name)
		if !ok {
			return b, fmt.Errorf("it has no bucket %s", name)
		}
		if err := walk.Bucket(bucket, visit); err != nil {
			return b, err
		}
	}
	if bucket, ok := db.Bucket("cluster"); ok {
		return b, walk.Bucket(bucket, func(i pages.Item) error {
			if string(i.Key) == "clusterVersion" {
				b.version = string(i.Value)
			}
			return nil
		})
	}
	return b, nil
}

func (b *backend) meta(i pages.Item) error {
	if string(i.Key) == "consistent_index" && len(i.Value) == 8 {
		b.applied = binary.BigEndian.Uint64(i.Value)
	}
	return nil
}

func (b *backend) member(i pages.Item) error {
	id, err := cluster.ParseMemberID(string(i.Key))
	if err != nil {
		return err
	}
	var m member
	if err := json.Unmarshal(i.Value, &m); err != nil {
		return fmt.Errorf("member %s: %w", id, err)
	}
	b.members[id] = m
	return nil
}
