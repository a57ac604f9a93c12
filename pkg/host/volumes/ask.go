package volumes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// A Lazy is a value that does not change, and is asked for until it is got.
type Lazy[T any] struct {
	lock  sync.Mutex
	got   bool
	value T
}

// Get returns the value, and asks where it is not known yet.
func (l *Lazy[T]) Get(ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.got {
		return l.value, nil
	}
	v, err := ask(ctx)
	if err == nil {
		l.got, l.value = true, v
	}
	return v, err
}

// Forget has the value asked for again: something may have been added to it.
func (l *Lazy[T]) Forget() {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.got = false
}

// Until asks again and again, more and more rarely, until what is asked for is
// done, fails or is given up by the context.
func Until(ctx context.Context, done func(context.Context) (bool, error)) error {
	for pause := 300 * time.Millisecond; ; pause = min(2*pause, 3*time.Second) {
		if ok, err := done(ctx); ok || err != nil {
			return err
		}
		if err := wait.For(ctx, pause/2+rand.N(pause)); err != nil {
			return err
		}
	}
}

// Retry asks a cloud until there is an answer. Waiting is called with the error of the
// last try whenever it changes, and with "" at the end.
func Retry[T any](ctx context.Context, log *slog.Logger, waiting func(string),
	ask func(context.Context) (T, error)) (T, error) {
	return Again(ctx, log, "the cloud does not answer yet", maxRetryPause, waiting, func(ctx context.Context) (T, error) {
		short, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		return ask(short)
	})
}

// Again tries until it succeeds or ctx ends, with growing pauses up to longest. Each new
// error is logged as what, and given to waiting, which is called with "" at the end.
func Again[T any](ctx context.Context, log *slog.Logger, what string, longest time.Duration, waiting func(string),
	try func(context.Context) (T, error)) (T, error) {
	defer waiting("")
	reported := ""
	for pause := min(firstPause, longest); ; pause = min(2*pause, longest) {
		v, err := try(ctx)
		if err == nil {
			return v, nil
		}
		if ctx.Err() != nil {
			return v, context.Cause(ctx)
		}
		why := err.Error()
		if why != reported {
			log.Warn(what, "why", why)
		}
		reported = why
		waiting(why) // also where it is the same: what is tried may have said something else
		if err := wait.For(ctx, pause/2+rand.N(pause)); err != nil {
			return v, err
		}
	}
}

// Local returns a client for a server of the cloud that each machine reaches
// at an address of its own. It goes through no proxy.
func Local() *http.Client {
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext, MaxIdleConns: 2,
			IdleConnTimeout: 30 * time.Second,
		},
	}
}

// Metadata asks such a server for a page, with headers as key and value in
// turn.
func Metadata(ctx context.Context, c *http.Client, method, url string, headers ...string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("ask for metadata: %w", err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask for metadata: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return "", fmt.Errorf("ask for metadata %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("ask for metadata %s: %s", url, resp.Status)
	}
	return string(body), nil
}

// Settle says what became of an attachment that ended in an error: the volume
// where it is attached here after all, [ErrTaken] where another machine has it,
// [ErrRefused] with the error where it is certain that it is not on its way here,
// and otherwise the error.
func Settle(ctx context.Context, p Provider, v Volume, failed error) (Volume, error) {
	found, err := p.Find(ctx)
	if err != nil {
		return v, failed
	}
	for _, f := range found {
		switch {
		case f.ID != v.ID:
		case f.Here:
			return f, nil
		case f.Moving:
			return f, failed
		case f.Machine != "":
			return f, ErrTaken
		case f.Foreign && !errors.Is(failed, ErrRefused):
			return f, fmt.Errorf("%w: %w", ErrRefused, failed)
		}
	}
	return v, failed
}
