package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"cloud.google.com/go/storage"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcp"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"github.com/etcdadm/etcdadm/pkg/store"
)

const optUniverse = "universe_domain"

// A gcsConfig is what a location says of a bucket.
type gcsConfig struct {
	bucket, dir string
	anonymous   bool
	universe    string
}

func openGCS(u *url.URL) (store.Dial, error) {
	bucket, err := bucketName(u)
	if err != nil {
		return nil, err
	}
	o, err := parseOptions(u, optAnonymous, optUniverse)
	if err != nil {
		return nil, err
	}
	c := &gcsConfig{bucket: bucket, dir: u.Path, universe: o.text(optUniverse)}
	if c.anonymous, err = o.yes(optAnonymous); err != nil {
		return nil, err
	}
	// As the client library does it.
	c.anonymous = c.anonymous || os.Getenv("STORAGE_EMULATOR_HOST") != ""
	return c.dial, nil
}

// dial opens the bucket. It does not use gocloud.dev's opener, which prints to
// standard output when it finds no credentials, and goes on without (v0.47.0).
func (c *gcsConfig) dial(ctx context.Context) (*store.Bucket, error) {
	// Sources of credentials keep the context.
	ctx = context.WithoutCancel(ctx)
	transport, set := gcp.DefaultTransport(), []option.ClientOption(nil)
	web := gcp.NewAnonymousHTTPClient(transport)
	if !c.anonymous {
		found, err := gcp.DefaultCredentialsWithParams(ctx, google.CredentialsParams{UniverseDomain: c.universe})
		if err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrDenied, err)
		}
		if web, err = gcp.NewHTTPClient(transport, gcp.CredentialsTokenSource(found)); err != nil {
			return nil, err
		}
		if c.universe != "" {
			set = append(set, option.WithUniverseDomain(c.universe))
		}
	}
	client, err := storage.NewClient(ctx, append(set, option.WithHTTPClient(&web.Client))...)
	if err != nil {
		return nil, err
	}
	// All that we do may be repeated: whole objects are written, and the store
	// knows its own after a conditional write.
	client.SetRetry(storage.WithPolicy(storage.RetryAlways))
	blobs, err := gcsblob.OpenBucket(ctx, nil, c.bucket, &gcsblob.Options{Client: client})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &store.Bucket{Blobs: blobs, Dir: c.dir, Explain: c.explain}, nil
}

// explain gives errors of GCS their kind. For gocloud.dev a denied request is
// one for what is not there, and would make a store look empty.
func (c *gcsConfig) explain(err error) error {
	var answer *googleapi.Error
	switch {
	case errors.Is(err, storage.ErrBucketNotExist):
		return fmt.Errorf("%w: there is no bucket %s: %w", store.ErrUnreachable, c.bucket, err)
	case errors.As(err, &answer) && (answer.Code == http.StatusUnauthorized || answer.Code == http.StatusForbidden):
		return fmt.Errorf("%w: %w", store.ErrDenied, err)
	}
	return nil
}
