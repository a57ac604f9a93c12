//go:build e2e

package e2e

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// All certificates live a few seconds, and everything goes on.
func TestCertificatesAreRenewedWhileRunning(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Env = []string{"ETCD_MANAGER_CERT_DURATION=45s", "ETCD_MANAGER_CERT_MIN_TIME_LEFT=30s"}
	c := harness.New(t.Context(), t, o)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	before := etcdPIDs(c)
	until := time.Now().Add(time.Minute)
	for time.Now().Before(until) {
		testwait.InTime(t, "100 writes", 10*time.Second, func() { w.WaitMore(harness.Soon, 100) })
	}
	if after := etcdPIDs(c); after != before {
		t.Errorf("etcd processes were %s and are %s", before, after)
	}
	c.WaitVoters(harness.Soon, 3)
	// New connections, daemon to daemon and etcd to etcd, need valid certificates.
	for _, n := range c.Nodes() {
		n.KillEtcd()
		c.WaitVoters(harness.Soon, 3)
	}
	idle(t, c)
}
