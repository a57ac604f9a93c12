package hazards

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/internal/pages"
)

// DataVersion returns the version that a member's database says the data is of, zero
// where it does not say, or where there is none: an etcd of an earlier minor version must
// not be started on it. It is the cluster version, and, while etcd prepares a downgrade,
// the version of the storage format, which is the later one then. It reads a few pages,
// also of a member that runs.
//
// A restore leaves the cluster version of the snapshot in the database. It says nothing
// about the data before an etcd has run on it, and is left out until then.
func DataVersion(d datadir.Dir) (etcdversion.Version, error) {
	v, err := readPages(d.Database(), readVersions)
	if errors.Is(err, fs.ErrNotExist) {
		return etcdversion.Version{}, nil
	}
	if err != nil {
		return etcdversion.Version{}, fmt.Errorf("read the version of the data: %w", err)
	}
	if justRestored(d, v.applied) {
		return etcdversion.Version{}, nil
	}
	return v.data(), nil
}

// versions is what a database says of its version.
type versions struct {
	cluster, storage etcdversion.Version
	// applied is the raft index that it has reached.
	applied uint64
	// downgrade says that etcd has been asked to prepare the data for an earlier version.
	downgrade bool
}

// data is the later one of both, where both count. 3.4 and 3.5 know no version of the
// storage format: on data that they run it is left over from the snapshot that it was
// restored from.
func (v versions) data() etcdversion.Version {
	if v.cluster.IsZero() || v.downgrade && v.storage.Compare(v.cluster) > 0 {
		return v.storage
	}
	return v.cluster
}

func readVersions(db *pages.File) (v versions, err error) {
	walk := db.Walk()
	for _, name := range []string{"meta", "cluster"} {
		if b, ok := db.Bucket(name); ok && err == nil {
			err = walk.Bucket(b, v.add)
		}
	}
	return v, err
}

// add takes an item of either bucket. What is no version is none.
func (v *versions) add(i pages.Item) error {
	switch string(i.Key) {
	case "clusterVersion":
		v.cluster, _ = etcdversion.Parse(string(i.Value))
	case "storageVersion":
		v.storage, _ = etcdversion.Parse(string(i.Value))
	case "consistent_index":
		if len(i.Value) == 8 {
			v.applied = binary.BigEndian.Uint64(i.Value)
		}
	case "downgrade":
		var d struct{ Enabled bool }
		v.downgrade = json.Unmarshal(i.Value, &d) == nil && d.Enabled
	}
	return nil
}

// justRestored reports whether nothing has been applied to the data since a tool has restored
// it: the raft snapshot that the tool writes is of the first term, in which etcd itself
// only adds the members of a new cluster.
func justRestored(d datadir.Dir, applied uint64) bool {
	snaps, err := listSnaps(d.Snap())
	if err != nil || len(snaps) == 0 || applied > snaps[0].index {
		return false
	}
	text, _, _ := strings.Cut(filepath.Base(snaps[0].path), "-")
	term, err := strconv.ParseUint(text, 16, 64)
	return err == nil && term == 1
}
