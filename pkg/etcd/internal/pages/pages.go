// Package pages reads the files of bbolt, and trusts nothing in them.
//
// bbolt itself trusts its files: it panics, reads beyond the end, or walks in
// circles where one is not what it should be. Here each page is read once,
// each byte is looked for within the file and within its page, and no two
// elements are the same bytes. So a walk ends, in a time that the size of the
// file bounds, with the content or with [ErrDamaged]. Nothing is mapped into
// memory: a file that is cut off while it is read gives an error.
package pages

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// ErrDamaged is returned for a file that bbolt has not written so.
var ErrDamaged = errors.New("snapshot is damaged")

// damaged returns ErrDamaged with what is wrong.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// The layout of bbolt's pages (internal/common/page.go and meta.go), which is
// that of the machine which wrote them: a header of id uint64, flags and count
// uint16, overflow uint32, and behind it elements of 16 bytes. An element of a
// branch page is position and key size uint32, and the id of a page below. One
// of a leaf page is flags, position, key size and value size, each uint32. A
// position counts from the element's own beginning.
const (
	headerSize  = 16
	elementSize = 16
	branchFlag  = 0x01
	leafFlag    = 0x02
	metaFlag    = 0x04
	// bucketFlag is an element's: its value is a bucket.
	bucketFlag = 0x01
	// bucketSize is that of a bucket's root and sequence number.
	bucketSize = 16
)

// A meta page has behind its header: magic, version, page size and flags
// uint32; the root bucket; and freelist, pages, transaction and checksum
// uint64.
const (
	magic        = 0xED0CDAED
	version      = 2
	rootAt       = headerSize + 16
	pagesAt      = headerSize + 40
	txAt         = headerSize + 48
	checksumAt   = headerSize + 56
	metaSize     = headerSize + 64
	minPageSize  = 1 << 9
	maxPageSize  = 1 << 24
	noBucketRoot = 0
)

const (
	// maxExtent is how large a page may be with its overflow: larger than what
	// etcd can be made to take in one request.
	maxExtent = 512 << 20
	// maxBranch bounds a page of the inner tree; bbolt splits those at the size
	// of one page.
	maxBranch = 1 << 20
	// maxDepth is that of a tree with more pages than a disk can have.
	maxDepth = 40
)

// A File is an open database.
type File struct {
	r     io.ReaderAt
	size  int64
	order binary.ByteOrder
	// pageSize is in bytes, count in pages, of which those behind are not in use.
	pageSize int64
	count    uint64
	tx       uint64
	root     uint64
	// names are the pages of the tree that has the buckets' names.
	names   seen
	buckets []Bucket
}

// A Bucket is a tree of keys and values.
type Bucket struct {
	Name string
	// root is a page, or zero for a bucket within the page of its name, which is
	// then inline.
	root   uint64
	inline []byte
	at     int64
}

// Open reads the beginning of a database of a size, and the names of its
// buckets.
func Open(r io.ReaderAt, size int64) (*File, error) {
	f := &File{r: r, size: size, names: seen{}}
	if err := f.meta(); err != nil {
		return nil, err
	}
	if uint64(size/f.pageSize) < f.count {
		return nil, damaged("it is truncated: it has %d bytes, but its header says %d", size, int64(f.count)*f.pageSize)
	}
	w := &Walk{f: f, seen: f.names}
	err := w.tree(f.root, func(i Item) error {
		if !i.bucket {
			return damaged("it has the value %q among its buckets", i.Key)
		}
		return f.named(i)
	})
	return f, err
}

// named adds a bucket.
func (f *File) named(i Item) error {
	if len(i.Value) < bucketSize {
		return damaged("the bucket %q has %d bytes", i.Key, len(i.Value))
	}
	b := Bucket{Name: string(i.Key), root: f.order.Uint64(i.Value)}
	if b.root == noBucketRoot {
		b.inline, b.at = append([]byte(nil), i.Value[bucketSize:]...), i.At+bucketSize
	}
	f.buckets = append(f.buckets, b)
	return nil
}

// Buckets are all buckets by name.
func (f *File) Buckets() []Bucket { return f.buckets }

// Bucket returns the bucket of a name; ok is false if there is none.
func (f *File) Bucket(name string) (b Bucket, ok bool) {
	for _, b := range f.buckets {
		if b.Name == name {
			return b, true
		}
	}
	return Bucket{}, false
}

// Transaction is the number of the last one that is in the file.
func (f *File) Transaction() uint64 { return f.tx }

// Used is how many bytes of the file are the database.
func (f *File) Used() int64 { return int64(f.count) * f.pageSize }

// ReadAt reads from the file, as a part that an [Item] named.
func (f *File) ReadAt(b []byte, at int64) error {
	n, err := f.r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if errors.Is(err, io.EOF) || err == nil {
		return damaged("it is truncated at %d bytes", at+int64(n))
	}
	return err
}

// meta chooses the newer one of the two metas that is whole. The second is on
// the second page, whose place is not known where the first one is damaged.
func (f *File) meta() error {
	var reason error
	best := uint64(0)
	try := func(at int64) bool {
		m, err := f.readMeta(at)
		switch {
		case err != nil:
			if reason == nil {
				reason = err
			}
			return false
		case f.order != nil && m.tx <= best:
			return true
		}
		f.order, f.pageSize, f.count, f.root, f.tx = m.order, m.pageSize, m.count, m.root, m.tx
		best = m.tx
		return true
	}
	if try(0) {
		try(f.pageSize)
	} else {
		for size := int64(minPageSize); size <= maxPageSize && !try(size); size *= 2 {
		}
	}
	if f.order == nil {
		return reason
	}
	return nil
}

type meta struct {
	order           binary.ByteOrder
	pageSize        int64
	count, root, tx uint64
}

func (f *File) readMeta(at int64) (meta, error) {
	var b [metaSize]byte
	if err := f.ReadAt(b[:], at); err != nil {
		return meta{}, err
	}
	m := meta{order: binary.LittleEndian}
	if m.order.Uint32(b[headerSize:]) != magic {
		m.order = binary.BigEndian
	}
	if m.order.Uint32(b[headerSize:]) != magic || m.order.Uint32(b[headerSize+4:]) != version {
		return meta{}, damaged("its first page is invalid: it is not a database of bbolt")
	}
	sum := fnv.New64a()
	// Never fails.
	_, _ = sum.Write(b[headerSize:checksumAt])
	if sum.Sum64() != m.order.Uint64(b[checksumAt:]) || m.order.Uint16(b[8:])&metaFlag == 0 {
		return meta{}, damaged("its first page is invalid: the checksum is wrong")
	}
	m.pageSize = int64(m.order.Uint32(b[headerSize+8:]))
	if m.pageSize < minPageSize || m.pageSize > maxPageSize || m.pageSize&(m.pageSize-1) != 0 {
		return meta{}, damaged("its pages have %d bytes", m.pageSize)
	}
	m.root, m.count, m.tx = m.order.Uint64(b[rootAt:]), m.order.Uint64(b[pagesAt:]), m.order.Uint64(b[txAt:])
	return m, nil
}
