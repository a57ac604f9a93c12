package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

// bboltUnit divides the size of every bbolt file: etcd's tools determine by it
// whether a snapshot has a digest (etcdutl/snapshot, "size%512 == sha256.Size").
const bboltUnit = 512

// A content is a writer that sums up a snapshot, and checks etcd's digest at
// its end with the same pass of SHA-256: two would cost as much as compressing.
type content struct {
	sum  hash.Hash
	size int64
	// tail is the end of what was written, at most as long as a digest, and not
	// summed yet.
	tail []byte
}

func newContent() *content { return &content{sum: sha256.New()} }

// Write never fails.
func (c *content) Write(p []byte) (int, error) {
	c.size += int64(len(p))
	n := len(p)
	// What will not be in the tail any more is summed.
	if over := len(c.tail) + len(p) - sha256.Size; over > 0 {
		old := min(over, len(c.tail))
		c.sum.Write(c.tail[:old])
		c.sum.Write(p[:over-old])
		c.tail, p = append(c.tail[:0], c.tail[old:]...), p[over-old:]
	}
	c.tail = append(c.tail, p...)
	return n, nil
}

// finish reports whether all that was written is a whole snapshot, and returns
// its digest. Nothing can be written after it.
func (c *content) finish() (Digest, error) {
	if c.size <= sha256.Size || c.size%bboltUnit != sha256.Size {
		return Digest{}, damagedf("it has %d bytes, which is not the size of a database and a digest", c.size)
	}
	if !bytes.Equal(c.sum.Sum(nil), c.tail) {
		return Digest{}, damagedf("etcd's digest at its end is wrong")
	}
	c.sum.Write(c.tail)
	return Digest{c.size, hex.EncodeToString(c.sum.Sum(nil))}, nil
}
