package store

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
)

// A lazy place is opened by the first call that needs it: a daemon starts, and
// says what is wrong, also while its store cannot be reached.
type lazy struct {
	dial     Dial
	requests *atomic.Int64
	// dialling holds a token while the bucket is checked or opened.
	dialling chan struct{}
	opened   *bucket
	// name is Server of the bucket, nil before it is opened.
	name atomic.Pointer[string]
	// fails is Failing of the bucket, nil before it is opened.
	fails atomic.Pointer[func() string]
}

func newLazy(dial Dial, requests *atomic.Int64) *lazy {
	return &lazy{dial: dial, requests: requests, dialling: make(chan struct{}, 1)}
}

func (l *lazy) bucket(ctx context.Context) (*bucket, error) {
	select {
	case l.dialling <- struct{}{}:
		defer func() { <-l.dialling }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.opened == nil {
		b, err := l.dial(ctx)
		if err != nil {
			return nil, fmt.Errorf("open the bucket: %w", err)
		}
		l.opened = newBucket(*b, l.requests)
		l.name.Store(&b.Server)
		if b.Failing != nil {
			l.fails.Store(&b.Failing)
		}
	}
	return l.opened, nil
}

// server names who is asked, empty where nobody knows yet.
func (l *lazy) server() string {
	if name := l.name.Load(); name != nil {
		return *name
	}
	return ""
}

// failing is why what is asked fails at present, empty where nobody knows.
func (l *lazy) failing() string {
	if fails := l.fails.Load(); fails != nil {
		return redact((*fails)())
	}
	return ""
}

func (l *lazy) page(ctx context.Context, prefix string, from []byte) ([]object, []byte, error) {
	b, err := l.bucket(ctx)
	if err != nil {
		return nil, nil, err
	}
	return b.page(ctx, prefix, from)
}

func (l *lazy) open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	b, err := l.bucket(ctx)
	if err != nil {
		return nil, 0, err
	}
	return b.open(ctx, key)
}

func (l *lazy) write(ctx context.Context, key string, r io.Reader, c condition) error {
	b, err := l.bucket(ctx)
	if err != nil {
		return err
	}
	return b.write(ctx, key, r, c)
}

func (l *lazy) remove(ctx context.Context, key string) error {
	b, err := l.bucket(ctx)
	if err != nil {
		return err
	}
	return b.remove(ctx, key)
}

func (l *lazy) prune(context.Context, string) error { return nil }

// close is called when no call is under way.
func (l *lazy) close() error {
	if l.opened == nil {
		return nil
	}
	return l.opened.close()
}
