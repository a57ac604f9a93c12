package snapshot

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"

	"github.com/etcdadm/etcdadm/pkg/etcd/internal/pages"
)

// ErrDamaged is returned when a snapshot is not what etcd sent: cut off, or
// altered.
var ErrDamaged = pages.ErrDamaged

// bboltUnit divides the size of every bbolt file: its pages are at least that
// large. etcd's own tools determine by it whether a snapshot has a digest
// (etcdutl/snapshot, "size%512 == sha256.Size").
const bboltUnit = 512

// A Digest is a writer that checks a snapshot stream: the last 32 bytes must
// be the SHA-256 of all before them. It remembers no more than those.
type Digest struct {
	sum  hash.Hash
	size int64
	// tail is the end of what was written, which may be the digest and is not
	// summed yet.
	tail []byte
}

// NewDigest returns the Digest of an empty stream.
func NewDigest() *Digest { return &Digest{sum: sha256.New()} }

// Size returns how many bytes were written.
func (d *Digest) Size() int64 { return d.size }

// Write never fails.
func (d *Digest) Write(p []byte) (int, error) {
	d.size += int64(len(p))
	if len(p) >= sha256.Size {
		d.sum.Write(d.tail)
		d.sum.Write(p[:len(p)-sha256.Size])
		d.tail = append(d.tail[:0], p[len(p)-sha256.Size:]...)
		return len(p), nil
	}
	d.tail = append(d.tail, p...)
	if over := len(d.tail) - sha256.Size; over > 0 {
		d.sum.Write(d.tail[:over])
		d.tail = append(d.tail[:0], d.tail[over:]...)
	}
	return len(p), nil
}

// Check reports whether all that was written is a whole snapshot.
func (d *Digest) Check() error {
	if d.size <= sha256.Size || d.size%bboltUnit != sha256.Size {
		return fmt.Errorf("%w: it has %d bytes, which is not the size of a database and a digest", ErrDamaged, d.size)
	}
	if !bytes.Equal(d.sum.Sum(nil), d.tail) {
		return fmt.Errorf("%w: its digest is wrong", ErrDamaged)
	}
	return nil
}
