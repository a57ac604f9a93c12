package cloud

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"gocloud.dev/blob/s3blob"

	"github.com/etcdadm/etcdadm/pkg/internal/backoff"
	"github.com/etcdadm/etcdadm/pkg/internal/netreason"
	"github.com/etcdadm/etcdadm/pkg/internal/proxies"
	"github.com/etcdadm/etcdadm/pkg/store"
)

const (
	defaultRegion = "us-east-1"
	// attempts is how often a request is tried. AWS_MAX_ATTEMPTS overrides it. The
	// pauses between them are random and, on average, double from firstPause to
	// lastPause: about 45 seconds in all.
	attempts   = 10
	firstPause = 200 * time.Millisecond
	lastPause  = 15 * time.Second
)

// dial opens the bucket.
func (c *s3Config) dial(ctx context.Context) (*store.Bucket, error) {
	u, err := c.uploader(ctx)
	if err != nil {
		return nil, err
	}
	blobs, err := s3blob.OpenBucket(ctx, u.client, c.bucket, nil)
	if err != nil {
		return nil, err
	}
	return &store.Bucket{
		Blobs: blobs, Dir: c.dir, Server: c.server, Failing: c.failing, Write: u.write, Remove: u.remove, Explain: c.explain,
		VerifyConditional: u.ownServer, Unconditional: c.unconditional,
	}, nil
}

// uploader makes the client. Of Amazon's buckets it looks up the region.
func (c *s3Config) uploader(ctx context.Context) (*uploader, error) {
	cfg, err := c.load(ctx)
	if err != nil {
		return nil, err
	}
	// Also AWS_ENDPOINT_URL_S3 and the profile may name a server.
	server := s3.NewFromConfig(cfg).Options().BaseEndpoint
	ownServer := server != nil
	cfg.RequestChecksumCalculation = c.checksumMode(ownServer)
	if c.checksums == "" && ownServer {
		cfg.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	}
	if !ownServer && !c.fixed {
		if cfg.Region, err = regionOf(ctx, cfg, c.bucket); err != nil {
			return nil, err
		}
	}
	c.server = "Amazon S3, region " + cfg.Region
	if ownServer {
		c.server = "the S3 server " + *server
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = ownServer && !c.virtualHost })
	return &uploader{
		config: c, client: client, ownServer: ownServer, cut: standardCut,
		checksums: cfg.RequestChecksumCalculation == aws.RequestChecksumCalculationWhenSupported,
	}, nil
}

// load returns the SDK's configuration: the default chain, and what we know.
func (c *s3Config) load(ctx context.Context) (aws.Config, error) {
	// Sources of credentials keep the context.
	ctx = context.WithoutCancel(ctx)
	// Credentials of the machine are asked for past any proxy.
	web := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.Proxy = proxies.Of })
	set := []func(*config.LoadOptions) error{config.WithHTTPClient(web)}
	if c.region != "" {
		set = append(set, config.WithRegion(c.region))
	}
	if c.profile != "" {
		set = append(set, config.WithSharedConfigProfile(c.profile))
	}
	if c.key != "" {
		set = append(set, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(c.key, c.secret, "")))
	}
	if c.anonymous {
		set = append(set, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	}
	if c.dualStack {
		set = append(set, config.WithUseDualStackEndpoint(aws.DualStackEndpointStateEnabled))
	}
	if c.fips {
		set = append(set, config.WithUseFIPSEndpoint(aws.FIPSEndpointStateEnabled))
	}
	cfg, err := config.LoadDefaultConfig(ctx, set...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("read the configuration of AWS: %w", err)
	}
	if c.endpoint != "" {
		cfg.BaseEndpoint = aws.String(c.endpoint)
	}
	if cfg.Region == "" && c.role != "" {
		cfg.Region = defaultRegion
	}
	if c.role != "" {
		token := cfg.Copy()
		token.BaseEndpoint = nil
		cfg.Credentials = aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(token), c.role))
	}
	if !c.anonymous && cfg.Credentials != nil {
		cfg.Credentials = aws.NewCredentialsCache(awsCredentials{cfg.Credentials})
	}
	tries := cfg.RetryMaxAttempts
	if tries == 0 {
		tries = attempts
	}
	c.lastFailure = &atomic.Pointer[failure]{}
	cfg.Retryer = func() aws.Retryer { return retryer(tries, c.failed) }
	return cfg, nil
}

// retryer repeats what a store that is throttled, or loses connections, may
// answer later. It has no budget, which long uploads would use up. Failed receives
// why a try failed that is followed by another.
func retryer(tries int, failed func(error)) aws.Retryer {
	standard := retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = tries
		o.RateLimiter = ratelimit.None
		o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(unknownName)}, o.Retryables...)
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, err error) (time.Duration, error) {
			failed(err)
			pause := backoff.Doubled(firstPause, lastPause, attempt-1)
			return pause/2 + rand.N(pause), nil
		})
	})
	// Two conditional writes of one key at the same time.
	return retry.AddWithErrorCodes(standard, "ConditionalRequestConflict")
}

