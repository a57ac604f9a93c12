package proxies

import (
	"slices"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/testing/testproxy"
)

func TestRequestsToTheOwnLinkBypassTheProxy(t *testing.T) {
	hosts := testproxy.Hosts(t, func() {
		c := Client()
		c.Timeout = time.Second
		for _, u := range []string{
			"http://169.254.169.254/x", "http://169.254.170.2/x", "http://[fd00:ec2::254]/x",
			"http://[fd00:ec2::23]/x", "http://[fe80::1]/x",
			"http://example.invalid/x", "https://192.0.2.1/x",
		} {
			if r, err := c.Get(u); err == nil {
				r.Body.Close()
			}
		}
	})
	if want := []string{"192.0.2.1", "example.invalid"}; !slices.Equal(hosts, want) {
		t.Errorf("the proxy was asked for %q, want %q", hosts, want)
	}
}
