package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

const (
	// pageSize is the largest page that the clouds return.
	pageSize = 1000
	// partSize and partsInFlight bound the memory of an upload, 24 MiB.
	partSize      = 8 << 20
	partsInFlight = 3
	// smallSize is from where an object of known size is no longer worth a
	// buffer of its own size; a multiple of the 256 KiB that GCS wants.
	smallSize = 256 << 10
	// writerKey is the key of the metadata by which a writer knows its object.
	writerKey = "writer"
	// probeKey is the object with which conditional writes are tried.
	probeKey = controlPrefix + "conditional-write"
)

// A bucket is objects in a bucket of a cloud, or in memory.
type bucket struct {
	Bucket
	prefix   string
	requests *atomic.Int64
	// probed says that conditional writes were tried, and work.
	probed atomic.Bool
}

func newBucket(b Bucket, requests *atomic.Int64) *bucket {
	opened := &bucket{Bucket: b, requests: requests}
	if dir := strings.Trim(b.Dir, "/"); dir != "" {
		opened.prefix = dir + "/"
	}
	return opened
}

func (b *bucket) close() error { return b.Blobs.Close() }

func (b *bucket) page(ctx context.Context, prefix string, from []byte) ([]object, []byte, error) {
	if from == nil {
		from = blob.FirstPageToken
	}
	b.requests.Add(1)
	listed, next, err := b.Blobs.ListPage(ctx, from, pageSize, &blob.ListOptions{Prefix: b.prefix + prefix})
	if err != nil {
		return nil, nil, b.whole(err)
	}
	found := make([]object, 0, len(listed))
	for _, o := range listed {
		// Consoles mark "directories" with empty objects.
		if !strings.HasSuffix(o.Key, "/") {
			found = append(found, object{key: strings.TrimPrefix(o.Key, b.prefix), size: o.Size, modTime: o.ModTime, md5: o.MD5})
		}
	}
	if len(next) == 0 {
		next = nil
	}
	return found, next, nil
}

// write stores what r holds. An error of a conditional write may have come after
// the object was made, by a request whose answer was lost and which was then
// repeated; so look whose object is there.
func (b *bucket) write(ctx context.Context, key string, r io.Reader, c condition) error {
	o := WriteOptions{OnlyAbsent: c.absent, Size: c.size}
	if !c.absent {
		b.requests.Add(1)
		return b.whole(b.put(ctx, b.prefix+key, r, o))
	}
	if err := b.probe(ctx, key); err != nil {
		return err
	}
	if b.Unconditional {
		return b.writeUnlessThere(ctx, key, r, o)
	}
	mine := rand.Text()
	o.Metadata = map[string]string{writerKey: mine}
	b.requests.Add(1)
	err := b.put(ctx, b.prefix+key, r, o)
	if err == nil || ctx.Err() != nil || errors.As(err, new(sourceError)) || errors.Is(err, ErrIncomplete) {
		return b.whole(err)
	}
	b.requests.Add(1)
	there, observeErr := b.Blobs.Attributes(ctx, b.prefix+key)
	observeErr = b.kind(observeErr)
	kind := b.whole(err)
	switch {
	case observeErr == nil && there.Metadata[writerKey] == mine:
		return nil
	case observeErr == nil && (taken(err) || errors.Is(kind, ErrDenied)):
		// Stores that deny overwriting may say so before they check the condition.
		return errExists
	case taken(err) && errors.Is(observeErr, ErrAbsent):
		return fmt.Errorf("%w: it says both that the key exists and that there is no object: the object was just deleted, or "+
			"is a version that was deleted: %w", ErrUnreachable, err)
	case observeErr == nil || errors.Is(observeErr, ErrAbsent):
		return kind
	case taken(err) && errors.Is(observeErr, ErrDenied):
		// One who may write, and not look, has to believe it.
		return errExists
	}
	return errors.Join(kind, observeErr)
}