// unknownName says that a try is not repeated where nobody has the name of the server: waiting helps
// nobody then. Who has credentials has been tried several times already.
func unknownName(err error) aws.Ternary {
	var dns *net.DNSError
	if errors.As(err, new(*credentialsError)) {
		return aws.FalseTernary
	}
	if errors.As(err, &dns) && dns.IsNotFound {
		return aws.FalseTernary
	}
	return aws.UnknownTernary
}

// regionOf asks S3 where a bucket is. Anybody may ask: also an answer that
// denies says it. A configured region is where to ask, and not always the
// bucket's: kops sets AWS_REGION to the cluster's.
func regionOf(ctx context.Context, cfg aws.Config, bucket string) (string, error) {
	region := cfg.Region
	if region == "" {
		region = defaultRegion
	}
	found, err := askRegion(ctx, cfg, region, bucket)
	if (err != nil || found == "") && cfg.Region == "" {
		// Not of the main partition of AWS, or the network ends at a nearer region.
		out, imdsErr := imds.NewFromConfig(cfg).GetRegion(ctx, &imds.GetRegionInput{})
		if imdsErr == nil && out.Region != region {
			region = out.Region
			found, err = askRegion(ctx, cfg, region, bucket)
		}
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("look up the region of bucket %s (or give it, with ?%s=): %w", bucket, optRegion, err)
	case found == "":
		return region, nil
	}
	return found, nil
}

// askRegion returns "" if S3 answers and does not say.
func askRegion(ctx context.Context, cfg aws.Config, region, bucket string) (string, error) {
	cfg = cfg.Copy()
	cfg.Region, cfg.Credentials = region, aws.AnonymousCredentials{}
	out, err := s3.NewFromConfig(cfg).HeadBucket(ctx, &s3.HeadBucketInput{Bucket: aws.String(bucket)})
	if err == nil {
		return aws.ToString(out.BucketRegion), nil
	}
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) && answer.HTTPStatusCode() < http.StatusInternalServerError {
		return answer.Response.Header.Get("X-Amz-Bucket-Region"), nil
	}
	return "", err
}

// failed remembers why a try failed.
func (c *s3Config) failed(err error) {
	c.lastFailure.Store(&failure{time.Now(), err.Error(), shortly(err)})
}

// shortly is why a try failed without what the SDK puts around it, and without what is another in each try.
func shortly(err error) string {
	var connection *net.OpError
	var api smithy.APIError
	switch {
	case errors.As(err, &connection):
		return netreason.Plain(connection.Error())
	case errors.As(err, &api):
		return store.Steady(api.ErrorCode() + ": " + api.ErrorMessage())
	}
	return store.Steady(err.Error())
}

// failing returns why tries fail, empty where none did a moment ago.
func (c *s3Config) failing() string {
	if last := c.recent(); last != nil {
		return last.short
	}
	return ""
}

// recent returns the last failure, nil if it is long ago.
func (c *s3Config) recent() *failure {
	if c.lastFailure == nil {
		return nil
	}
	last := c.lastFailure.Load()
	if last == nil || time.Since(last.at) > 2*lastPause {
		return nil
	}
	return last
}

// explain gives errors of S3 their kind.
func (c *s3Config) explain(err error) error {
	if missing, ok := errors.AsType[*credentialsError](err); ok {
		return missing // the server was not asked
	}
	if last := c.recent(); last != nil && errors.Is(err, context.DeadlineExceeded) {
		// What the time was spent on, which the SDK does not say.
		return fmt.Errorf("%w: %s: %w, after failures; the last one was: %s", store.ErrUnreachable, c.server, err, last.why)
	}
	var code string
	var api smithy.APIError
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	status := 0
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) {
		status = answer.HTTPStatusCode()
	}
	switch {
	case code == "NoSuchBucket":
		return fmt.Errorf("%w: there is no bucket %s: %w", store.ErrUnreachable, c.bucket, err)
	case code == "NotImplemented" || status == http.StatusNotImplemented:
		return fmt.Errorf("%w: the S3 server does not implement this; if it is the condition of a write (If-None-Match), "+
			"use a server that has "+
			"conditional writes, or, for a store that holds backups only, the option ?%s=off: %w", store.ErrDenied,
			optConditional, err)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Errorf("%w: %w", store.ErrDenied, err)
	case code == "NoSuchKey" || code == "NotFound":
		return store.ErrAbsent
	case status == 0 && code == "" && !errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: no answer from %s: %w", store.ErrUnreachable, c.server, err)
	}
	return nil
}
