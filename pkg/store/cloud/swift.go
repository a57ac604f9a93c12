package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"gocloud.dev/blob"

	"github.com/etcdadm/etcdadm/pkg/internal/keystone"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// settleTime is enough for the requests of all that wrote at the same time to end.
const settleTime = time.Second

// A swiftConfig is what a location and the environment say of a container.
type swiftConfig struct {
	container, dir string
	settings       keystone.Settings
	unconditional  bool
	// settle is how long after a conditional write of a control object it is looked
	// whose object is there: see [swift.confirm].
	settle time.Duration
}

func openSwift(u *url.URL) (store.Dial, error) {
	c, err := parseSwift(u)
	if err != nil {
		return nil, err
	}
	return c.dial, nil
}

func parseSwift(u *url.URL) (*swiftConfig, error) {
	name, err := bucketName(u)
	if err != nil {
		return nil, err
	}
	o, err := parseOptions(u, optRegion, optConditional)
	if err != nil {
		return nil, err
	}
	c := &swiftConfig{container: name, dir: strings.Trim(u.Path, "/"), settle: settleTime}
	writes, err := o.choice(optConditional, "on", "off")
	if err != nil {
		return nil, err
	}
	c.unconditional = writes == "off"
	// Below /rootfs is the host's file system in a container of kops.
	if c.settings, err = keystone.Find("/rootfs"+keystone.Path, keystone.Path); err != nil {
		return nil, err
	}
	if region := o.text(optRegion); region != "" {
		c.settings.Region = region
	}
	return c, nil
}

// dial logs in and opens the container.
func (c *swiftConfig) dial(ctx context.Context) (*store.Bucket, error) {
	client, err := c.settings.Login(ctx)
	if err != nil {
		if denies(err) {
			err = fmt.Errorf("%w: %w", store.ErrDenied, err)
		}
		return nil, err
	}
	service, err := openstack.NewObjectStorageV1(client, c.settings.Endpoint())
	if err != nil {
		return nil, fmt.Errorf("%w: OpenStack's catalogue has no object store in region %q: %w", store.ErrUnreachable,
			c.settings.Region, err)
	}
	s := &swift{client: service, container: c.container, cut: swiftCut, settle: c.settle}
	if c.dir != "" {
		s.dir = c.dir + "/"
	}
	return &store.Bucket{
		Blobs: blob.NewBucket(s), Dir: c.dir, Write: s.write, Remove: s.remove, Explain: s.explain,
		VerifyConditional: true, Unconditional: c.unconditional,
	}, nil
}

// swiftStatus returns the status of a server's answer, 0 where there was none.
// Of a token that could not be renewed it is Keystone's, where that says something of the
// credentials or of a server in trouble: what Keystone does not find is not the object.
func swiftStatus(err error) int {
	var renewal *gophercloud.ErrUnableToReauthenticate
	var answer gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &renewal) {
		if !errors.As(renewal.ErrReauth, &answer) {
			return 0
		}
		switch status := answer.Actual; {
		case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests,
			status >= http.StatusInternalServerError:
			return status
		}
		return 0
	}
	if errors.As(err, &answer) {
		return answer.Actual
	}
	return 0
}

// notFound reports whether Swift says that there is no such object, or no container. What
// is in front of it, as a load balancer, says so too where it has nobody to ask.
func notFound(err error) bool {
	var answer gophercloud.ErrUnexpectedResponseCode
	return swiftStatus(err) == http.StatusNotFound && errors.As(err, &answer) &&
		answer.ResponseHeader.Get("X-Trans-Id") != ""
}

// denies reports whether an answer says that the credentials are wrong, or may
// not do this.
func denies(err error) bool {
	status := swiftStatus(err)
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// errNoContainer is the answer for what is in no container.
var errNoContainer = errors.New("there is no such container")

// explain gives errors of Swift their kind.
func (s *swift) explain(err error) error {
	switch {
	case errors.Is(err, errNoContainer):
		return fmt.Errorf("%w: there is no container %s: %w", store.ErrUnreachable, s.container, err)
	case denies(err):
		return fmt.Errorf("%w: %w", store.ErrDenied, err)
	}
	return nil
}
