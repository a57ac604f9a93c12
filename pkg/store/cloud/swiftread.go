package cloud

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"

	"github.com/etcdadm/etcdadm/pkg/internal/backoff"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

const (
	// swiftTries is how often a request is made, with pauses that double from
	// swiftPause; a server may ask for longer ones, up to swiftMaxPause.
	swiftTries    = 8
	swiftPause    = 300 * time.Millisecond
	swiftMaxPause = 30 * time.Second
	// maxPage is how much of a page of a listing is read, many times what there is.
	maxPage = 64 << 20
	// containerTime is for how long a container that was seen is not asked for.
	containerTime = time.Minute
)

// A swift is a container of OpenStack's object store. It lists and reads for
// gocloud.dev, which has no driver for it.
type swift struct {
	client         *gophercloud.ServiceClient
	container, dir string
	cut            cut
	settle         time.Duration
	// seen is when the container was last known to be there, in seconds.
	seen atomic.Int64
}

// url returns that of an object, of the container for "".
func (s *swift) url(key string) string {
	at := s.client.Endpoint + url.PathEscape(s.container)
	if key == "" {
		return at
	}
	parts := strings.Split(key, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return at + "/" + strings.Join(parts, "/")
}

// request makes a request, again where that may help. Each try has less than a time to be
// answered in, 0 for none. The caller closes the body of the answer.
func (s *swift) request(ctx context.Context, method, url string, o gophercloud.RequestOpts, each time.Duration) (
	*http.Response, error) {
	o.KeepResponseBody = true
	o.OkCodes = []int{
		http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent, http.StatusPartialContent,
	}
	for try := 1; ; try++ {
		if body, ok := o.RawBody.(io.Seeker); ok {
			if _, err := body.Seek(0, io.SeekStart); err != nil {
				return nil, err
			}
		}
		once := o
		resp, err := s.try(ctx, method, url, &once, each)
		if err == nil {
			s.seen.Store(time.Now().Unix())
			return resp, nil
		}
		if try == swiftTries || ctx.Err() != nil || !passes(err) {
			return nil, err
		}
		pause := max(backoff.Doubled(swiftPause, swiftMaxPause, try-1), asked(err))
		if wait.For(ctx, pause/2+rand.N(pause/2)) != nil {
			// What failed says more than that it took too long.
			return nil, err
		}
	}
}

// try makes a request once. With a time, the body of the answer has to be in it as well.
func (s *swift) try(ctx context.Context, method, url string, o *gophercloud.RequestOpts, each time.Duration) (
	*http.Response, error) {
	if each == 0 {
		return s.client.Request(ctx, method, url, o)
	}
	ctx, cancel := context.WithTimeout(ctx, each)
	resp, err := s.client.Request(ctx, method, url, o)
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = cancelledBody{resp.Body, cancel}
	return resp, nil
}

// A cancelledBody ends a time when it is closed.
type cancelledBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b cancelledBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// passes reports whether an error may be gone the next time.
func passes(err error) bool {
	switch status := swiftStatus(err); status {
	case 0, http.StatusRequestTimeout, http.StatusTooManyRequests, 498:
		return true
	default:
		return status >= http.StatusInternalServerError && status != http.StatusNotImplemented &&
			status != http.StatusInsufficientStorage
	}
}

// asked returns the pause that a server asks for, 0 for none.
func asked(err error) time.Duration {
	var answer gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &answer) {
		return 0
	}
	seconds, err := strconv.Atoi(answer.ResponseHeader.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	// Half of the pause is left to chance.
	return min(2*time.Duration(seconds)*time.Second, swiftMaxPause)
}

// absent returns the error of a request for an object that ended with "not
// found": Swift says so too where there is no container.
func (s *swift) absent(ctx context.Context, err error) error {
	if !notFound(err) || time.Now().Unix()-s.seen.Load() < int64(containerTime/time.Second) {
		return err
	}
	resp, found := s.request(ctx, http.MethodHead, s.url(""), gophercloud.RequestOpts{}, 0)
	if found == nil {
		return errors.Join(err, resp.Body.Close())
	}
	if notFound(found) {
		return fmt.Errorf("%w: %w", errNoContainer, err)
	}
	return found
}

// newest asks Swift for what was written last: of several copies one may be old.
var newest = map[string]string{"X-Newest": "true"}

// Attributes is a method of driver.Bucket.
func (s *swift) Attributes(ctx context.Context, key string) (*driver.Attributes, error) {
	resp, err := s.request(ctx, http.MethodHead, s.url(key), gophercloud.RequestOpts{MoreHeaders: newest}, 0)
	if err != nil {
		return nil, s.absent(ctx, err)
	}
	a := attributes(resp)
	return &a, resp.Body.Close()
}

// attributes are those of an object of which there is an answer.
func attributes(resp *http.Response) driver.Attributes {
	h := resp.Header
	a := driver.Attributes{
		ContentType: h.Get("Content-Type"), Size: resp.ContentLength, ETag: h.Get("Etag"), Metadata: map[string]string{},
		ModTime: modTime(h), AsFunc: func(any) bool { return false },
	}
	for name, values := range h {
		if m, ok := strings.CutPrefix(name, "X-Object-Meta-"); ok {
			a.Metadata[strings.ToLower(m)] = values[0]
		}
	}
	if !isLarge(h) {
		a.MD5 = digest(a.ETag)
	}
	return a
}

// isLarge says that an object has segments.
func isLarge(h http.Header) bool { return strings.EqualFold(h.Get("X-Static-Large-Object"), "true") }

// digest returns the MD5 that an ETag is, nil where it is none.
func digest(etag string) []byte {
	sum, err := hex.DecodeString(strings.Trim(etag, `"`))
	if err != nil || len(sum) != 16 {
		return nil
	}
	return sum
}

// modTime returns when an object was written: in hundred thousandths of a second,
// as listings have it, where the server says it so.
func modTime(h http.Header) time.Time {
	whole, rest, _ := strings.Cut(h.Get("X-Timestamp"), ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err == nil {
		nanos, _ := strconv.ParseInt((rest + "000000000")[:9], 10, 64)
		return time.Unix(seconds, nanos).UTC()
	}
	t, _ := http.ParseTime(h.Get("Last-Modified"))
	return t.UTC()
}

// ListPaged is a method of driver.Bucket.
func (s *swift) ListPaged(ctx context.Context, o *driver.ListOptions) (*driver.ListPage, error) {
	size := cmp.Or(o.PageSize, 1000)
	q := url.Values{"format": {"json"}, "limit": {strconv.Itoa(size)}}
	for name, value := range map[string]string{
		"prefix": o.Prefix, "delimiter": o.Delimiter, "marker": string(o.PageToken),
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	resp, err := s.request(ctx, http.MethodGet, s.url("")+"?"+q.Encode(), gophercloud.RequestOpts{}, 0)
	if err != nil {
		if notFound(err) {
			err = fmt.Errorf("%w: %w", errNoContainer, err)
		}
		return nil, err
	}
	defer resp.Body.Close()
	var list []struct {
		Name, Subdir, Hash string
		Bytes              int64
		Modified           string `json:"last_modified"`
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("a page of a listing: %w", err)
	}
	page := &driver.ListPage{}
	for _, l := range list {
		// It is always that of Greenwich, and does not say so.
		at, _ := time.Parse("2006-01-02T15:04:05", strings.TrimSuffix(l.Modified, "Z"))
		page.Objects = append(page.Objects, &driver.ListObject{
			Key: cmp.Or(l.Name, l.Subdir), IsDir: l.Name == "", Size: l.Bytes, ModTime: at, MD5: digest(l.Hash),
			AsFunc: func(any) bool { return false },
		})
	}
	if len(list) >= size {
		page.NextPageToken = []byte(page.Objects[len(list)-1].Key)
	}
	return page, nil
}

// A swiftReader is an object that is being read.
type swiftReader struct {
	io.ReadCloser
	attributes driver.ReaderAttributes
}

func (r *swiftReader) Attributes() *driver.ReaderAttributes { return &r.attributes }
func (r *swiftReader) As(any) bool                          { return false }

// NewRangeReader is a method of driver.Bucket.
func (s *swift) NewRangeReader(ctx context.Context, key string, offset, length int64, _ *driver.ReaderOptions) (
	driver.Reader, error) {
	headers := map[string]string{"X-Newest": "true"}
	switch {
	case length == 0:
		return nil, errors.New("nothing is to be read")
	case length > 0:
		headers["Range"] = fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)
	case offset > 0:
		headers["Range"] = fmt.Sprintf("bytes=%d-", offset)
	}
	resp, err := s.request(ctx, http.MethodGet, s.url(key), gophercloud.RequestOpts{MoreHeaders: headers}, 0)
	if err != nil {
		return nil, s.absent(ctx, err)
	}
	a := attributes(resp)
	r := &swiftReader{resp.Body, driver.ReaderAttributes{ContentType: a.ContentType, ModTime: a.ModTime, Size: a.Size}}
	if _, all, ok := strings.Cut(resp.Header.Get("Content-Range"), "/"); ok {
		r.attributes.Size, err = strconv.ParseInt(all, 10, 64)
	}
	if err != nil || headers["Range"] != "" && resp.StatusCode != http.StatusPartialContent {
		return nil, errors.Join(errors.New("the server does not send the part of the object that it was asked for"),
			resp.Body.Close())
	}
	return r, nil
}

// ErrorCode is a method of driver.Bucket.
func (s *swift) ErrorCode(err error) gcerrors.ErrorCode {
	switch status := swiftStatus(err); {
	case errors.Is(err, errNoContainer):
		return gcerrors.Unknown
	case notFound(err):
		return gcerrors.NotFound
	case denies(err):
		return gcerrors.PermissionDenied
	case status == http.StatusPreconditionFailed:
		return gcerrors.FailedPrecondition
	}
	return gcerrors.Unknown
}

// errUnused is the error of what no store does.
var errUnused = errors.New("the driver does not do this")

// As is a method of driver.Bucket.
func (s *swift) As(any) bool { return false }

// ErrorAs is a method of driver.Bucket.
func (s *swift) ErrorAs(err error, i any) bool { return false }

// NewTypedWriter is a method of driver.Bucket.
func (s *swift) NewTypedWriter(context.Context, string, string, *driver.WriterOptions) (driver.Writer, error) {
	return nil, errUnused
}

// Copy is a method of driver.Bucket.
func (s *swift) Copy(context.Context, string, string, *driver.CopyOptions) error { return errUnused }

// Delete is a method of driver.Bucket.
func (s *swift) Delete(ctx context.Context, key string, _ *driver.DeleteOptions) error {
	return s.remove(ctx, key)
}

// SignedURL is a method of driver.Bucket.
func (s *swift) SignedURL(context.Context, string, *driver.SignedURLOptions) (string, error) {
	return "", errUnused
}

// Close is a method of driver.Bucket.
func (s *swift) Close() error {
	s.client.HTTPClient.CloseIdleConnections()
	return nil
}
