package backup

import (
	"errors"
	"io"
)

// Between two stages lie this many pieces of this size.
const (
	pieces    = 4
	pieceSize = 256 << 10
)

// A piece is what was read, and why reading ended.
type piece struct {
	b   []byte
	err error
}

// pump reads r to its end in a goroutine and hands what it reads to use, piece
// by piece, so that both work at the same time. It returns the error of the
// reader, which is nil at its end, and that of use. When use fails, abort must
// make r fail or end. The goroutine has ended when pump returns.
func pump(r io.Reader, abort func(), use func([]byte) error) (readErr, useErr error) {
	free, full := make(chan []byte, pieces), make(chan piece, pieces)
	for range pieces {
		free <- make([]byte, pieceSize)
	}
	go func() {
		defer close(full)
		for b := range free {
			n, err := fill(r, b)
			full <- piece{b[:n], err}
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		// In this order: the goroutine may wait for either.
		close(free)
		for range full { //nolint:revive // what was read is of no use any more
		}
	}()
	for p := range full {
		if len(p.b) > 0 {
			if err := use(p.b); err != nil {
				abort()
				return nil, err
			}
		}
		if errors.Is(p.err, io.EOF) {
			return nil, nil
		}
		if p.err != nil {
			return p.err, nil
		}
		free <- p.b[:cap(p.b)]
	}
	return nil, nil
}

// fill reads until b is full or r has failed or ended. An io.ErrUnexpectedEOF
// is that of r.
func fill(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = r.Read(b[n:])
		n += m
	}
	return n, err
}
