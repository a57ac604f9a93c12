package cloud

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/storage/v1"

	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/store"
)

const (
	// The pauses between the tries of a request double from gcsPause to gcsMaxPause.
	gcsPause    = time.Second
	gcsMaxPause = 30 * time.Second
	// gcsChunk is the most of an upload that is in memory.
	gcsChunk = 8 << 20
)

// A gcs is a bucket of Google Cloud Storage. Its content is read by the address of
// the XML API, and all else is asked of the JSON API, as Google's client library
// does it, which is larger than all other drivers.
type gcs struct {
	client  *http.Client
	api     *storage.ObjectsService
	content *url.URL
	bucket  string
}

// gcsNames are how keys are stored that have ".." in them, as gocloud.dev stores them.
var (
	gcsName = strings.NewReplacer("../", "..__0x2f__")
	gcsKey  = strings.NewReplacer("..__0x2f__", "../")
)

// again makes a request until it has an answer that another one would not change, or
// the context ends. All that is asked may be repeated: whole objects are written, and
// the store knows its own after a conditional write.
func again(ctx context.Context, request func() error) error {
	for pause := gcsPause; ; pause = min(2*pause, gcsMaxPause) {
		err := request()
		if !mayPass(err) {
			return err
		}
		if over := wait.For(ctx, rand.N(pause)); over != nil {
			return fmt.Errorf("%w: %w", over, err)
		}
	}
}

// mayPass reports whether an error may be gone the next time.
func mayPass(err error) bool {
	if err == nil {
		return false
	}
	if status := gcsStatus(err); status != 0 {
		return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests ||
			status >= http.StatusInternalServerError
	}
	for _, broken := range []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE,
	} {
		if errors.Is(err, broken) {
			return true
		}
	}
	var temporary interface{ Temporary() bool }
	return errors.As(err, &temporary) && temporary.Temporary() ||
		strings.Contains(err.Error(), "server closed idle connection") || // net/http does not export these
		strings.Contains(err.Error(), "client connection lost")
}

// write stores what r holds: in one request, or in chunks, which are sent again where
// that is necessary, and with the checksum of the whole.
func (g *gcs) write(ctx context.Context, key string, r io.Reader, o store.WriteOptions) error {
	chunk := gcsChunk
	if o.Size >= 0 && o.Size < gcsChunk {
		chunk = int(o.Size) + 1 // it is rounded up
	}
	call := g.api.Insert(g.bucket, &storage.Object{Name: gcsName.Replace(key), Metadata: o.Metadata}).Context(ctx).
		Media(r, googleapi.ContentType(contentType), googleapi.ChunkSize(chunk), googleapi.EnableAutoChecksum()).
		WithRetry(nil, mayPass).Fields("name")
	if o.OnlyAbsent {
		call.IfGenerationMatch(0)
	}
	_, err := call.Do()
	if o.OnlyAbsent && gcsStatus(err) == http.StatusPreconditionFailed {
		return fmt.Errorf("%w: %w", store.ErrTaken, err)
	}
	return err
}

// Attributes is a method of driver.Bucket.
func (g *gcs) Attributes(ctx context.Context, key string) (a *driver.Attributes, err error) {
	err = again(ctx, func() error {
		o, err := g.api.Get(g.bucket, gcsName.Replace(key)).Context(ctx).Do()
		if err == nil {
			a = &driver.Attributes{
				ContentType: o.ContentType, Size: int64(o.Size), ETag: o.Etag, Metadata: o.Metadata, ModTime: gcsTime(o),
				MD5: gcsDigest(o), AsFunc: func(any) bool { return false },
			}
		}
		return err
	})
	return a, err
}

func gcsTime(o *storage.Object) time.Time {
	t, _ := time.Parse(time.RFC3339, o.Updated)
	return t
}

// gcsDigest returns the MD5 of an object, nil for one that is composed of others.
func gcsDigest(o *storage.Object) []byte {
	sum, err := base64.StdEncoding.DecodeString(o.Md5Hash)
	if err != nil || len(sum) == 0 {
		return nil
	}
	return sum
}

// ListPaged is a method of driver.Bucket.
func (g *gcs) ListPaged(ctx context.Context, o *driver.ListOptions) (*driver.ListPage, error) {
	call := g.api.List(g.bucket).Context(ctx).Prefix(gcsName.Replace(o.Prefix)).Delimiter(o.Delimiter).
		PageToken(string(o.PageToken)).MaxResults(int64(cmp.Or(o.PageSize, 1000))).
		Fields("nextPageToken", "prefixes", "items(name,size,updated,md5Hash)")
	var listed *storage.Objects
	if err := again(ctx, func() (err error) {
		listed, err = call.Do()
		return err
	}); err != nil {
		return nil, err
	}
	page := &driver.ListPage{NextPageToken: []byte(listed.NextPageToken)}
	for _, i := range listed.Items {
		page.Objects = append(page.Objects, &driver.ListObject{
			Key: gcsKey.Replace(i.Name), Size: int64(i.Size), ModTime: gcsTime(i), MD5: gcsDigest(i),
			AsFunc: func(any) bool { return false },
		})
	}
	for _, p := range listed.Prefixes {
		page.Objects = append(page.Objects, &driver.ListObject{
			Key: gcsKey.Replace(p), IsDir: true, AsFunc: func(any) bool { return false },
		})
	}
	slices.SortFunc(page.Objects, func(a, b *driver.ListObject) int { return cmp.Compare(a.Key, b.Key) })
	return page, nil
}

