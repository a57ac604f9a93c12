//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// insecure starts three nodes whose etcd has no TLS.
func insecure(t *testing.T, c *harness.Cluster, version string) []*harness.Node {
	t.Helper()
	c.SetSpec(3, version)
	nodes := []*harness.Node{c.Node("a"), c.Node("b"), c.Node("c")}
	for _, n := range nodes {
		n.EtcdInsecure.Store(true)
		n.Start()
	}
	recorded(t, c, "http", harness.PeerPort)
	c.WaitNames(harness.Soon, "a", "b", "c")
	return nodes
}

// again stops a daemon and starts it with or without TLS for etcd.
func again(n *harness.Node, insecure bool) {
	n.Stop()
	n.EtcdInsecure.Store(insecure)
	n.Start()
}

// found waits until etcd has the peer and client URLs of a node with these schemes.
func found(t *testing.T, c *harness.Cluster, n *harness.Node, peer, client string) {
	t.Helper()
	wantPeer := []string{fmt.Sprintf("%s://%s:%d", peer, n.Address, harness.PeerPort)}
	wantClient := []string{fmt.Sprintf("%s://%s:%d", client, n.Address, harness.ClientPort)}
	eventually(t, c, fmt.Sprintf("etcd's record of %s", n.Name), func() error {
		members, err := c.Members(t.Context())
		for _, m := range members {
			if m.Name == n.Name && !(slices.Equal(m.PeerURLs, wantPeer) && slices.Equal(m.ClientURLs, wantClient)) {
				err = fmt.Errorf("%s is at %v and %v", m.Name, m.PeerURLs, m.ClientURLs)
			}
		}
		return err
	})
}

// TLS of etcd is switched on in a cluster that serves, by the flag of one daemon after the
// other. Clients of each member are served all the time, but for its own restarts, and what
// was acknowledged stays.
func TestEtcdGetsTLSMachineByMachine(t *testing.T) {
	t.Parallel()
	for _, version := range []string{v35, v36} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := start(t)
			nodes := insecure(t, c, version)
			all, writers := c.Write(), []*harness.Writer{}
			for _, n := range nodes {
				writers = append(writers, c.WriteTo(n))
			}
			write := func() {
				t.Helper()
				for _, w := range append(slices.Clone(writers), all) {
					w.WaitMore(harness.Soon, 5)
				}
			}
			write()
			measured := all.Measure()
			for i, n := range nodes {
				again(n, false)
				for j, o := range nodes {
					scheme := "https"
					if j > i {
						scheme = "http"
					}
					found(t, c, o, scheme, scheme)
				}
				c.WaitNames(harness.Soon, "a", "b", "c")
				write()
			}
			noHolds(t, c)
			measured("TLS of etcd " + version + " is switched on, machine by machine")

			// There is no way back: the peers keep TLS, and that is reported.
			again(nodes[0], true)
			holds(t, c, "TLS is not switched off in a running cluster: give the daemon on a its URLs")
			found(t, c, nodes[0], "https", "http")
			write()
			again(nodes[0], false)
			noHolds(t, c)
			found(t, c, nodes[0], "https", "https")
			write()
		})
	}
}

// One machine has no CAs for etcd. The members keep their URLs until it has; a daemon there
// that is to use TLS says what is missing.
func TestEtcdGetsNoTLSWithoutKeysOnAllMachines(t *testing.T) {
	t.Parallel()
	c := start(t)
	without := c.Node("c")
	without.PKIDir = filepath.Join(c.Dir, "pki-of-c")
	install := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if err := c.PKI.CAs[name].Write(without.PKIDir, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.MkdirAll(without.PKIDir, 0o700); err != nil {
		t.Fatal(err)
	}
	install(harness.ManagerCA)
	nodes := insecure(t, c, v36)
	w := c.Write()
	for _, n := range nodes[:2] {
		again(n, false)
		holds(t, c, n.Name+", and its flags say https://", "TLS is not switched on while c could not call it")
		found(t, c, n, "http", "https")
		c.WaitNames(harness.Soon, "a", "b", "c")
		w.WaitMore(harness.Soon, 5)
	}

	without.MayEnd = true
	said := without.LogSize()
	without.Stop()
	without.EtcdInsecure.Store(false)
	without.Start()
	if code := without.WaitExit(harness.Soon); code == 0 {
		t.Error("it ended well without CAs")
	}
	without.WaitSaid(harness.Soon, said, harness.PeersCA)
	w.WaitMore(harness.Soon, 5)
	without.EtcdInsecure.Store(true)
	without.Start()
	c.WaitNames(harness.Soon, "a", "b", "c")
	holds(t, c, "TLS is not switched on while c could not call it")

	install(harness.PeersCA, harness.ClientsCA)
	again(without, true)
	found(t, c, nodes[0], "https", "https")
	found(t, c, nodes[1], "https", "https")
	found(t, c, without, "http", "http")
	w.WaitMore(harness.Soon, 5)
	again(without, false)
	found(t, c, without, "https", "https")
	noHolds(t, c)
	w.WaitMore(harness.Soon, 5)
}

// holds waits for a hold peer-url-differs whose text has all the parts.
func holds(t *testing.T, c *harness.Cluster, parts ...string) {
	t.Helper()
	status(t, c, func(list []plan.Hold) bool {
		return slices.ContainsFunc(list, func(h plan.Hold) bool {
			lacks := func(part string) bool { return !strings.Contains(h.Text, part) }
			return h.Reason == plan.PeerURLDiffers && !slices.ContainsFunc(parts, lacks)
		})
	})
}

// noHolds waits until there is no hold peer-url-differs.
func noHolds(t *testing.T, c *harness.Cluster) {
	t.Helper()
	status(t, c, func(list []plan.Hold) bool {
		return !slices.ContainsFunc(list, func(h plan.Hold) bool { return h.Reason == plan.PeerURLDiffers })
	})
}

// status waits until the published holds are as they should be.
func status(t *testing.T, c *harness.Cluster, want func([]plan.Hold) bool) {
	t.Helper()
	c.Eventually(harness.Soon, "the holds", func(context.Context) error {
		r, err := c.Status()
		if err == nil && !want(r.Holds) {
			err = fmt.Errorf("they are %v", r.Holds)
		}
		return err
	})
}
