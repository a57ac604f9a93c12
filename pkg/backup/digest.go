package backup

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
)

// ErrDamaged is returned when a snapshot is not what etcd sent: cut off, or
// altered.
var ErrDamaged = errors.New("snapshot is damaged")

// bboltUnit divides the size of every bbolt file: its pages are at least that
// large. etcd's own tools tell by it whether a snapshot has a digest
// (etcdutl/snapshot, "size%512 == sha256.Size").
const bboltUnit = 512

// A checker is a writer that checks a snapshot stream: the last 32 bytes must
// be the SHA-256 of all before them.
type checker struct {
	sum  hash.Hash
	size int64
	// tail is the end of what was written, which may be the digest and is not
	// summed yet.
	tail []byte
}

func newChecker() *checker { return &checker{sum: sha256.New()} }

// Write never fails.
func (c *checker) Write(p []byte) (int, error) {
	c.size += int64(len(p))
	if len(p) >= sha256.Size {
		c.sum.Write(c.tail)
		c.sum.Write(p[:len(p)-sha256.Size])
		c.tail = append(c.tail[:0], p[len(p)-sha256.Size:]...)
		return len(p), nil
	}
	c.tail = append(c.tail, p...)
	if over := len(c.tail) - sha256.Size; over > 0 {
		c.sum.Write(c.tail[:over])
		c.tail = append(c.tail[:0], c.tail[over:]...)
	}
	return len(p), nil
}

// check reports whether all that was written is a whole snapshot.
func (c *checker) check() error {
	if c.size <= sha256.Size || c.size%bboltUnit != sha256.Size {
		return fmt.Errorf("%w: it has %d bytes, which cannot be a database and a digest", ErrDamaged, c.size)
	}
	if !bytes.Equal(c.sum.Sum(nil), c.tail) {
		return fmt.Errorf("%w: its digest is wrong", ErrDamaged)
	}
	return nil
}
