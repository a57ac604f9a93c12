//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// rounds is how often a cluster is cut in two; ETCDADM_E2E_ROUNDS gives another
// number for a long run.
func rounds(def int) int {
	if n, err := strconv.Atoi(os.Getenv("ETCDADM_E2E_ROUNDS")); err == nil {
		return n
	}
	return def
}

// apart returns a cluster whose nodes have a network of their own.
func apart(t *testing.T, flags ...string) *harness.Cluster {
	t.Helper()
	o := options(t, flags...)
	needsNamespaces(t)
	o.Net = harness.NewNet(t)
	return harness.New(t.Context(), t, o)
}

var partitions = []struct {
	nodes, spec int
	// side is how many nodes are cut off.
	side int
}{
	{5, 3, 2},
	{4, 1, 2},
	{4, 2, 2},
}

func nodeNames(n int) []string { return []string{"a", "b", "c", "d", "e"}[:n] }

// somebody returns that many nodes at random.
func somebody(c *harness.Cluster, count int) []*harness.Node {
	nodes := c.Nodes()
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	return nodes[:count]
}

// Two sides that cannot see each other both want to bootstrap a cluster, and at
// most one does. When they see each other again, there is one cluster.
func TestPartitionBeforeBootstrap(t *testing.T) {
	t.Parallel()
	for _, p := range partitions {
		t.Run(fmt.Sprintf("%d nodes for %d", p.nodes, p.spec), func(t *testing.T) {
			for round := range rounds(1) {
				c := apart(t, "--bootstrap-grace=1s", "--replace-grace=5s")
				c.SetSpec(p.spec, v36)
				for _, name := range nodeNames(p.nodes) {
					c.Node(name)
				}
				c.Net.Cut(somebody(c, p.side)...)
				c.Start(nodeNames(p.nodes)...)
				// From "no daemon has looked yet" to "both could have bootstrapped".
				pause(c, time.Duration(rand.IntN(10000))*time.Millisecond)
				c.Net.Heal()
				c.WaitVoters(harness.Soon, p.spec)
				c.Write().WaitMore(harness.Soon, 10)
				if ids := c.ClusterIDs(); len(ids) != 1 {
					t.Errorf("round %d: clusters %v", round, ids)
				}
				c.Close()
			}
		})
	}
}

// A running cluster is cut in two, again and again, while it is written to and
// its spec changes.
func TestPartitionWhileRunning(t *testing.T) {
	t.Parallel()
	for _, p := range partitions {
		t.Run(fmt.Sprintf("%d nodes for %d", p.nodes, p.spec), func(t *testing.T) {
			c := apart(t, quick...)
			c.Bootstrap(p.spec, v36, nodeNames(p.nodes)...)
			w := c.Write()
			w.WaitMore(harness.Soon, 10)
			for round := range rounds(2) {
				c.Net.Cut(somebody(c, p.side)...)
				if round%2 == 1 {
					c.SetSpec(p.nodes-1, v36)
				}
				// Longer than the lease and the grace time, or shorter than both.
				pause(c, time.Duration(500+rand.IntN(12000))*time.Millisecond)
				if round%2 == 1 {
					c.SetSpec(p.spec, v36)
				}
				c.Net.Heal()
				c.WaitVoters(2*harness.Soon, p.spec)
				w.WaitMore(harness.Soon, 10)
			}
			pause(c, 10*time.Second) // the store is polled, so a spec that is over may still be seen
			allServe(c, p.spec)      // nobody is down for the grace time before idle has looked
			idle(t, c)
		})
	}
}

// A node is cut off at some time in a restore, and comes back. There is one
// cluster then, with what was restored.
func TestPartitionInARestore(t *testing.T) {
	t.Parallel()
	for round := range rounds(2) {
		c := apart(t, quick...)
		c.Restored = true
		c.Bootstrap(3, v36, "a", "b", "c")
		put(t, c, "k", "1")
		name := takeBackup(t, c)
		put(t, c, "k", "2")
		queue(t, c, name, "--skip-backup")
		pause(c, time.Duration(rand.IntN(8000))*time.Millisecond)
		c.Net.Cut(somebody(c, 1)...)
		pause(c, time.Duration(rand.IntN(6000))*time.Millisecond)
		c.Net.Heal()
		restored(t, c, "k", "1")
		c.WaitNames(harness.Soon, "a", "b", "c")
		if v, _ := read(t, c, "k"); v != "1" {
			t.Errorf("round %d: k is %q", round, v)
		}
		c.Close()
	}
}
