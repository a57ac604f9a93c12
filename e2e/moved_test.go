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
	measured := w.Measure()
	for _, n := range nodes {
		n.Stop()
		serve(n, "https", 2380)
		c.WaitNames(harness.Soon, "a", "b", "c")
		w.WaitMore(harness.Soon, 5)
	}
	settled("https", 2380)
	w.WaitMore(harness.Soon, 5)
	measured("TLS between members is switched on, machine by machine")

	measured = w.Measure()
	for _, n := range nodes {
		n.Stop()
	}
	for _, n := range nodes {
		serve(n, "https", 2390)
	}
	settled("https", 2390)
	w.WaitMore(harness.Soon, 5)
	measured("the port of peers is changed, on all machines at once")
	measured = w.Measure()
	clientsMove(t, c, w, nodes)
	measured("the port of clients is changed, machine by machine")
}

// clientsMove has another port for clients in the flags, machine by machine. Until the last
// machine has it, members serve at different ports; each daemon knows those of the others.
func clientsMove(t *testing.T, c *harness.Cluster, w *harness.Writer, nodes []*harness.Node) {
	t.Helper()
	const port = 4011
	for i, n := range nodes {
		n.Stop()
		w.WaitMore(harness.Soon, 5)
		n.ServeAt(port)
		n.Flags = append(n.Flags, fmt.Sprintf("--client-urls=https://__address__:%d", port))
		n.Start()
		moved := nodes[:i+1]
		eventually(t, c, "client URLs on etcd's record", func() error {
			members, err := c.Members(t.Context())
			for _, m := range members {
				want := c.Node(m.Name).ClientURL()
				if !slices.Equal(m.ClientURLs, []string{want}) {
					err = fmt.Errorf("%s serves at %v, want %s", m.Name, m.ClientURLs, want)
				}
			}
			return err
		})
		c.WaitNames(harness.Soon, "a", "b", "c")
		noHolds(t, c)
		to := c.WriteTo(moved...)
		to.WaitMore(harness.Soon, 5)
		to.End()
	}
	// The coordinator reaches all of them there: it does what is asked of it.
	if out, err := c.Ctl("take-backup", "--wait"); err != nil {
		t.Errorf("a backup: %v: %s", err, out)
	}
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
