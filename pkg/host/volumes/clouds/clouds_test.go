package clouds

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
	"github.com/etcdadm/etcdadm/pkg/testing/testproxy"
)

// names are the providers of clouds.
var names = []string{"aws", "azure", "do", "gce", "hetzner", "linode", "openstack", "scaleway"}

func TestCloudsAreLinked(t *testing.T) {
	for _, name := range names {
		if volumes.Lookup(name) == nil {
			t.Errorf("--volume-provider=%s is not there", name)
		}
	}
}

// kops names a proxy, and metadata among its exceptions only on AWS.
func TestMetadataIsAskedForPastAProxy(t *testing.T) {
	for _, variable := range []string{
		"DIGITALOCEAN_ACCESS_TOKEN", "HCLOUD_TOKEN", "LINODE_TOKEN", "SCW_SECRET_KEY", "OS_USERNAME", "OS_PASSWORD",
	} {
		t.Setenv(variable, "11111111-1111-1111-1111-111111111111")
	}
	t.Setenv("SCW_ACCESS_KEY", "SCWXXXXXXXXXXXXXXXXX")
	t.Setenv("SCW_DEFAULT_PROJECT_ID", "11111111-1111-1111-1111-111111111111")
	t.Setenv("OS_AUTH_URL", "http://keystone.invalid")
	hosts := testproxy.Hosts(t, func() {
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				p, err := volumes.Lookup(name)(ctx, volumes.Options{
					ClusterName: "etcd", Tags: []string{"a=b"}, NameTag: "c", Root: t.TempDir(), Log: slog.New(slog.DiscardHandler),
				})
				if err != nil {
					t.Log(err)
					return
				}
				_, err = p.Address(ctx)
				t.Log(err)
			})
		}
	})
	for _, h := range hosts {
		if a, err := netip.ParseAddr(h); err == nil && a.IsLinkLocalUnicast() || h == "metadata.google.internal" {
			t.Errorf("the proxy was asked for %s", h)
		}
	}
}