// taken reports whether a store says that the condition of a write does not
// hold. gocloud.dev's code has other causes too, a closed bucket for one.
func taken(err error) bool {
	code := gcerrors.Code(err)
	return errors.Is(err, ErrTaken) || code == gcerrors.FailedPrecondition || code == gcerrors.AlreadyExists
}

// writeUnlessThere is the conditional write of a server that has none. Two
// writers at the same time can both succeed.
func (b *bucket) writeUnlessThere(ctx context.Context, key string, r io.Reader, o WriteOptions) error {
	b.requests.Add(2)
	there, err := b.Blobs.Exists(ctx, b.prefix+key)
	if err != nil {
		return b.kind(err)
	}
	if there {
		return errExists
	}
	o.OnlyAbsent = false
	return b.whole(b.put(ctx, b.prefix+key, r, o))
}

// probe makes sure that a conditional write of a control object is one: a
// server that ignores the condition would let two daemons both win the bootstrap
// of one cluster.
func (b *bucket) probe(ctx context.Context, key string) error {
	if !strings.HasPrefix(key, controlPrefix) || b.probed.Load() {
		return nil
	}
	if b.Unconditional {
		return fmt.Errorf("%w: it has no conditional writes, so it can only hold backups", ErrDenied)
	}
	if !b.VerifyConditional {
		return nil
	}
	// The first write makes the object, if there is none; the second must fail.
	for range 2 {
		b.requests.Add(1)
		err := b.put(ctx, b.prefix+probeKey, bytesReader(nil), WriteOptions{OnlyAbsent: true})
		if taken(err) {
			b.probed.Store(true)
			return nil
		}
		if err != nil {
			return fmt.Errorf("try a conditional write: %w", b.whole(err))
		}
	}
	return fmt.Errorf("%w: its server ignores the condition of a conditional write (If-None-Match), so two daemons "+
		"could both bootstrap the cluster; "+
		"use a server that has conditional writes", ErrDenied)
}

// put stores what r holds. It does not use Bucket.Upload, nor Bucket.WriteAll:
// in v0.47.0 both close the writer without cancelling it when the reader fails,
// which stores what has been read so far.
func (b *bucket) put(ctx context.Context, key string, r io.Reader, o WriteOptions) error {
	if b.Write != nil {
		return b.Write(ctx, key, r, o)
	}
	writing, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := b.Blobs.NewWriter(writing, key, &blob.WriterOptions{
		ContentType:    "application/octet-stream",
		IfNotExist:     o.OnlyAbsent,
		Metadata:       o.Metadata,
		BufferSize:     buffer(o.Size),
		MaxConcurrency: partsInFlight,
	})
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, r); err != nil {
		cancel()
		// The error of a cancelled Close says nothing new.
		_ = w.Close()
		return err
	}
	return w.Close()
}

// buffer returns the size of a buffer for an object, larger than the object
// where that is small: then it is stored in one request.
func buffer(size int64) int {
	if size < 0 || size >= partSize {
		return partSize
	}
	return int(size/smallSize+1) * smallSize
}

func (b *bucket) remove(ctx context.Context, key string) error {
	b.requests.Add(1)
	if b.Remove != nil {
		return b.kind(b.Remove(ctx, b.prefix+key))
	}
	return b.kind(b.Blobs.Delete(ctx, b.prefix+key))
}

// prune has nothing to do: buckets have no directories.
func (b *bucket) prune(context.Context, string) error { return nil }

// whole gives an error of a request that is not for one present object its kind.
// "Not found" is the bucket then, and no proof that anything is absent.
func (b *bucket) whole(err error) error {
	kind := b.kind(err)
	if errors.Is(kind, ErrAbsent) {
		return fmt.Errorf("%w: there is no such bucket: %w", ErrUnreachable, err)
	}
	return kind
}

// kind gives an error its kind, where it is known.
func (b *bucket) kind(err error) error {
	if err == nil {
		return nil
	}
	if b.Explain != nil && !errors.As(err, new(sourceError)) {
		if explained := b.Explain(err); explained != nil {
			return explained
		}
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return ErrAbsent
	case gcerrors.PermissionDenied:
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return err
}
