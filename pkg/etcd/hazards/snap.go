package hazards

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// maxSnap bounds a file with a raft snapshot. Without content of the v2 store it
// has some kilobytes.
const maxSnap = 1 << 30

// A snapFile is a file with a raft snapshot: TERM-INDEX.snap, in hexadecimal.
type snapFile struct {
	path  string
	index uint64
}

// listSnaps returns the raft snapshots, the newest first.
func listSnaps(dir string) ([]snapFile, error) {
	files, err := filesOf(dir, ".snap")
	if err != nil {
		return nil, err
	}
	var list []snapFile
	for _, f := range files {
		_, text, ok := strings.Cut(strings.TrimSuffix(filepath.Base(f), ".snap"), "-")
		if index, err := strconv.ParseUint(text, 16, 64); ok && err == nil {
			list = append(list, snapFile{f, index})
		}
	}
	slices.SortStableFunc(list, func(a, b snapFile) int {
		if a.index > b.index {
			return -1
		}
		return 1
	})
	return list, nil
}

// A snapshot is a raft snapshot: what the v2 store was at an index.
type snapshot struct {
	index uint64
	state
	// keys are those that clients have written.
	keys []string
	// version is the cluster version that it has, empty for none.
	version string
}

// readSnap reads a file with a raft snapshot.
func readSnap(path string) (snapshot, error) {
	store, meta, err := splitSnap(path)
	if err != nil {
		return snapshot{}, err
	}
	s := snapshot{state: newState()}
	if err := errors.Join(s.metadata(meta), s.store(store)); err != nil {
		return snapshot{}, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return s, nil
}

// splitSnap reads a file: a message of 1 checksum, 2 data. The data is raft's
// Snapshot: 1 data, 2 metadata.
func splitSnap(path string) (store, meta []byte, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if info.Size() > maxSnap {
		return nil, nil, fmt.Errorf("%s has %d bytes", filepath.Base(path), info.Size())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	var sum, data field
	err = each(b, func(f field) error {
		switch f.num {
		case 1:
			sum = f
		case 2:
			data = f
		}
		return nil
	})
	if err == nil && crc32.Checksum(data.bytes, castagnoli) != uint32(sum.number) {
		err = errors.New("the checksum is wrong")
	}
	if err == nil {
		err = each(data.bytes, func(f field) error {
			switch f.num {
			case 1:
				store = f.bytes
			case 2:
				meta = f.bytes
			}
			return nil
		})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return store, meta, nil
}

// metadata reads 1 raft's list of members, 2 the index.
func (s *snapshot) metadata(b []byte) error {
	return each(b, func(f field) error {
		switch f.num {
		case 1:
			return each(f.bytes, s.conf)
		case 2:
			s.index = f.number
		}
		return nil
	})
}

// conf reads raft's list: 1 voters, 2 learners, packed or one by one.
func (s *snapshot) conf(f field) error {
	if f.num != 1 && f.num != 2 {
		return nil
	}
	ids := []uint64{f.number}
	if f.typ == protowire.BytesType {
		ids = nil
		for b := f.bytes; len(b) > 0; {
			id, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return protowire.ParseError(n)
			}
			ids, b = append(ids, id), b[n:]
		}
	}
	for _, id := range ids {
		s.raft[cluster.MemberID(id)] = f.num == 2
	}
	return nil
}

// A node is one of the v2 store, which is saved as JSON.
type node struct {
	Value      string
	ExpireTime time.Time
	Children   map[string]*node
}

// store reads the v2 store: etcd's own below /0, users and roles below /2, which
// are there though empty when there was authentication once, keys of clients below
// /1.
func (s *snapshot) store(b []byte) error {
	var v2 struct{ Root *node }
	if err := json.Unmarshal(b, &v2); err != nil {
		return fmt.Errorf("the v2 store: %w", err)
	}
	if v2.Root == nil {
		return errors.New("the v2 store has no root")
	}
	now := time.Now()
	for _, name := range slices.Sorted(maps.Keys(v2.Root.Children)) {
		top := v2.Root.Children[name]
		switch name {
		case "0":
			if err := s.own(top); err != nil {
				return err
			}
		case "2":
			for _, below := range slices.Sorted(maps.Keys(top.Children)) {
				s.custom("/2/"+below, top.Children[below], now)
			}
		default:
			s.custom("/"+name, top, now)
		}
	}
	return nil
}

// own reads what etcd keeps for itself.
func (s *snapshot) own(top *node) error {
	if n := top.Children["version"]; n != nil {
		s.version = n.Value
	}
	for _, dir := range []string{"members", "removed_members"} {
		n := top.Children[dir]
		if n == nil {
			continue
		}
		for text, entry := range n.Children {
			id, err := cluster.ParseMemberID(text)
			if err != nil {
				return err
			}
			if dir == "removed_members" {
				s.removed[id] = true
				continue
			}
			var m member
			for _, part := range []string{"raftAttributes", "attributes"} {
				if n := entry.Children[part]; n == nil {
					continue
				} else if err := json.Unmarshal([]byte(n.Value), &m); err != nil {
					return fmt.Errorf("%s of member %s: %w", part, id, err)
				}
			}
			if entry.Children["raftAttributes"] != nil {
				s.members[id] = m
			}
		}
	}
	return nil
}

// custom takes note of what is below a directory.
func (s *snapshot) custom(path string, dir *node, now time.Time) {
	for _, name := range slices.Sorted(maps.Keys(dir.Children)) {
		n := dir.Children[name]
		if !n.ExpireTime.IsZero() && n.ExpireTime.Before(now) {
			continue
		}
		s.keys = append(s.keys, path+"/"+name)
		s.custom(path+"/"+name, n, now)
	}
}
