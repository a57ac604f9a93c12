//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// What becomes of a cluster of the existing etcd-manager when it has been taken over: more
// members, TLS between them, other URLs, the next minor version and back, a lost disk, fewer
// members, and a restore on a machine with another name.
func TestLifeAfterATakeover(t *testing.T) {
	t.Parallel()
	o := options(t, calm...)
	o.Restored, o.RSA = true, true
	c := harness.New(t.Context(), t, o)
	serve := func(n *harness.Node, scheme string, port int) {
		n.Flags = []string{fmt.Sprintf("--peer-urls=%s://__address__:%d", scheme, port)}
		n.Start()
	}
	c.SetSpec(1, v35)
	serve(c.Node("a"), "http", 2380)
	c.WaitNames(harness.Soon, "a")
	put(t, c, "k", "of the existing one")
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
	w.End() // the restore loses what comes after the backup
	restoreElsewhere(t, c)
}

// restoreElsewhere loses all machines and restores on one with another name.
func restoreElsewhere(t *testing.T, c *harness.Cluster) {
	t.Helper()
	seen := put(t, c, "k", "before the loss")
	name := takeBackup(t, c)
	for _, n := range c.Nodes() {
		n.LoseDisk()
	}
	c.Node("z").Start()
	c.WaitHold(harness.Soon, "cluster-lost")
	queue(t, c, name, "--lost=a,b,c")
	if now := restored(t, c, "k", "before the loss"); now <= seen {
		t.Errorf("the revision is %d, it was %d", now, seen)
	}
	c.WaitNames(harness.Soon, "z")
}
