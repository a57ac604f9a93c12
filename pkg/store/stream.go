package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"
)

// Upload stores what r holds until its end, only if the key is free, and
// reports whether it did. If r fails, or ctx ends, nothing is stored; the error
// of r is then in the error returned. Upload does not close r. When ctx ends
// first, a last Read of r may still be under way.
//
// The only deadline is ctx's: a snapshot may take hours. When ctx is cancelled,
// Upload waits a few seconds for what was sent so far to be removed, so that
// a program that ends does not leave it in the store.
func (s *Store) Upload(ctx context.Context, key string, r io.Reader) (bool, error) {
	if err := checkKey(key); err != nil {
		return false, err
	}
	over := make(chan struct{})
	_, err := call(ctx, nil, s.streams, func() (struct{}, error) {
		defer close(over)
		return struct{}{}, s.objects.write(ctx, key, source{ctx, r}, condition{absent: true, size: -1})
	})
	if errors.Is(ctx.Err(), context.Canceled) && err != nil {
		grace := time.NewTimer(cleanupTime)
		defer grace.Stop()
		select {
		case <-over:
		case <-grace.C:
		}
	}
	return written(key, err)
}

// cleanupTime is how long a cancelled upload waits for its end.
const cleanupTime = 5 * time.Second

// A source marks the errors of a reader as its own, and ends with its context.
type source struct {
	ctx context.Context
	r   io.Reader
}

func (s source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		err = sourceError{err}
	}
	return n, err
}

// bytesReader hides the WriterTo of bytes.Reader: io.Copy would hand a whole
// object over in one call, and never check the context.
func bytesReader(b []byte) io.Reader { return struct{ io.Reader }{bytes.NewReader(b)} }

// Open returns an object's content as a stream, ErrAbsent when there is none.
// Reads end with ctx, whose deadline is the only one. The caller must close it.
func (s *Store) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	opened := make(chan error, 1)
	select {
	case s.streams <- struct{}{}:
	case <-ctx.Done():
		cancel()
		return nil, classify("open", key, ctx.Err())
	}
	go func() {
		defer func() { <-s.streams }()
		content, _, err := s.objects.open(ctx, key)
		opened <- err
		if err != nil {
			return
		}
		_, err = io.Copy(w, content)
		if cerr := content.Close(); err == nil {
			err = cerr
		}
		w.CloseWithError(classify("read", key, err))
	}()
	select {
	case err := <-opened:
		if err != nil {
			cancel()
			return nil, classify("open", key, err)
		}
	case <-ctx.Done():
		cancel()
		r.Close()
		return nil, classify("open", key, ctx.Err())
	}
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(classify("read", key, ctx.Err())) })
	return &stream{PipeReader: r, ctx: ctx, key: key, stop: stop, cancel: cancel}, nil
}

// A stream is an open object. The goroutine that feeds it ends when the stream
// is closed or read to its end.
type stream struct {
	*io.PipeReader
	ctx    context.Context
	key    string
	stop   func() bool
	cancel context.CancelFunc
}

func (s *stream) Read(p []byte) (int, error) {
	// The pipe learns of the context's end a moment later.
	if err := s.ctx.Err(); err != nil {
		return 0, classify("read", s.key, err)
	}
	return s.PipeReader.Read(p)
}

func (s *stream) Close() error {
	s.stop()
	s.cancel()
	return s.PipeReader.Close()
}
