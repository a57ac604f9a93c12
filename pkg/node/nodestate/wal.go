package nodestate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
)

// walRecords and walBytes bound how far into a log file DiskMember looks. The
// metadata is the second record and has some 30 bytes.
const (
	walRecords = 4
	walBytes   = 4096
)

// DiskMember returns the member and cluster id in the write-ahead log of the
// etcd data directory path. Every log file of etcd 2.0 to 3.7 begins with a
// checksum record and a metadata record, which holds them.
func DiskMember(path string) (cluster.MemberID, cluster.ClusterID, error) {
	files, err := filesOf(datadir.At(path).Log(), ".wal")
	if err != nil {
		return 0, 0, err
	}
	err = errors.New("no log file")
	for _, f := range slices.Backward(files) {
		var member cluster.MemberID
		var id cluster.ClusterID
		if member, id, err = walMember(f); err == nil {
			return member, id, nil
		}
	}
	return 0, 0, fmt.Errorf("member id in %s: %w", path, err)
}

func walMember(file string) (cluster.MemberID, cluster.ClusterID, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, walBytes))
	if err != nil {
		return 0, 0, err
	}
	for range walRecords {
		var record []byte
		if record, b, err = walRecord(b); err != nil {
			return 0, 0, err
		}
		// Record: 1 type, 2 checksum, 3 data. Type 1 is metadata, whose data is
		// the message Metadata: 1 node id, 2 cluster id.
		kind, data, err := numberAndBytes(record, 1, 3)
		if err != nil {
			return 0, 0, err
		}
		if kind != 1 {
			continue
		}
		var member, id uint64
		err = eachField(data, func(f field) error {
			v, _ := protowire.ConsumeVarint(f.value)
			switch f.num {
			case 1:
				member = v
			case 2:
				id = v
			}
			return nil
		})
		if err == nil && member == 0 {
			err = errors.New("its metadata has no member id")
		}
		return cluster.MemberID(member), cluster.ClusterID(id), err
	}
	return 0, 0, fmt.Errorf("no metadata in the first %d records", walRecords)
}

// walRecord cuts the first record off b. Before it stands its length in 8
// bytes; the top bit of the highest byte says that the byte's low three bits
// count the bytes of padding after it.
func walRecord(b []byte) (record, rest []byte, err error) {
	if len(b) < 8 {
		return nil, nil, io.ErrUnexpectedEOF
	}
	head := binary.LittleEndian.Uint64(b)
	size, pad := head&(1<<56-1), uint64(0)
	if head>>63 == 1 {
		pad = head >> 56 & 7
	}
	b = b[8:]
	if size == 0 || size+pad > uint64(len(b)) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	return b[:size], b[size+pad:], nil
}

// numberAndBytes returns two fields of a message, zero where they are missing.
func numberAndBytes(b []byte, number, bytes protowire.Number) (n uint64, v []byte, err error) {
	err = eachField(b, func(f field) error {
		switch {
		case f.num == number && f.typ == protowire.VarintType:
			n, _ = protowire.ConsumeVarint(f.value)
		case f.num == bytes && f.typ == protowire.BytesType:
			v, _ = protowire.ConsumeBytes(f.value)
		}
		return nil
	})
	return n, v, err
}

// Begun says whether the member whose etcd data directory is path has committed
// anything. One that was cut off in its first start has a log without the entries
// that bootstrap its cluster: it never elects a leader, and nothing is lost with it.
func Begun(path string) (bool, error) {
	taken, err := lastSnapshot(path)
	if err != nil || taken > 0 {
		return taken > 0, err
	}
	begun, read := false, 0
	err = eachRecord(path, firstBytes, func(kind uint64, data []byte) bool {
		begun = kind == 3 && acted(data)
		read += len(data)
		return !begun
	})
	return begun || read > firstBytes/2, err
}

// acted checks raft's HardState: 1 term, 2 vote, 3 committed index. Of an etcd
// that has done nothing yet there is none, or one of the first term.
func acted(state []byte) bool {
	term, _, err1 := numberAndBytes(state, 1, 0)
	vote, _, err2 := numberAndBytes(state, 2, 0)
	committed, _, err3 := numberAndBytes(state, 3, 0)
	return errors.Join(err1, err2, err3) != nil || term > 1 || vote != 0 || committed > 0
}

// DropUncommitted removes the data of an incarnation whose member has not [Begun].
func DropUncommitted(dir string, token cluster.Token) error {
	path := DataDir(dir, token)
	begun, err := Begun(path)
	if err != nil || begun {
		return err
	}
	if err := os.RemoveAll(datadir.At(path).Member()); err != nil {
		return fmt.Errorf("remove the data of a start that was cut off: %w", err)
	}
	return nil
}

// firstBytes is how far into a log Begun looks: an etcd commits its bootstrap
// within some hundred bytes.
const firstBytes = 256 << 10

// eachRecord calls f with the type and the data of each record in the first
// bytes of each file of the write-ahead log, in order, until it returns false.
func eachRecord(path string, limit int64, f func(kind uint64, data []byte) bool) error {
	files, err := filesOf(datadir.At(path).Log(), ".wal")
	if err != nil {
		return err
	}
	for _, file := range files {
		b, err := readFirst(file, limit)
		if err != nil {
			return err
		}
		for {
			var record []byte
			// The last file is longer than what has been written to it.
			if record, b, err = walRecord(b); err != nil {
				break
			}
			if kind, data, err := numberAndBytes(record, 1, 3); err == nil && !f(kind, data) {
				return nil
			}
		}
	}
	return nil
}

// filesOf returns the files of a directory whose names end so, sorted. A directory
// that is not there has none.
func filesOf(dir, suffix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

func readFirst(file string, limit int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// lastSnapshot returns the index of the newest raft snapshot, which is in its
// name: TERM-INDEX.snap, in hexadecimal.
func lastSnapshot(path string) (uint64, error) {
	files, err := filesOf(datadir.At(path).Snap(), ".snap")
	newest := uint64(0)
	for _, f := range files {
		_, index, _ := strings.Cut(strings.TrimSuffix(filepath.Base(f), ".snap"), "-")
		if n, err := strconv.ParseUint(index, 16, 64); err == nil {
			newest = max(newest, n)
		}
	}
	return newest, err
}
