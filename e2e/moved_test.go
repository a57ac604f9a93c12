//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// TLS is switched on between the members of a cluster that serves, and their port
// changed, by flags: machine by machine, and then on all machines at once.
func TestMembersFollowTheirURLs(t *testing.T) {
	t.Parallel()
	c := start(t)
	serve := func(n *harness.Node, scheme string, port int) {
		n.Flags = []string{fmt.Sprintf("--peer-urls=%s://__address__:%d", scheme, port)}
		n.Start()
	}
	settled := func(scheme string, port int) {
		t.Helper()
		recorded(t, c, scheme, port)
		c.WaitNames(harness.Soon, "a", "b", "c")
	}
	c.SetSpec(3, v36)
	nodes := []*harness.Node{c.Node("a"), c.Node("b"), c.Node("c")}
	for _, n := range nodes {
		serve(n, "http", 2380)
	}
	settled("http", 2380)

	w := c.Write()
	w.WaitMore(harness.Soon, 5)
	for _, n := range nodes {
		n.Stop()
		serve(n, "https", 2380)
		c.WaitNames(harness.Soon, "a", "b", "c")
		w.WaitMore(harness.Soon, 5)
	}
	settled("https", 2380)
	w.WaitMore(harness.Soon, 5)

	for _, n := range nodes {
		n.Stop()
	}
	for _, n := range nodes {
		serve(n, "https", 2390)
	}
	settled("https", 2390)
	w.WaitMore(harness.Soon, 5)
}

// recorded waits until etcd has the members at their addresses and a port.
func recorded(t *testing.T, c *harness.Cluster, scheme string, port int) {
	t.Helper()
	eventually(t, c, fmt.Sprintf("etcd's record of %s and %d", scheme, port), func() error {
		members, err := c.Members(t.Context())
		for _, m := range members {
			want := []string{fmt.Sprintf("%s://%s:%d", scheme, c.Node(m.Name).Address, port)}
			if !slices.Equal(m.PeerURLs, want) {
				err = fmt.Errorf("%s is at %v", m.Name, m.PeerURLs)
			}
		}
		return err
	})
}
