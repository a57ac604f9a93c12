//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// What becomes of a cluster of the existing etcd-manager when it has been taken over: more
// members, TLS between them, other URLs, the next minor version and back, a lost disk, and fewer
// members.
func TestLifeAfterATakeover(t *testing.T) {
	t.Parallel()
	o := options(t, calm...)
	o.RSA = true
	c := harness.New(t.Context(), t, o)
	serve := func(n *harness.Node, scheme string, port int) {
		n.Flags = []string{fmt.Sprintf("--peer-urls=%s://__address__:%d", scheme, port)}
		n.Start()
	}
	c.SetSpec(1, v35)
	serve(c.Node("a"), "http", 2380)
	c.WaitNames(harness.Soon, "a")
	asExisting(t, c)
	c.Node("a").Start()
	c.Eventually(harness.Soon, "one record, and its lease voter", func(ctx context.Context) error {
		return takenOver(ctx, c, 1, "a")
	})
	w := c.Write()
	more := func() { t.Helper(); w.WaitMore(harness.Soon, 10) }
	more()

	c.SetSpec(3, v35)
	for _, name := range []string{"b", "c"} {
		serve(c.Node(name), "http", 2380)
	}
	c.WaitNames(harness.Soon, "a", "b", "c")
	more()
	for _, n := range c.Nodes() {
		n.Stop()
		serve(n, "https", 2390)
		c.WaitNames(harness.Soon, "a", "b", "c")
		more()
	}
	recorded(t, c, "https", 2390)

	for _, version := range []string{v36, v35} {
		c.SetSpec(3, version)
		allRun(t, c, version)
		answers(t, c, version)
		more()
	}

	victim := follower(t, c)
	id := memberID(t, c, victim)
	victim.LoseDisk()
	victim.Start()
	waitNewMember(t, c, victim, id)
	more()

	c.SetSpec(1, v35)
	eventually(t, c, "one member", func() error { return running(c, 1) })
	more()
}
