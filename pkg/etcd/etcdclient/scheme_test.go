package etcdclient

import (
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// While TLS is switched on member by member, some endpoints have it and others do not:
// each is called in its own way, whichever comes first.
func TestEndpointsWithAndWithoutTLS(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		r := newRealm(t, "main")
		m := etcdtest.New(t, "a")
		plain := m.ClientURL
		m.SecureClients(r.keep(t, r.issue(t, "a", "127.0.0.1", time.Hour)))
		secure := "https://" + testport.Address(t)
		m.ClientURL = plain
		m.Start(t, bin, "--listen-client-urls="+plain+","+secure)
		serving(t, open(t, m))

		nobody := testport.Address(t)
		config := r.client(r.issue(t, "x", "127.0.0.1", time.Hour))
		for _, endpoints := range []string{
			"http://" + nobody + " " + secure, secure + " http://" + nobody,
			plain + " https://" + nobody, "https://" + nobody + " " + plain,
		} {
			c, ctx := within(t, Options{Endpoints: strings.Fields(endpoints), TLS: config})
			if list, err := c.Members(ctx); err != nil || len(list) != 1 {
				t.Errorf("of %s: members %v, %v", endpoints, list, err)
			}
		}
		// The name in the certificate may be another one than the host that is called.
		elsewhere := strings.Replace(secure, "127.0.0.1", "localhost", 1)
		named, ctx := within(t, Options{Endpoints: []string{elsewhere}, TLS: config, ServerName: "127.0.0.1"})
		if r, err := named.Report(ctx); err != nil || r.ID == 0 || r.Version == (etcdversion.Version{}) {
			t.Errorf("report %+v, %v", r, err)
		}
		// Without certificates only those without TLS are called.
		c, ctx := within(t, Options{Endpoints: []string{secure, plain}})
		if r, err := c.Report(ctx); err != nil || r.ID == 0 {
			t.Errorf("report %+v, %v", r, err)
		}
	})
}
