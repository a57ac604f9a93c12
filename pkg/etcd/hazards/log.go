package hazards

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// The types of the log's records, and of its entries.
const (
	recordEntry    = 2
	recordState    = 3
	recordChecksum = 4
	recordSnapshot = 5

	entryNormal = 0
	entryChange = 1
)

// maxRecord bounds a record: etcd makes none that is larger than a request, whose
// size is bounded by a flag.
const maxRecord = 512 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errEnd is for a record that was never finished.
var errEnd = errors.New("it ends in the middle of a record")

// A log is what is in the write-ahead log from some entry on.
type log struct {
	// first and last are the indexes of its entries, commit the highest one that it
	// says is committed.
	first, last, commit uint64
	// snapshots are the indexes of the raft snapshots that it names.
	snapshots []uint64
	requests  []request
	changes   []change
	// tail are the entries that may change keys and are behind commit.
	tail []uint64
}

// readLog reads the files that have entries behind from.
func readLog(dir string, from uint64) (log, error) {
	files, err := filesOf(dir, ".wal")
	if err != nil {
		return log{}, err
	}
	if len(files) == 0 {
		return log{}, errors.New("there is none")
	}
	begin := 0
	for i, f := range files {
		_, text, _ := strings.Cut(strings.TrimSuffix(filepath.Base(f), ".wal"), "-")
		index, err := strconv.ParseUint(text, 16, 64)
		if err != nil {
			return log{}, fmt.Errorf("%s has no number in its name", filepath.Base(f))
		}
		if index <= from {
			begin = i
		}
	}
	var l log
	for i, f := range files[begin:] {
		if err := l.file(f, begin+i == len(files)-1); err != nil {
			return log{}, fmt.Errorf("%s: %w", filepath.Base(f), err)
		}
	}
	return l, nil
}

// file reads one file. The last one may end within a record.
func (l *log) file(path string, last bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	sum := uint32(0)
	var buffer []byte
	for at := int64(0); ; {
		record, size, err := next(r, &buffer)
		if errors.Is(err, io.EOF) || last && errors.Is(err, errEnd) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("at %d: %w", at, err)
		}
		kind, check, data, err := split(record)
		if err != nil {
			return fmt.Errorf("at %d: %w", at, err)
		}
		if kind == recordChecksum {
			sum = check
		} else if sum = crc32.Update(sum, castagnoli, data); sum != check {
			if last && torn(record, at) {
				return nil
			}
			return fmt.Errorf("at %d: the checksum is wrong", at)
		}
		if err := l.record(kind, data); err != nil {
			return fmt.Errorf("at %d: %w", at, err)
		}
		at += size
	}
}

// next reads a record. Before it stands its length in 8 bytes; the top bit of the
// highest one says that its low three bits count the bytes of padding behind. A
// length of zero is in what has been allocated and not been written.
func next(r io.Reader, buffer *[]byte) (record []byte, size int64, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errEnd
		}
		return nil, 0, err
	}
	word := binary.LittleEndian.Uint64(head[:])
	length, pad := word&(1<<56-1), uint64(0)
	if word>>63 == 1 {
		pad = word >> 56 & 7
	}
	switch {
	case word == 0:
		return nil, 0, io.EOF
	case length > maxRecord:
		return nil, 0, fmt.Errorf("a record has %d bytes", length)
	case uint64(cap(*buffer)) < length+pad:
		*buffer = make([]byte, length+pad)
	}
	b := (*buffer)[:length+pad]
	if _, err := io.ReadFull(r, b); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errEnd
		}
		return nil, 0, err
	}
	return b[:length], int64(8 + length + pad), nil
}

// torn says whether a record was cut off in the middle: a sector of the disk below
// it was never written. It is what etcd takes for such a record, too.
func torn(record []byte, at int64) bool {
	const sector = 512
	for begin := 0; begin < len(record); {
		end := min(begin+sector-int((at+8+int64(begin))%sector), len(record))
		if !bytes.ContainsFunc(record[begin:end], func(r rune) bool { return r != 0 }) {
			return true
		}
		begin = end
	}
	return false
}

// split takes a Record apart: 1 type, 2 checksum, 3 data.
func split(record []byte) (kind uint64, sum uint32, data []byte, err error) {
	err = each(record, func(f field) error {
		switch f.num {
		case 1:
			kind = f.number
		case 2:
			sum = uint32(f.number)
		case 3:
			data = f.bytes
		}
		return nil
	})
	return kind, sum, data, err
}

// record takes note of a record.
func (l *log) record(kind uint64, data []byte) error {
	switch kind {
	case recordEntry:
		return l.entry(data)
	case recordState: // 1 term, 2 vote, 3 committed index
		return each(data, func(f field) error {
			if f.num == 3 {
				l.commit = max(l.commit, f.number)
				l.tail = slices.DeleteFunc(l.tail, func(i uint64) bool { return i <= l.commit })
			}
			return nil
		})
	case recordSnapshot: // 1 index, 2 term
		index := uint64(0)
		err := each(data, func(f field) error {
			if f.num == 1 {
				index = f.number
			}
			return nil
		})
		l.snapshots = append(l.snapshots, index)
		// What came by the network is behind the entries, and takes their place.
		l.last = max(l.last, index)
		return err
	}
	return nil
}

// entry takes note of an Entry: 1 type, 3 index, 4 data. It takes the place of an
// earlier one of the same index, and of those behind.
func (l *log) entry(b []byte) error {
	var kind, index uint64
	var data []byte
	err := each(b, func(f field) error {
		switch f.num {
		case 1:
			kind = f.number
		case 3:
			index = f.number
		case 4:
			data = f.bytes
		}
		return nil
	})
	if err != nil {
		return err
	}
	if l.first == 0 {
		l.first = index
	}
	if index <= l.last {
		l.requests = slices.DeleteFunc(l.requests, func(r request) bool { return r.index >= index })
		l.changes = slices.DeleteFunc(l.changes, func(c change) bool { return c.index >= index })
		l.tail = slices.DeleteFunc(l.tail, func(i uint64) bool { return i >= index })
	}
	l.last = index
	switch {
	case len(data) == 0:
	case kind == entryNormal:
		r, ok := v2Request(data)
		if ok {
			r.index = index
			l.requests = append(l.requests, r)
		}
		if !ok || r.method != "SYNC" && r.method != "QGET" {
			l.tail = append(l.tail, index)
		}
	case kind == entryChange:
		c, err := readChange(data)
		if err != nil {
			return fmt.Errorf("the change of members at %d: %w", index, err)
		}
		c.index = index
		l.changes = append(l.changes, c)
	}
	return nil
}

// A field is one of a message of protocol buffers.
type field struct {
	num    protowire.Number
	typ    protowire.Type
	number uint64
	bytes  []byte
}

// each calls f with each field of a message.
func each(b []byte, f func(field) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		v := field{num: num, typ: typ}
		switch n = protowire.ConsumeFieldValue(num, typ, b); {
		case n < 0:
			return protowire.ParseError(n)
		case typ == protowire.VarintType:
			v.number, _ = protowire.ConsumeVarint(b)
		case typ == protowire.BytesType:
			v.bytes, _ = protowire.ConsumeBytes(b)
		}
		b = b[n:]
		if err := f(v); err != nil {
			return err
		}
	}
	return nil
}

// filesOf returns the files of a directory whose names end so, sorted.
func filesOf(dir, suffix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
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
