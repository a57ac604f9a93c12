package cloud

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"gocloud.dev/blob/driver"

	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// swiftCut needs 16 MiB of memory, and 32 MiB from 4.7 GiB on. It ends at 17 GiB,
// in the thousand segments that an object has by default.
var swiftCut = cut{small: 8 << 20, large: 32 << 20, first: 600, atOnce: 2, most: 1000}

// write stores what r holds: in one request, or in segments and a manifest.
func (s *swift) write(ctx context.Context, key string, r io.Reader, o store.WriteOptions) error {
	part, whole, err := s.cut.begin(r)
	switch {
	case err != nil:
		return err
	case !whole:
		return s.segmented(ctx, key, part, r, o)
	}
	headers := headersOf(o)
	headers["ETag"] = hexDigest(part)
	err = s.put(ctx, s.url(key), part, headers, partTime)
	// Only control objects decide anything between two writers.
	control := len(o.Metadata) > 0 && strings.HasPrefix(key, s.dir+"control/")
	switch {
	case !o.OnlyAbsent || !control:
		return err
	case err == nil || errors.Is(err, store.ErrTaken):
		return s.confirm(ctx, key, o)
	case passes(err):
		// It may be there all the same. Who looks next is to see whose it is.
		return errors.Join(err, wait.For(ctx, s.settle))
	}
	return err
}

// hexDigest returns the MD5 of what Swift is to store, which it then compares.
func hexDigest(b []byte) string {
	sum := md5.Sum(b)
	return hex.EncodeToString(sum[:])
}

func headersOf(o store.WriteOptions) map[string]string {
	h := map[string]string{"Content-Type": contentType}
	for name, value := range o.Metadata {
		h["X-Object-Meta-"+name] = value
	}
	if o.OnlyAbsent {
		h["If-None-Match"] = "*"
	}
	return h
}

// latenessTries is how often an object is stored that the server takes for an earlier one
// than it has: its servers' clocks differ by less than a second each time.
const latenessTries = 4

