package statuspage

import (
	"context"
	"sync"
	"time"
)

const (
	// readTime bounds one reading of a source.
	readTime = 10 * time.Second
	// keepTime is for how long what was read is kept when nobody asks any more.
	keepTime = time.Minute
)

// A latest keeps what was read last of a source while somebody asks for it, and reads it
// again when it has become older than every. Nothing goes on while nobody asks, and who
// asks all at once shares one reading.
type latest[T any] struct {
	every time.Duration
	read  func(ctx context.Context, before T) (T, error)
	now   func() time.Time

	mu    sync.Mutex
	value T
	// at is when value was read, zero for never; tried when the last reading ended.
	at, tried time.Time
	err       error
	reading   chan struct{}
	forget    *time.Timer
}

// A reading is what is known of a source.
type reading[T any] struct {
	Value T
	// At is when Value was read, zero for never. Err says why it was not read since.
	At  time.Time
	Err error
}

// get returns what is known. It waits for what is read again until ctx ends, and then
// returns what was known before.
func (l *latest[T]) get(ctx context.Context) reading[T] {
	l.mu.Lock()
	l.keep()
	if l.tried.IsZero() || l.now().Sub(l.tried) >= l.every {
		if l.reading == nil {
			l.reading = make(chan struct{})
			go l.refresh(context.WithoutCancel(ctx), l.value, l.reading)
		}
		reading := l.reading
		l.mu.Unlock()
		select {
		case <-reading:
		case <-ctx.Done():
		}
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	r := reading[T]{Value: l.value, At: l.at, Err: l.err}
	if r.At.IsZero() && r.Err == nil {
		r.Err = context.Cause(ctx)
	}
	return r
}

func (l *latest[T]) refresh(ctx context.Context, before T, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	v, err := l.read(ctx, before)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tried, l.err = l.now(), err; err == nil {
		l.value, l.at = v, l.tried
	}
	l.reading = nil
	close(done)
}

// keep puts off forgetting. The mutex is held.
func (l *latest[T]) keep() {
	if l.forget != nil {
		l.forget.Reset(keepTime)
		return
	}
	l.forget = time.AfterFunc(keepTime, l.drop)
}

// drop forgets what was read.
func (l *latest[T]) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var none T
	l.value, l.at, l.tried, l.err = none, time.Time{}, time.Time{}, nil
}
