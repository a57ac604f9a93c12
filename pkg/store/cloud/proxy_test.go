package cloud

import (
	"context"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/testproxy"
)

// The credentials of a machine come from its own link, which a proxy does not reach.
func TestCredentialsOfTheMachineAreAskedForPastAProxy(t *testing.T) {
	for _, host := range testproxy.Hosts(t, func() {
		for _, location := range []string{
			"azureblob://account1/container/path", "s3://bucket/path?region=us-east-1", "gs://bucket/path",
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			s, err := store.Open(ctx, location)
			if err == nil {
				_, err = s.Poll(ctx)
			}
			t.Log(location, err)
			cancel()
		}
	}) {
		if host == "169.254.169.254" || host == "169.254.170.2" || host == "metadata.google.internal" {
			t.Errorf("the proxy was asked for %s", host)
		}
	}
}
