package nodestate

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// frame writes a record of this type and data as etcd's log does.
func frame(kind uint64, data []byte) []byte {
	record := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), kind)
	record = protowire.AppendVarint(protowire.AppendTag(record, 2, protowire.VarintType), 0)
	if data != nil {
		record = appendBytes(record, 3, data)
	}
	head := uint64(len(record))
	pad := (8 - len(record)%8) % 8
	if pad > 0 {
		head |= (0x80 | uint64(pad)) << 56
	}
	b := binary.LittleEndian.AppendUint64(nil, head)
	return append(append(b, record...), make([]byte, pad)...)
}

func metadata(member, id uint64) []byte {
	b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), member)
	return protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), id)
}

func TestMemberIDInTheLog(t *testing.T) {
	crc := slices.Clip(frame(4, nil)) // each append copies
	for name, c := range map[string]struct {
		content []byte
		want    cluster.MemberID
	}{
		"as etcd writes it": {append(append(crc, frame(1, metadata(0xfedcba9876543210, 7))...), make([]byte, 100)...),
			0xfedcba9876543210},
		"metadata first":     {frame(1, metadata(5, 7)), 5},
		"no member id":       {append(crc, frame(1, metadata(0, 7))...), 0},
		"no metadata":        {append(append(append(append(crc, crc...), crc...), crc...), frame(1, metadata(5, 7))...), 0},
		"empty":              {nil, 0},
		"only zeros":         {make([]byte, 1000), 0},
		"cut in the head":    {crc[:5], 0},
		"cut in the record":  {append(crc, frame(1, metadata(5, 7))[:10]...), 0},
		"length of garbage":  {[]byte("garbage garbage garbage"), 0},
		"record of garbage":  {append([]byte{3, 0, 0, 0, 0, 0, 0, 0}, 0xff, 0xff, 0xff), 0},
		"metadata a garbage": {append(crc, frame(1, []byte{0xff})...), 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, filepath.Join(dir, "member", "wal", "0.wal"), string(c.content))
			got, id, err := DiskMember(dir)
			if got != c.want || (err == nil) != (c.want != 0) || c.want != 0 && id != 7 {
				t.Fatalf("got member %s of cluster %s, %v, want %s", got, id, err, c.want)
			}
		})
	}
}

func TestMemberIDFromAnOlderLogFile(t *testing.T) {
	dir := t.TempDir()
	wal := filepath.Join(dir, "member", "wal")
	put(t, filepath.Join(wal, "1.wal"), string(frame(1, metadata(5, 7))))
	put(t, filepath.Join(wal, "2.wal"), "")
	if err := os.Mkdir(filepath.Join(wal, "3.wal"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, _, err := DiskMember(dir); got != 5 || err != nil {
		t.Fatalf("got %s, %v", got, err)
	}
}

// A log that cannot be read is not one that says nothing.
func TestLogsInOddPlaces(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "disk[1]*")
	bootstrapped := []byte{8, 0, 0, 0, 0, 0, 0, 0, 8, 3, 16, 0, 26, 2, 24, 1}
	lay(t, dir, "member/wal/0.wal")
	if err := os.WriteFile(filepath.Join(dir, "member", "wal", "0.wal"), bootstrapped, 0o600); err != nil {
		t.Fatal(err)
	}
	if begun, err := Begun(dir); !begun || err != nil {
		t.Errorf("%v, %v", begun, err)
	}
	if disk := Disk(dir, State{}); disk.State != cluster.DiskUnreadable {
		t.Errorf("data that no daemon has started is %+v", disk)
	}
	for _, state := range [][]byte{{8, 2}, {16, 7}, {24, 1}} {
		if !acted(state) {
			t.Errorf("%v is the state of an etcd that has done nothing", state)
		}
	}
	if acted([]byte{8, 1, 16, 0}) {
		t.Error("the first term alone counts")
	}
	other := t.TempDir()
	lay(t, other, "member/wal")
	if begun, err := Begun(other); begun || err == nil {
		t.Errorf("a file in place of the logs: %v, %v", begun, err)
	}
}