// put stores an object, each try in less than the time. The error is ErrTaken where the
// condition does not hold.
func (s *swift) put(ctx context.Context, url string, body []byte, headers map[string]string, each time.Duration) error {
	for try := 1; ; try++ {
		resp, err := s.request(ctx, http.MethodPut, url, gophercloud.RequestOpts{
			RawBody: bytes.NewReader(body), MoreHeaders: headers,
		}, each)
		switch {
		case notFound(err):
			return fmt.Errorf("%w: %w", errNoContainer, err)
		case swiftStatus(err) == http.StatusPreconditionFailed:
			return fmt.Errorf("%w: %w", store.ErrTaken, err)
		case err != nil:
			return err
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode == http.StatusCreated {
			return err
		}
		// The server has an object with a later time, which stays.
		switch {
		case headers["If-None-Match"] != "":
			return fmt.Errorf("%w: a later one is there", store.ErrTaken)
		case try == latenessTries:
			return fmt.Errorf("%w: the server keeps the object that it has, which it takes for a later one: its clocks differ",
				store.ErrUnreachable)
		}
		if err := wait.For(ctx, s.settle); err != nil {
			return err
		}
	}
}

// confirm says whose object is there after a conditional write. Swift asks each
// copy by itself whether there is an object, and lets the one with the latest time
// stay: of two writers at the same time both may get the answer that they made it. So a
// little later it is asked what is there.
func (s *swift) confirm(ctx context.Context, key string, o store.WriteOptions) error {
	if err := wait.For(ctx, s.settle); err != nil {
		return err
	}
	there, err := s.Attributes(ctx, key)
	if err != nil {
		return fmt.Errorf("see whose object is there: %w", err)
	}
	if !written(there, o) {
		return fmt.Errorf("%w: the object is another writer's", store.ErrTaken)
	}
	return nil
}

// written reports whether an object is the one of a write, which has metadata.
func written(there *driver.Attributes, o store.WriteOptions) bool {
	for name, value := range o.Metadata {
		if there.Metadata[strings.ToLower(name)] != value {
			return false
		}
	}
	return len(o.Metadata) > 0
}

// remove deletes an object. The segments of a large one are objects below it,
// which are deleted as such.
func (s *swift) remove(ctx context.Context, key string) error {
	resp, err := s.request(ctx, http.MethodDelete, s.url(key), gophercloud.RequestOpts{}, 0)
	if err != nil {
		if err = s.absent(ctx, err); notFound(err) && !errors.Is(err, errNoContainer) {
			return store.ErrAbsent
		}
		return err
	}
	return resp.Body.Close()
}

// A segment is one of a large object, as its manifest names it.
type segment struct {
	Path string `json:"path"`
	ETag string `json:"etag"`
	Size int    `json:"size_bytes"`

	number int
	key    string
}

// A segmentation is the upload of a large object under way.
type segmentation struct {
	*swift
	dir string

	mu sync.Mutex
	// sent are the segments that were sent, or may have been.
	sent []segment
}

// segmented stores first and what r holds as segments, and then the manifest that
// makes an object of them.
func (s *swift) segmented(ctx context.Context, key string, first []byte, r io.Reader, o store.WriteOptions) error {
	up := &segmentation{swift: s, dir: key + store.SegmentsDir + rand.Text() + "/"}
	err := (sender{cut: s.cut, server: "Swift", part: up.part}).send(ctx, first, r)
	if err != nil {
		return up.abort(ctx, err)
	}
	size := up.order()
	manifest, err := json.Marshal(up.sent)
	if err != nil {
		return up.abort(ctx, err)
	}
	if err := s.put(ctx, s.url(key)+"?multipart-manifest=put", manifest, headersOf(o), completeTime); err != nil {
		// It may be there all the same, and needs its segments then.
		looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
		there, lookErr := s.Attributes(looking, key)
		cancel()
		refused := swiftStatus(err) != 0 && !passes(err) || errors.Is(err, store.ErrTaken)
		switch {
		case lookErr == nil && written(there, o):
		case refused && (lookErr == nil || notFound(lookErr)):
			return up.abort(ctx, err)
		default:
			return err
		}
	}
	return up.check(ctx, key, size)
}

// part stores a segment.
func (up *segmentation) part(ctx context.Context, number int, content []byte) error {
	p := segment{ETag: hexDigest(content), Size: len(content), number: number, key: fmt.Sprintf("%s%08d", up.dir, number)}
	p.Path = "/" + up.container + "/" + p.key
	up.mu.Lock()
	up.sent = append(up.sent, p)
	up.mu.Unlock()
	err := up.put(ctx, up.url(p.key), content, map[string]string{"Content-Type": contentType, "ETag": p.ETag}, partTime)
	if err != nil {
		return fmt.Errorf("send part %d: %w", number, err)
	}
	return nil
}

// order puts the segments into their order, and returns the size of all.
func (up *segmentation) order() (size int64) {
	slices.SortFunc(up.sent, func(a, b segment) int { return a.number - b.number })
	for _, p := range up.sent {
		size += int64(p.Size)
	}
	return size
}

// check makes sure that a manifest is one for the server: one that has no large
// objects stores the manifest itself.
func (up *segmentation) check(ctx context.Context, key string, size int64) error {
	there, err := up.Attributes(ctx, key)
	switch {
	case err != nil:
		return fmt.Errorf("%w: see whether the segments are one object now: %w", store.ErrIncomplete, err)
	case there.Size == size:
		return nil
	}
	err = fmt.Errorf("%w: %w: its server makes no object of segments (static large objects, slo), so it holds none of more "+
		"than %d MiB", store.ErrIncomplete, store.ErrDenied, up.cut.small>>20)
	if left := up.remove(context.WithoutCancel(ctx), key); left != nil {
		err = fmt.Errorf("%w; delete %s, which is none: %w", err, key, left)
	}
	return up.abort(ctx, err)
}

// abort removes the segments because of an error, which it returns.
func (up *segmentation) abort(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
	defer cancel()
	for _, p := range up.sent {
		if err := up.remove(ctx, p.key); err != nil && !errors.Is(err, store.ErrAbsent) {
			return fmt.Errorf("%w; segments stay at %s: %w", cause, up.dir, errors.Join(err, ctx.Err()))
		}
	}
	return cause
}
