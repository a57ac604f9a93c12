package cloud

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/etcdadm/etcdadm/pkg/store"
)

// s3Config is what a location and the environment say of a bucket.
type s3Config struct {
	bucket, dir string
	// endpoint is a URL, empty for Amazon's own.
	endpoint string
	// key and secret are those of an S3 server, empty for the AWS default chain.
	key, secret string
	// region is where to begin; fixed says that it was given with the location,
	// and is not looked up.
	region string
	fixed  bool

	profile, role   string
	anonymous       bool
	dualStack, fips bool
	virtualHost     bool
	unconditional   bool
	checksums       string
	acl             types.ObjectCannedACL
	encryption      types.ServerSideEncryption
	encryptionKey   string

	// server is what answers, for a text; empty before there is a client.
	server string
	// lastFailure is why a request was last tried again; nil before there is a client.
	lastFailure *atomic.Pointer[failure]
}

// A failure is why a request was tried again.
type failure struct {
	at  time.Time
	why string
	// short is why in few words, the same for all tries that fail in the same way.
	short string
}

// Names of options, those of gocloud.dev's S3 driver where it has them.
const (
	optRegion        = "region"
	optEndpoint      = "endpoint"
	optProfile       = "profile"
	optRole          = "role"
	optAnonymous     = "anonymous"
	optDualStack     = "dualstack"
	optFIPS          = "fips"
	optPathStyle     = "use_path_style"
	optEncryption    = "ssetype"
	optEncryptionKey = "kmskeyid"
	optACL           = "acl"
	optChecksums     = "request_checksum_calculation"
	optConditional   = "conditional_writes"
)

func openS3(u *url.URL) (store.Dial, error) {
	c, err := parseS3(u)
	if err != nil {
		return nil, err
	}
	return c.dial, nil
}

func parseS3(u *url.URL) (*s3Config, error) {
	bucket, err := bucketName(u)
	if err != nil {
		return nil, err
	}
	o, err := parseOptions(u, optRegion, optEndpoint, optProfile, optRole, optAnonymous, optDualStack, optFIPS,
		optPathStyle, optEncryption, optEncryptionKey, optACL, optChecksums, optConditional)
	if err != nil {
		return nil, err
	}
	c := &s3Config{
		bucket: bucket, dir: u.Path, profile: o.text(optProfile), role: o.text(optRole),
		encryptionKey: o.text(optEncryptionKey),
	}
	for _, read := range []func(options) error{c.parseFlags, c.parseEncryption, c.parseACL} {
		if err := read(o); err != nil {
			return nil, err
		}
	}
	if err := c.parseServer(u.Scheme, o); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *s3Config) parseFlags(o options) (err error) {
	for name, to := range map[string]*bool{optAnonymous: &c.anonymous, optDualStack: &c.dualStack, optFIPS: &c.fips} {
		if *to, err = o.yes(name); err != nil {
			return err
		}
	}
	conditional, err := o.choice(optConditional, "on", "off")
	if err != nil {
		return err
	}
	c.unconditional = conditional == "off"
	pathStyle, err := o.choice(optPathStyle, "true", "false")
	if err != nil {
		return err
	}
	c.virtualHost = pathStyle == "false"
	c.checksums, err = o.choice(optChecksums, "when_supported", "when_required")
	return err
}

// parseEncryption: without the option nothing is asked for, and the bucket's
// default holds, which for Amazon is AES256 unless somebody chose a KMS key: to ask
// for AES256 would undo that choice.
func (c *s3Config) parseEncryption(o options) error {
	var kinds []string
	for _, kind := range types.ServerSideEncryption("").Values() {
		kinds = append(kinds, string(kind))
	}
	kind, err := o.choice(optEncryption, kinds...)
	if err != nil {
		return err
	}
	c.encryption = types.ServerSideEncryption(kind)
	if c.encryptionKey != "" && !strings.HasPrefix(kind, "aws:kms") {
		return fmt.Errorf("option %s needs %s=aws:kms", optEncryptionKey, optEncryption)
	}
	return nil
}

func (c *s3Config) parseACL(o options) error {
	acl, from := o.text(optACL), "option "+optACL
	if acl == "" {
		acl, from = os.Getenv("KOPS_STATE_S3_ACL"), "KOPS_STATE_S3_ACL"
	}
	c.acl = types.ObjectCannedACL(strings.TrimSpace(acl))
	if c.acl != "" && !slices.Contains(c.acl.Values(), c.acl) {
		return fmt.Errorf("%s is %q, it must be one of %v", from, acl, c.acl.Values())
	}
	return nil
}

// parseServer reads whose server it is, and the keys to it.
func (c *s3Config) parseServer(scheme string, o options) error {
	c.endpoint = o.text(optEndpoint)
	fromEnv := c.endpoint == ""
	if fromEnv {
		c.endpoint = os.Getenv("S3_ENDPOINT")
	}
	if c.endpoint == "" && scheme != "s3" {
		return fmt.Errorf("the environment variable S3_ENDPOINT is not set; %s:// needs it, and S3_ACCESS_KEY_ID and "+
			"S3_SECRET_ACCESS_KEY", scheme)
	}
	c.key, c.secret = os.Getenv("S3_ACCESS_KEY_ID"), os.Getenv("S3_SECRET_ACCESS_KEY")
	c.region = o.text(optRegion)
	c.fixed = c.region != ""
	if c.region == "" {
		c.region = os.Getenv("S3_REGION")
	}
	if c.endpoint == "" {
		// These keys are not Amazon's.
		c.key, c.secret = "", ""
		return nil
	}
	if c.region == "" {
		c.region = "us-east-1"
	}
	if !strings.Contains(c.endpoint, "://") {
		c.endpoint = "https://" + c.endpoint
	}
	if e, err := url.Parse(c.endpoint); err != nil || e.Host == "" || e.Scheme != "https" && e.Scheme != "http" ||
		e.User != nil || e.RawQuery != "" {
		return errors.New("the S3 endpoint must have the form https://HOST:PORT")
	}
	switch {
	case c.anonymous:
		c.key, c.secret = "", ""
	case (c.key == "") != (c.secret == "") || c.key == "" && (fromEnv || scheme != "s3"):
		return errors.New("S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY must both be set, since the S3 endpoint is")
	}
	return nil
}

// checksumMode says which checksums are sent. Servers other than Amazon's often
// do not know them, and have a digest of the content in the signature instead.
func (c *s3Config) checksumMode(ownServer bool) aws.RequestChecksumCalculation {
	if c.checksums == "when_required" || c.checksums == "" && ownServer {
		return aws.RequestChecksumCalculationWhenRequired
	}
	return aws.RequestChecksumCalculationWhenSupported
}