// NewRangeReader is a method of driver.Bucket.
func (g *gcs) NewRangeReader(ctx context.Context, key string, offset, length int64, _ *driver.ReaderOptions) (
	driver.Reader, error) {
	part := ""
	switch {
	case length == 0:
		return nil, errors.New("nothing is to be read")
	case length > 0:
		part = fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)
	case offset > 0:
		part = fmt.Sprintf("bytes=%d-", offset)
	}
	var resp *http.Response
	if err := again(ctx, func() (err error) {
		resp, err = g.get(ctx, gcsName.Replace(key), part)
		return err
	}); err != nil {
		return nil, err
	}
	r := &gcsReader{ReadCloser: resp.Body, attributes: driver.ReaderAttributes{
		ContentType: resp.Header.Get("Content-Type"), Size: resp.ContentLength,
	}}
	var err error
	if at := resp.Header.Get("Last-Modified"); at != "" {
		r.attributes.ModTime, err = http.ParseTime(at)
	}
	if _, all, ok := strings.Cut(resp.Header.Get("Content-Range"), "/"); ok && err == nil {
		r.attributes.Size, err = strconv.ParseInt(all, 10, 64)
	}
	if err != nil || part != "" && resp.StatusCode != http.StatusPartialContent {
		return nil, errors.Join(errors.New("the server does not send the part of the object that it was asked for"), err,
			resp.Body.Close())
	}
	if want, ok := checksum(resp.Header); ok && part == "" && !resp.Uncompressed {
		r.want, r.sum = want, crc32.New(crc32.MakeTable(crc32.Castagnoli))
	}
	return r, nil
}

// get asks for the content of an object, or a part of it.
func (g *gcs) get(ctx context.Context, name, part string) (*http.Response, error) {
	at := g.content.JoinPath(g.bucket, url.PathEscape(name))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	if part != "" {
		req.Header.Set("Range", part)
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return nil, err
	}
	if err := googleapi.CheckResponse(resp); err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	return resp, nil
}

// checksum returns the CRC-32C of what is sent, if the answer has it: that of what is
// stored compressed is no use when the server unpacks it.
func checksum(h http.Header) (uint32, bool) {
	for _, v := range h.Values("X-Goog-Hash") {
		for one := range strings.SplitSeq(v, ",") {
			text, ok := strings.CutPrefix(strings.TrimSpace(one), "crc32c=")
			sum, err := base64.StdEncoding.DecodeString(text)
			if ok && err == nil && len(sum) == 4 {
				return binary.BigEndian.Uint32(sum), h.Get("X-Goog-Stored-Content-Encoding") != "gzip"
			}
		}
	}
	return 0, false
}

// A gcsReader is an object that is being read.
type gcsReader struct {
	io.ReadCloser
	attributes driver.ReaderAttributes
	// sum is of what was read, and has to be want in the end; nil is for a part.
	sum  hash.Hash32
	want uint32
}

func (r *gcsReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if r.sum == nil {
		return n, err
	}
	// A hash returns no error.
	_, _ = r.sum.Write(p[:n])
	if err == io.EOF && r.sum.Sum32() != r.want { //nolint:errorlint // the end is not wrapped
		return n, fmt.Errorf("the content has the CRC-32C %08x, and not %08x as its server says", r.sum.Sum32(), r.want)
	}
	return n, err
}

func (r *gcsReader) Attributes() *driver.ReaderAttributes { return &r.attributes }
func (r *gcsReader) As(any) bool                          { return false }

// Delete is a method of driver.Bucket.
func (g *gcs) Delete(ctx context.Context, key string, _ *driver.DeleteOptions) error {
	return again(ctx, func() error { return g.api.Delete(g.bucket, gcsName.Replace(key)).Context(ctx).Do() })
}

// ErrorCode is a method of driver.Bucket.
func (g *gcs) ErrorCode(err error) gcerrors.ErrorCode {
	switch gcsStatus(err) {
	case http.StatusNotFound:
		return gcerrors.NotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return gcerrors.PermissionDenied
	case http.StatusPreconditionFailed:
		return gcerrors.FailedPrecondition
	}
	return gcerrors.Unknown
}

// As is a method of driver.Bucket.
func (g *gcs) As(any) bool { return false }

// ErrorAs is a method of driver.Bucket.
func (g *gcs) ErrorAs(error, any) bool { return false }

// NewTypedWriter is a method of driver.Bucket.
func (g *gcs) NewTypedWriter(context.Context, string, string, *driver.WriterOptions) (driver.Writer, error) {
	return nil, errUnused
}

// Copy is a method of driver.Bucket.
func (g *gcs) Copy(context.Context, string, string, *driver.CopyOptions) error { return errUnused }

// SignedURL is a method of driver.Bucket.
func (g *gcs) SignedURL(context.Context, string, *driver.SignedURLOptions) (string, error) {
	return "", errUnused
}

// Close is a method of driver.Bucket.
func (g *gcs) Close() error { return nil }
