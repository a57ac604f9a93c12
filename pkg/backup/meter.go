package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync/atomic"
)

// A meter is a reader that sums up what goes through it, and remembers why it
// failed: whatever else goes wrong above it is the fault of the data.
type meter struct {
	r    io.Reader
	hash hash.Hash
	// size may be read while another goroutine reads from the meter.
	size atomic.Int64
	// limit is how large an object may be; zero is unknown.
	limit  int64
	failed error
}

func newMeter(r io.Reader) *meter { return &meter{r: r, hash: sha256.New()} }

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.hash.Write(p[:n])
	if size := m.size.Add(int64(n)); m.limit > 0 && size > m.limit {
		err = damagedf("its object has more than the %d bytes that its description says", m.limit)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		m.failed = err
	}
	return n, err
}

func (m *meter) digest() Digest {
	return Digest{m.size.Load(), hex.EncodeToString(m.hash.Sum(nil))}
}

// explain returns what an error of a reader above the meter means. The readers
// have ended.
func (m *meter) explain(err error) error {
	switch {
	case m.failed != nil:
		return fmt.Errorf("read it: %w", m.failed)
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrKey):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return damagedf("it is truncated")
	}
	return damagedf("%v", err)
}
