package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync/atomic"
	"time"
)

// errAbandoned ends the feeding of an upload that no longer reads.
var errAbandoned = errors.New("upload has ended")

// upload streams a snapshot into an object, and reports false if the key is
// taken. It returns after the goroutine that reads the snapshot has ended.
func (t *taking) upload(ctx context.Context, key string) (bool, error) {
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, w := io.Pipe()
	fed := make(chan error, 1)
	go func() {
		err := t.feed(reading, cancel, w)
		// In this order, so that an upload that ends by err finds err in fed.
		fed <- err
		w.CloseWithError(err)
	}()
	made, err := t.Store.Upload(ctx, key, r)
	var feedErr error
	select {
	case feedErr = <-fed:
	default:
		// What feed says now is our own doing.
		r.CloseWithError(errAbandoned)
		cancel(errAbandoned)
		feedErr = errors.Join(errAbandoned, <-fed)
	}
	if feedErr == nil {
		return made, err
	}
	abandoned := errors.Is(feedErr, errAbandoned)
	if made {
		// The target stored what it was asked not to.
		if err := t.remove(ctx, dataFile(t.Compression, t.encryption())); err != nil {
			feedErr = fmt.Errorf("%w (and its stored part could not be removed: %w)", feedErr, err)
		}
		return false, feedErr
	}
	if abandoned {
		return false, err
	}
	return false, feedErr
}

// feed writes a checked, compressed and encrypted snapshot to w.
func (t *taking) feed(ctx context.Context, cancel context.CancelCauseFunc, w io.Writer) error {
	stream, err := t.Source.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read snapshot: %w", cause(ctx, err))
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	out := &tap{w: w}
	object := newSum(out)
	pack, err := newPacker(t.Compression, t.Recipients, object)
	if err != nil {
		return err
	}
	content := newContent()
	watched := &watch{r: stream, limit: t.Stall, unreachable: func() {
		cancel(fmt.Errorf("etcd sent nothing for %s", t.Stall))
	}}
	readErr, useErr := pump(watched, func() { cancel(errAbandoned) }, func(b []byte) error {
		// Never fails.
		_, _ = content.Write(b)
		if t.Progress != nil {
			t.Progress(content.size)
		}
		_, err := pack.Write(b)
		return err
	})
	if readErr == nil && useErr == nil {
		t.content, readErr = content.finish()
	}
	// Closing ends the goroutines of the compressor, and must not give an object
	// that is not whole a right end.
	out.broken.Store(readErr != nil || useErr != nil)
	closeErr := pack.Close()
	switch {
	case readErr != nil:
		return fmt.Errorf("read snapshot: %w", cause(ctx, readErr))
	case useErr != nil:
		return useErr
	}
	t.object = object.digest()
	return closeErr
}

// cause returns why ctx has ended, if it has, in place of what that did.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// A watch is a reader whose Reads may each take limit at most, which is
// without limit if it is zero.
type watch struct {
	r           io.Reader
	limit       time.Duration
	unreachable func()
}

func (w *watch) Read(p []byte) (int, error) {
	if w.limit > 0 {
		defer time.AfterFunc(w.limit, w.unreachable).Stop()
	}
	return w.r.Read(p)
}

// A sum is a writer that sums up what goes through it.
type sum struct {
	w    io.Writer
	hash hash.Hash
	size int64
}

func newSum(w io.Writer) *sum { return &sum{w: w, hash: sha256.New()} }

func (s *sum) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.hash.Write(p[:n])
	s.size += int64(n)
	return n, err
}

func (s *sum) digest() Digest { return Digest{s.size, hex.EncodeToString(s.hash.Sum(nil))} }

// A packer compresses and maybe encrypts.
type packer struct {
	zip io.WriteCloser
	// crypt is nil without encryption.
	crypt io.WriteCloser
}

func newPacker(compression string, recipients []Recipient, w io.Writer) (*packer, error) {
	p := &packer{}
	if len(recipients) > 0 {
		var err error
		if p.crypt, err = encrypt(w, recipients); err != nil {
			return nil, err
		}
		w = p.crypt
	}
	var err error
	p.zip, err = compressor(compression, w)
	return p, err
}

func (p *packer) Write(b []byte) (int, error) { return p.zip.Write(b) }

// Close writes what is left.
func (p *packer) Close() error {
	err := p.zip.Close()
	if p.crypt != nil && err == nil {
		err = p.crypt.Close()
	}
	return err
}

// A tap is a writer that can be broken.
type tap struct {
	w      io.Writer
	broken atomic.Bool
}

func (t *tap) Write(p []byte) (int, error) {
	if t.broken.Load() {
		return 0, errAbandoned
	}
	return t.w.Write(p)
}
