package etcdrelease

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/internal/netreason"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// A web asks servers, patiently where that may help.
type web struct {
	client *http.Client
	pace   pace
	// inner is what sends the requests, nil for the default transport.
	inner http.RoundTripper
	// own is the same if it was made for this web, and is to be closed.
	own *http.Transport
	// failed is [Options.Failed], reason why the last try failed.
	failed func(text string)
	reason string
}

// open returns a web that the caller must close.
func (o Options) open() *web {
	w := &web{pace: o.pace, client: &http.Client{}, failed: o.Failed}
	if o.Client != nil {
		*w.client = *o.Client
	} else {
		w.own = o.transport()
		w.client.Transport = w.own
		w.client.CheckRedirect = checkRedirect
	}
	w.inner = w.client.Transport
	w.client.Transport = o.watched(w.inner, nil)
	return w
}

func (w *web) close() {
	if w.own != nil {
		w.own.CloseIdleConnections()
	}
}

// transport is the default transport, with proxies from the environment, our
// time limits, and file URLs, which mirrors on a mounted disk have.
func (o Options) transport() *http.Transport {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		// A dial goes on in the background when its request is given up, so it
		// needs a limit of its own.
		DialContext:         (&net.Dialer{Timeout: o.ConnectTimeout}).DialContext,
		TLSHandshakeTimeout: o.ConnectTimeout,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        4,
	}
	t.RegisterProtocol("file", http.NewFileTransport(http.Dir("/")))
	return t
}

// mostRedirects is how many are followed for one request.
const mostRedirects = 10

// checkRedirect follows redirects as the default policy does, but not from
// https to http, since checksums must come from whom they were asked, and not
// to files.
func checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) >= mostRedirects:
		return fmt.Errorf("stopped after %d redirects", mostRedirects)
	case req.URL.Scheme != "https" && (req.URL.Scheme != "http" || via[len(via)-1].URL.Scheme != "http"):
		return fmt.Errorf("refused a redirect to %s", shown(req.URL.String()))
	}
	return nil
}

// get sends a GET request. The body of the response must be closed.
func (w *web) get(ctx context.Context, from string, header map[string]string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "etcdadm")
	// Go would unpack what a server packs, and the digest is of the file as it is.
	req.Header.Set("Accept-Encoding", "identity")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		if named, ok := errors.AsType[*url.Error](err); ok {
			named.URL = shown(named.URL)
		}
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	resp.Body.Close()
	return nil, &statusError{url: shown(from), status: resp.Status, code: resp.StatusCode, after: retryAfter(resp)}
}

// text returns a small file, "" if the server does not have it.
func (w *web) text(ctx context.Context, from string) (text string, err error) {
	err = w.retry(ctx, func() (int64, error) {
		resp, err := w.get(ctx, from, nil)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err != nil {
			return 0, fmt.Errorf("GET %s: %w", shown(from), err)
		}
		text = string(b)
		return 0, nil
	})
	var status *statusError
	if errors.As(err, &status) && status.missing() {
		return "", nil
	}
	return text, err
}

// exists returns nil if the server has the file. Not every server and
// signature takes HEAD requests.
func (w *web) exists(ctx context.Context, from string) error {
	return w.retry(ctx, func() (int64, error) {
		resp, err := w.get(ctx, from, nil)
		if err != nil {
			return 0, err
		}
		return 0, resp.Body.Close()
	})
}

// enough is how many bytes make an attempt one that has got on.
const enough = 1 << 20

// most bounds all attempts: a server that cuts each one off, and cannot resume,
// would get on forever.
const most = 50

// retry calls do until it succeeds, fails for good, or has got nowhere a few
// times. do returns how many bytes it has brought.
func (w *web) retry(ctx context.Context, do func() (int64, error)) error {
	backoff := w.pace.backoff
	for try, all := 1, 1; ; try, all = try+1, all+1 {
		n, err := do()
		if err == nil || ctx.Err() != nil || !passing(err) {
			return err
		}
		if n >= enough {
			try, backoff = 0, w.pace.backoff
		}
		if try >= w.pace.tries || all >= most {
			return fmt.Errorf("%w (tried %d times)", err, all)
		}
		w.report(err)
		var status *statusError
		rest := backoff
		if errors.As(err, &status) {
			rest = max(rest, min(status.after, 30*time.Second))
		}
		if wait.For(ctx, rest) != nil {
			return err
		}
		backoff *= 2
	}
}

// report says why a try failed, unless it is why the one before did.
func (w *web) report(err error) {
	text := plain(err)
	if w.failed == nil || text == w.reason {
		return
	}
	w.reason = text
	w.failed(text)
}

// plain is the text of err without the words that package http has around the reason.
func plain(err error) string {
	named, ok := errors.AsType[*url.Error](err)
	if !ok {
		return err.Error()
	}
	return netreason.Plain(named.Err.Error())
}

// Overloaded reports whether err is a server's answer that it cannot serve now, as where many
// machines ask it at once.
func Overloaded(err error) bool {
	var status *statusError
	return errors.As(err, &status) && status.passing()
}

// Passing reports whether what failed with err may succeed later, as where a server
// does not answer, or is overloaded.
func Passing(err error) bool { return passing(err) }

// passing reports whether an error may be gone at the next try.
func passing(err error) bool {
	var status *statusError
	var line *lineError
	return errors.As(err, &status) && status.passing() || errors.As(err, &line)
}

// A statusError is an answer that is not the file.
type statusError struct {
	url, status string
	code        int
	// after is how long the server asks to wait.
	after time.Duration
}

func (e *statusError) Error() string { return fmt.Sprintf("GET %s: %s", e.url, e.status) }

// missing reports whether the server does not have the file. Object stores say
// that it is forbidden where listing is.
func (e *statusError) missing() bool {
	return e.code == http.StatusNotFound || e.code == http.StatusGone || e.code == http.StatusForbidden
}

func (e *statusError) passing() bool {
	switch e.code {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return e.code >= 500 && e.code != http.StatusNotImplemented
}

// Hint says what to check.
func (e *statusError) Hint() string {
	if e.code == http.StatusProxyAuthRequired {
		return "the proxy needs a name and password: HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT"
	}
	return "check --release-url and the proxy settings: HTTPS_PROXY, NO_PROXY"
}

func retryAfter(resp *http.Response) time.Duration {
	seconds, err := strconv.Atoi(strings.TrimSpace(resp.Header.Get("Retry-After")))
	if err != nil || seconds < 0 || seconds > 3600 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// A lineError is a failure of the way to a server, not of what it says.
type lineError struct{ err error }

func (e *lineError) Error() string { return e.err.Error() }
func (e *lineError) Unwrap() error { return e.err }

// Timeout makes http treat a connection without data as such.
func (e *lineError) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.err, &t) && t.Timeout()
}

// Hint says what to check.
func (e *lineError) Hint() string {
	return "check the network, HTTPS_PROXY and --release-url; without a network, --binaries-dir=DIR takes etcd and etcdctl " +
		"of this version from a directory, and --binaries-archive=FILE an archive, as the cache does"
}

// onLine returns err as a [lineError], unless it would be the same next time.
func onLine(err error) error {
	var certificate *tls.CertificateVerificationError
	if err == nil || errors.As(err, &certificate) {
		return err
	}
	return &lineError{err}
}
