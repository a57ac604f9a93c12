package etcdrelease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// A job is one archive to fetch into the file part.
type job struct {
	url, part string
	// want is the digest, "" if nobody knows it; from says who does.
	want, from string
}

// An origin says what a part is a part of, so that it can be continued.
type origin struct {
	URL string `json:"url"`
	// Validator is a strong ETag or a time of modification: what the server
	// compares in If-Range.
	Validator string `json:"validator"`
}

// transfer fetches an archive, from where an earlier attempt has stopped if
// the server lets it, and returns its digest.
func (o Options) transfer(ctx context.Context, w *web, j job) (digest string, err error) {
	if j.want == "" {
		// Nobody would notice that an old part does not fit.
		if err := forget(j.part); err != nil {
			return "", err
		}
	}
	st, err := os.Stat(j.part)
	begun := err == nil && st.Size() > 0
	if begun && j.want != "" {
		// Killed just before the part got its name.
		if got, err := Digest(j.part); err == nil && got == j.want {
			return got, nil
		}
	}
	for {
		err := w.retry(ctx, func() (int64, error) { return o.pull(ctx, w, j) })
		if err != nil {
			return "", err
		}
		got, err := Digest(j.part)
		if err != nil || j.want == "" || got == j.want {
			return got, err
		}
		if err := forget(j.part); err != nil {
			return "", err
		}
		if !begun {
			return "", &ChecksumError{What: shown(j.url), From: j.from, Want: j.want, Got: got}
		}
		begun = false // the old half may be what is wrong
	}
}

// pull asks once for what is missing of the part, and appends it. It returns
// the number of bytes that came.
func (o Options) pull(ctx context.Context, w *web, j job) (n int64, err error) {
	f, err := os.OpenFile(j.part, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	have, header, err := resume(f, j)
	if err != nil {
		return 0, err
	}
	resp, err := w.get(ctx, j.url, header)
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusRequestedRangeNotSatisfiable {
		err = &lineError{errors.Join(err, f.Truncate(0))} // the next try begins again
	}
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if have == 0 || resp.StatusCode != http.StatusPartialContent {
		have, err = 0, restart(f, j, resp.Header)
	} else if !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", have)) {
		err = &lineError{errors.Join(fmt.Errorf("GET %s: it sent another range", shown(j.url)), f.Truncate(0))}
	}
	if err != nil {
		return 0, err
	}
	return o.receive(f, have, resp, j)
}

// receive appends the body of a response to a part that has have bytes.
func (o Options) receive(f *os.File, have int64, resp *http.Response, j job) (int64, error) {
	total := int64(-1)
	if resp.ContentLength >= 0 {
		total = have + resp.ContentLength
	}
	if total > maxDownload {
		return 0, fmt.Errorf("GET %s: it has %d bytes, more than any release of etcd", shown(j.url), total)
	}
	r := &counted{r: io.LimitReader(resp.Body, maxDownload-have), done: have, total: total, report: o.Progress}
	n, err := io.Copy(f, r)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return n, fmt.Errorf("GET %s: after %d bytes: %w", shown(j.url), have+n, err)
	}
	return n, nil
}

// resume returns how many bytes of the part can stay, and the header that
// asks for the rest.
func resume(f *os.File, j job) (have int64, header map[string]string, err error) {
	from, ok := readOrigin(j)
	if !ok {
		return 0, nil, nil // restart empties the part when there is an answer
	}
	have, err = f.Seek(0, io.SeekEnd)
	if err != nil || have == 0 {
		return 0, nil, err
	}
	return have, map[string]string{"Range": fmt.Sprintf("bytes=%d-", have), "If-Range": from.Validator}, nil
}

func readOrigin(j job) (origin, bool) {
	var from origin
	b, err := os.ReadFile(j.part + ".from")
	if err != nil || json.Unmarshal(b, &from) != nil {
		return origin{}, false
	}
	return from, from.URL == shown(j.url) && from.Validator != ""
}

// restart empties the part and records what it will be a part of.
func restart(f *os.File, j job, h http.Header) error {
	// The order matters: old bytes must never be with a new origin.
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	from := origin{URL: shown(j.url), Validator: h.Get("Etag")}
	if strings.HasPrefix(from.Validator, "W/") || from.Validator == "" {
		from.Validator = h.Get("Last-Modified")
	}
	b, err := json.Marshal(from)
	if err == nil {
		err = os.WriteFile(j.part+".from", b, 0o644)
	}
	return err
}

// A counted reader reports how far it is.
type counted struct {
	r           io.Reader
	done, total int64
	report      func(done, total int64)
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.done += int64(n)
	if c.report != nil && n > 0 {
		c.report(c.done, c.total)
	}
	return n, err
}
