package etcdrelease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// A watch is a transport that gives up on servers that are unreachable: before the
// answer begins, and in its middle.
type watch struct {
	next          http.RoundTripper
	answer, stall time.Duration
	// read receives the number of bytes that came, if it is not nil.
	read func(req *http.Request, n int)
}

func (o Options) watched(next http.RoundTripper, read func(*http.Request, int)) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &watch{next: next, answer: o.ConnectTimeout, stall: o.pace.stall, read: read}
}

// RoundTrip is that of [http.RoundTripper].
func (w *watch) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	late := &unreachableError{fmt.Sprintf("no answer from %s in %s", req.URL.Host, w.answer)}
	timer := time.AfterFunc(w.answer, func() { cancel(late) })
	resp, err := w.next.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	if err != nil {
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() && req.Context().Err() == nil {
			err = late // the limits of a dial and of TLS are the same time
		}
		err = onLine(stalled(ctx, err))
		cancel(nil)
		return nil, err
	}
	b := &body{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, stall: w.stall}
	if w.read != nil {
		b.read = func(n int) { w.read(req, n) }
	}
	resp.Body = b
	return resp, nil
}

// A body ends with an error when nothing comes for a while.
type body struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	stall  time.Duration
	read   func(n int)
}

func (b *body) Read(p []byte) (int, error) {
	timer := time.AfterFunc(b.stall, func() {
		b.cancel(&unreachableError{fmt.Sprintf("nothing more came for %s", b.stall)})
	})
	n, err := b.ReadCloser.Read(p)
	timer.Stop()
	if b.read != nil {
		b.read(n)
	}
	if errors.Is(err, io.EOF) {
		return n, io.EOF
	}
	return n, onLine(stalled(b.ctx, err))
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// stalled returns why a request was given up, or err if it was not.
func stalled(ctx context.Context, err error) error {
	var unreachable *unreachableError
	if err != nil && errors.As(context.Cause(ctx), &unreachable) {
		return unreachable
	}
	return err
}

// An unreachableError says that a server took too long.
type unreachableError struct{ text string }

func (e *unreachableError) Error() string { return e.text }
func (e *unreachableError) Timeout() bool { return true }
