package cloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/store"
)

const (
	// partTime bounds one try of sending a part, completeTime one of putting the
	// parts together, abortTime the cleaning up.
	partTime     = 5 * time.Minute
	completeTime = 15 * time.Minute
	abortTime    = 30 * time.Second
	contentType  = "application/octet-stream"
)

// standardCut needs 15 MiB of memory, and 32 MiB from 39 GiB on, where the parts
// grow, which no etcd reaches. It ends at 101 GiB. Up to there all parts but the
// last are of one size, as some servers want it: the least that S3 takes.
var standardCut = cut{small: 5 << 20, large: 32 << 20, first: 8000, atOnce: 3, most: 10000}

// An uploader writes objects. gocloud.dev's S3 writer (v0.47.0), on the SDK's
// transfer manager, has parts of one size and up to 64 MiB of them in memory.
type uploader struct {
	config *s3Config
	client *s3.Client
	// ownServer says that the server is not Amazon's.
	ownServer bool
	// checksums says that each part has a CRC-32 that the server checks.
	checksums bool
	cut       cut
}

func (u *uploader) algorithm() types.ChecksumAlgorithm {
	if u.checksums {
		return types.ChecksumAlgorithmCrc32
	}
	return ""
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// within bounds each try of a request: a server that stops answering is asked again.
func within(d time.Duration) func(*s3.Options) {
	return func(o *s3.Options) {
		if client, ok := o.HTTPClient.(*awshttp.BuildableClient); ok {
			o.HTTPClient = client.WithTimeout(d)
		}
	}
}

func condition(o store.WriteOptions) *string {
	if o.OnlyAbsent {
		return aws.String("*")
	}
	return nil
}

func (u *uploader) write(ctx context.Context, key string, r io.Reader, o store.WriteOptions) error {
	part, whole, err := u.cut.begin(r)
	switch {
	case err != nil:
		return err
	case whole:
		return u.put(ctx, key, part, o)
	}
	return u.multipart(ctx, key, part, r, o)
}

func (u *uploader) put(ctx context.Context, key string, body []byte, o store.WriteOptions) error {
	_, err := u.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &u.config.bucket, Key: &key, Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))),
		ContentType: aws.String(contentType), Metadata: o.Metadata, IfNoneMatch: condition(o),
		ChecksumAlgorithm: u.algorithm(),
		ACL:               u.config.acl, ServerSideEncryption: u.config.encryption,
		SSEKMSKeyId: optional(u.config.encryptionKey),
	}, within(partTime))
	return whether(err)
}

// whether marks the answer that the condition of a write does not hold.
func whether(err error) error {
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusPreconditionFailed {
		return fmt.Errorf("%w: %w", store.ErrTaken, err)
	}
	return err
}

func (u *uploader) remove(ctx context.Context, key string) error {
	_, err := u.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &u.config.bucket, Key: &key})
	return err
}

// multipart stores first and what r holds. If it fails, or ctx ends, it takes
// the parts back before it returns.
func (u *uploader) multipart(ctx context.Context, key string, first []byte, r io.Reader, o store.WriteOptions) error {
	created, err := u.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: &u.config.bucket, Key: &key, ContentType: aws.String(contentType), Metadata: o.Metadata,
		ChecksumAlgorithm: u.algorithm(),
		ACL:               u.config.acl, ServerSideEncryption: u.config.encryption,
		SSEKMSKeyId: optional(u.config.encryptionKey),
	})
	if err != nil {
		return fmt.Errorf("begin a multipart upload: %w", err)
	}
	m := &multipart{uploader: u, key: key, id: created.UploadId}
	if err = (sender{cut: u.cut, server: "S3", part: m.sendPart}).send(ctx, first, r); err == nil {
		_, err = u.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
			Bucket: &u.config.bucket, Key: &key, UploadId: m.id, IfNoneMatch: condition(o),
			MultipartUpload: &types.CompletedMultipartUpload{Parts: m.parts()},
		}, within(completeTime))
	}
	if err == nil {
		return nil
	}
	err = whether(err)
	if abortErr := m.abort(context.WithoutCancel(ctx)); abortErr != nil {
		return fmt.Errorf("%w; its parts stay until a lifecycle rule of the bucket deletes them: %w", err,
			abortErr)
	}
	return err
}

// aborts is how often an upload is aborted, where the server does not say before that it is
// gone.
const aborts = 3

// abort removes the parts. A part that is under way meanwhile may still arrive, and then
// has to be removed, too (API reference, AbortMultipartUpload).
func (m *multipart) abort(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, abortTime)
	defer cancel()
	for i := range aborts {
		_, err := m.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
			Bucket: &m.config.bucket, Key: &m.key, UploadId: m.id,
		})
		if isGone(err) || err == nil && i == aborts-1 {
			return nil
		}
		if err == nil {
			err = wait.For(ctx, 50*time.Millisecond)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isGone(err error) bool {
	var gone *types.NoSuchUpload
	return errors.As(err, &gone)
}

// A multipart upload under way.
type multipart struct {
	*uploader
	key string
	id  *string

	mu   sync.Mutex
	done []types.CompletedPart
}

// parts returns the parts that were sent, in order.
func (m *multipart) parts() []types.CompletedPart {
	slices.SortFunc(m.done, func(a, b types.CompletedPart) int { return int(*a.PartNumber - *b.PartNumber) })
	return m.done
}

func (m *multipart) sendPart(ctx context.Context, number int, content []byte) error {
	sent, err := m.client.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &m.config.bucket, Key: &m.key, UploadId: m.id, PartNumber: aws.Int32(int32(number)),
		Body: bytes.NewReader(content), ContentLength: aws.Int64(int64(len(content))), ChecksumAlgorithm: m.algorithm(),
	}, within(partTime))
	if err != nil {
		return fmt.Errorf("send part %d: %w", number, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done = append(m.done, types.CompletedPart{
		PartNumber: aws.Int32(int32(number)), ETag: sent.ETag, ChecksumCRC32: sent.ChecksumCRC32,
	})
	return nil
}
