package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"

	"gocloud.dev/blob"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"

	"github.com/etcdadm/etcdadm/pkg/store"
)

const (
	optUniverse = "universe_domain"
	// gcsEmulator is the variable of the environment that names an emulator.
	gcsEmulator = "STORAGE_EMULATOR_HOST"
	gcsScope    = "https://www.googleapis.com/auth/cloud-platform"
)

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
	// As Google's client library does it.
	c.anonymous = c.anonymous || os.Getenv(gcsEmulator) != ""
	return c.dial, nil
}

// dial opens the bucket. It makes no request, except for credentials.
func (c *gcsConfig) dial(ctx context.Context) (*store.Bucket, error) {
	// Sources of credentials keep the context.
	ctx = context.WithoutCancel(ctx)
	client, set := &http.Client{}, []option.ClientOption(nil)
	if !c.anonymous {
		found, err := google.FindDefaultCredentialsWithParams(ctx, google.CredentialsParams{
			Scopes: []string{gcsScope}, UniverseDomain: c.universe,
		})
		if err != nil {
			return nil, &credentialsError{service: "Google Cloud Storage", err: err,
				next: "set GOOGLE_APPLICATION_CREDENTIALS to the file of a key, or give the machine a service account"}
		}
		client.Transport = &oauth2.Transport{Source: found.TokenSource}
	}
	if c.universe != "" {
		set = append(set, option.WithUniverseDomain(c.universe))
	}
	if host := os.Getenv(gcsEmulator); host != "" {
		if !strings.Contains(host, "://") {
			host = "http://" + host
		}
		set = append(set, option.WithEndpoint(strings.TrimSuffix(host, "/")+"/storage/v1/"))
	}
	api, err := storage.NewService(ctx, append(set, option.WithHTTPClient(client))...)
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(api.BasePath)
	if err != nil {
		return nil, err
	}
	g := &gcs{client: client, api: api.Objects, bucket: c.bucket, content: at.ResolveReference(&url.URL{Path: "/"})}
	return &store.Bucket{Blobs: blob.NewBucket(g), Dir: c.dir, Write: g.write, Explain: g.explain}, nil
}

// gcsStatus returns the status of an answer, 0 where there was none.
func gcsStatus(err error) int {
	var answer *googleapi.Error
	if errors.As(err, &answer) {
		return answer.Code
	}
	return 0
}

// explain gives errors of GCS their kind. A denied request can be one for what is not
// there, which would make a store look empty.
func (g *gcs) explain(err error) error {
	var answer *googleapi.Error
	switch status := gcsStatus(err); {
	case noToken(err):
		return fmt.Errorf("%w: Google gives no token for these credentials; check the clock of this machine, and that the key "+
			"in GOOGLE_APPLICATION_CREDENTIALS has been neither deleted nor disabled; where it names a workload identity pool, that "+
			"the pool and its provider are there and accept this machine's token: %w", store.ErrDenied, err)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Errorf("%w: %w", store.ErrDenied, err)
	case status == http.StatusNotFound && errors.As(err, &answer) &&
		strings.Contains(answer.Body, "bucket does not exist"):
		return fmt.Errorf("%w: there is no bucket %s: %w", store.ErrUnreachable, g.bucket, err)
	}
	return nil
}

// exchange finds the status in the errors of workload identity federation, which have no type: of the service
// that gives out the first token, of Google's that takes it, and of the service account that is
// then impersonated.
var exchange = regexp.MustCompile(`oauth2/google(?:/externalaccount)?: status code (\d{3}):`)

// noToken reports whether the credentials were refused where they are exchanged for a token, as
// with a key that was deleted. An answer that may be another one the next time is none.
func noToken(err error) bool {
	var refused *oauth2.RetrieveError
	status := 0
	if errors.As(err, &refused) && refused.Response != nil {
		status = refused.Response.StatusCode
	} else if refusal := exchange.FindStringSubmatch(fmt.Sprint(err)); refusal != nil {
		status, _ = strconv.Atoi(refusal[1]) // three digits
	}
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		return true
	}
	return false
}
