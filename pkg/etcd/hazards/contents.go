package hazards

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// Contents are what the data directory of a stopped member says of itself. Nothing in it
// names the version of the etcd that wrote it; the cluster version is the minor version
// that all members had.
type Contents struct {
	// ClusterVersion is zero where nothing has it: the cluster was never healthy.
	ClusterVersion etcdversion.Version
	// Members is how many the cluster had.
	Members int
	// Database says whether there is a v3 store; Applied is the raft index it has reached.
	Database bool
	Applied  uint64
	// Snapshot is the index of the newest raft snapshot.
	Snapshot uint64
	// Uncommitted is how many entries that may change keys the log has of which nothing
	// says that they are committed.
	Uncommitted int
}

// Read returns what is in a data directory of any version of etcd from 2.0 on. The error is
// fs.ErrNotExist where there is none.
func Read(d datadir.Dir) (Contents, error) {
	if _, err := os.Stat(d.Log()); err != nil {
		return Contents{}, fmt.Errorf("look for a write-ahead log: %w", err)
	}
	snaps, err := listSnaps(d.Snap())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Contents{}, fmt.Errorf("list the raft snapshots: %w", err)
	}
	l, err := readLog(d.Log(), from(snaps))
	if err != nil {
		return Contents{}, fmt.Errorf("read the log: %w", err)
	}
	s, err := newest(snaps, l)
	if err != nil {
		return Contents{}, fmt.Errorf("read the raft snapshot: %w", err)
	}
	c := Contents{Snapshot: s.index}
	versions := []string{s.version}
	b, err := readBackend(d.Database())
	switch {
	case err == nil:
		c.Database, c.Applied = true, b.applied
		versions = append(versions, b.version)
	case !errors.Is(err, fs.ErrNotExist):
		return Contents{}, fmt.Errorf("read the database: %w", err)
	}
	for _, r := range l.requests {
		versions = append(versions, r.version)
	}
	for _, index := range l.tail {
		if index > max(s.index, c.Applied) {
			c.Uncommitted++
		}
	}
	for _, text := range versions {
		if v, err := etcdversion.Parse(text); err == nil && v.Compare(c.ClusterVersion) > 0 {
			c.ClusterVersion = v
		}
	}
	for _, change := range l.changes {
		if change.index > s.index {
			s.apply(change, math.MaxInt)
		}
	}
	c.Members = len(s.members)
	return c, nil
}

// V2Store returns the v2 store as the raft snapshot in a file has it, in JSON, with the
// raft index that it is of.
func V2Store(path string) (store []byte, index uint64, err error) {
	store, meta, err := splitSnap(path)
	if err == nil {
		err = each(meta, func(f field) error {
			if f.num == 2 && f.typ == protowire.VarintType {
				index = f.number
			}
			return nil
		})
	}
	return store, index, err
}
