package store

import (
	"context"
	"errors"
	"io"
	"time"

	"gocloud.dev/blob"

	"github.com/etcdadm/etcdadm/pkg/internal/backoff"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// maxResumes is how often in a row a read is taken up again without a byte in
// between; the pauses double from resumePause.
const (
	maxResumes  = 5
	resumePause = 200 * time.Millisecond
	// maxResumePause is not reached in maxResumes.
	maxResumePause = 5 * time.Second
)

var errReplaced = errors.New("the object was replaced while it was read")

func (b *bucket) open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	b.requests.Add(1)
	r, err := b.Blobs.NewReader(ctx, b.prefix+key, nil)
	if err != nil {
		return nil, 0, b.kind(err)
	}
	return &reader{ctx: ctx, bucket: b, key: key, current: r, size: r.Size(), written: r.ModTime()}, r.Size(), nil
}

// A reader reads an object, and goes on where it was when a connection breaks.
type reader struct {
	current *blob.Reader
	ctx     context.Context
	bucket  *bucket
	key     string
	size    int64
	written time.Time
	offset  int64
	failed  int
}

func (r *reader) Read(p []byte) (int, error) {
	for {
		n, err := r.current.Read(p)
		r.offset += int64(n)
		if n > 0 {
			r.failed = 0
		}
		over := errors.Is(err, io.EOF)
		if err == nil || over && r.offset >= r.size || r.ctx.Err() != nil {
			return n, err
		}
		if over {
			err = io.ErrUnexpectedEOF
		}
		if err := r.resume(err); err != nil {
			return n, err
		}
		if n > 0 || len(p) == 0 {
			return n, nil
		}
	}
}

func (r *reader) Close() error { return r.current.Close() }

// resume opens the object at the offset, and returns the error that made it
// necessary if that cannot be done.
func (r *reader) resume(cause error) error {
	for ; r.failed < maxResumes; r.failed++ {
		if err := wait.For(r.ctx, backoff.Doubled(resumePause, maxResumePause, r.failed)); err != nil {
			return err
		}
		again, err := r.again()
		switch {
		case errors.Is(err, ErrAbsent), errors.Is(err, ErrDenied), errors.Is(err, errReplaced):
			return err
		case err != nil:
			continue
		}
		// Of a broken connection there is nothing to be learned any more.
		_ = r.current.Close()
		r.current = again
		r.failed++
		return nil
	}
	return cause
}

// again opens the object at the offset.
func (r *reader) again() (*blob.Reader, error) {
	key := r.bucket.prefix + r.key
	r.bucket.requests.Add(2)
	now, err := r.bucket.Blobs.Attributes(r.ctx, key)
	if err != nil {
		return nil, r.bucket.kind(err)
	}
	// An offset behind the end would be another error for each cloud.
	if now.Size != r.size {
		return nil, errReplaced
	}
	again, err := r.bucket.Blobs.NewRangeReader(r.ctx, key, r.offset, -1, nil)
	if err != nil {
		return nil, r.bucket.kind(err)
	}
	if again.Size() != r.size || !again.ModTime().Equal(r.written) {
		return nil, errors.Join(errReplaced, again.Close())
	}
	return again, nil
}
