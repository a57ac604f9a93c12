package nodestate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// walRecords and walBytes bound how far into a log file diskMember looks. The
// metadata is the second record and has some 30 bytes.
const (
	walRecords = 4
	walBytes   = 4096
)

// diskMember returns the member and cluster id in the write-ahead log of the
// etcd data directory path. Every log file of etcd 2.0 to 3.7 begins with a
// checksum record and a metadata record, which holds them.
func diskMember(path string) (cluster.MemberID, cluster.ClusterID, error) {
	files, err := filepath.Glob(filepath.Join(path, "member", "wal", "*.wal"))
	if err != nil {
		return 0, 0, err
	}
	slices.Sort(files)
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
