package store

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// pageSize is the largest page that the clouds return.
const pageSize = 1000

// A bucket is objects in a bucket of a cloud, or in memory.
type bucket struct {
	blobs    *blob.Bucket
	requests *atomic.Int64
}

func (b *bucket) close() error { return b.blobs.Close() }

func (b *bucket) list(ctx context.Context, prefix string) ([]object, error) {
	var all []object
	for token := blob.FirstPageToken; len(token) > 0; {
		b.requests.Add(1)
		page, next, err := b.blobs.ListPage(ctx, token, pageSize, &blob.ListOptions{Prefix: prefix})
		if err != nil {
			// Also "not found": that is the bucket then, and no proof of emptiness.
			return nil, err
		}
		for _, o := range page {
			// Consoles mark "directories" with empty objects.
			if !strings.HasSuffix(o.Key, "/") {
				all = append(all, object{key: o.Key, size: o.Size, modTime: o.ModTime, md5: o.MD5})
			}
		}
		token = next
	}
	return all, nil
}

func (b *bucket) open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	b.requests.Add(1)
	r, err := b.blobs.NewReader(ctx, key, nil)
	if err != nil {
		return nil, 0, absent(err)
	}
	return r, r.Size(), nil
}

// write does not use Bucket.Upload, nor Bucket.WriteAll: in v0.47.0 both close
// the writer without cancelling it when the reader fails, which stores what has
// been read so far.
func (b *bucket) write(ctx context.Context, key string, r io.Reader, onlyAbsent bool) error {
	b.requests.Add(1)
	writing, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := b.blobs.NewWriter(writing, key, &blob.WriterOptions{
		ContentType: "application/octet-stream",
		IfNotExist:  onlyAbsent,
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
	err = w.Close()
	if !onlyAbsent || gcerrors.Code(err) != gcerrors.FailedPrecondition && gcerrors.Code(err) != gcerrors.AlreadyExists {
		return err
	}
	// A failed precondition has other causes too, a closed bucket for one.
	b.requests.Add(1)
	there, lookErr := b.blobs.Exists(ctx, key)
	if lookErr != nil {
		return errors.Join(err, lookErr)
	}
	if there {
		return errExists
	}
	return err
}

func (b *bucket) remove(ctx context.Context, key string) error {
	b.requests.Add(1)
	return absent(b.blobs.Delete(ctx, key))
}

// prune has nothing to do: buckets have no directories.
func (b *bucket) prune(context.Context, string) error { return nil }

func absent(err error) error {
	if gcerrors.Code(err) == gcerrors.NotFound {
		return ErrAbsent
	}
	return err
}
