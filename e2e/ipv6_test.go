//go:build e2e

package e2e

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// The pod of kops on three machines of AWS that have addresses of IPv6 alone: they find each
// other by the cloud, by names and hosts files. One is replaced by a machine with another
// address.
func TestKopsPodWithIPv6Alone(t *testing.T) {
	t.Parallel()
	e := harness.KopsMain
	o := podOptions(t)
	o.Net = harness.NewNet6(t)
	c := harness.New(t.Context(), t, o)
	machines := e.AWSMachines(c, []string{"a", "b", "c"}, v36, "3.6.0")
	c.SetSpec(3, v36)
	kopsPods(c, e, machines)
	c.WaitNames(harness.Soon, "etcd-a", "etcd-b", "etcd-c")
	w := c.Write()
	w.WaitMore(harness.Soon, 5)
	sixOnly := func() {
		t.Helper()
		for _, m := range machines {
			hostsHave(t, c, m.Hosts(), c.Nodes())
			pairs, err := filepath.Glob(m.Seen("/rootfs/mnt/master-vol-*/pki/*/peers/me.crt"))
			if err != nil || len(pairs) != 1 {
				t.Fatalf("the certificates are %v, %v", pairs, err)
			}
			namesAre(t, pairs[0], m.Name, m.Name+"."+harness.KopsDomain, m.Address, "::1")
		}
	}
	sixOnly()

	machines[0].ReplaceInstance()
	machines[0].Pod(e.AWSArgs(c)...)
	c.WaitNames(harness.Soon, "etcd-a", "etcd-b", "etcd-c")
	sixOnly()
	w.WaitMore(harness.Soon, 5)
}

// Without names: the URLs have addresses of IPv6, and so have the seeds. A cluster of one
// grows to three.
func TestURLsOfIPv6(t *testing.T) {
	t.Parallel()
	needsNamespaces(t)
	o := options(t)
	o.Net, o.Unwatched = harness.NewNet6(t), true
	c := harness.New(t.Context(), t, o)
	nodes := []*harness.Node{c.Node("a"), c.Node("b"), c.Node("c")}
	for _, n := range nodes {
		n.Flags = []string{"--seeds=" + nodes[0].Endpoint() + "," + nodes[1].Endpoint()}
	}
	c.SetSpec(1, v36)
	c.Start("a", "b", "c")
	c.WaitVoters(harness.Soon, 1)
	w := c.Write()
	w.WaitMore(harness.Soon, 5)
	c.SetSpec(3, v36)
	c.WaitNames(harness.Soon, "a", "b", "c")
	for _, m := range members(t, c) {
		at := "https://" + net.JoinHostPort(c.Node(m.Name).Address, "")
		if !slices.Equal(m.PeerURLs, []string{at + "2380"}) || !slices.Equal(m.ClientURLs, []string{at + "4001"}) {
			t.Errorf("etcd has %v and %v of %s", m.PeerURLs, m.ClientURLs, m.Name)
		}
	}
	w.WaitMore(harness.Soon, 5)
	if out, err := c.Ctl("list-backups"); err != nil || !strings.Contains(out, "Z-") {
		t.Errorf("the backups are %q, %v", out, err)
	}
}
