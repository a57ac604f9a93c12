//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// The life of a cluster, in each minor version of etcd.
func TestGrowShrinkReplace(t *testing.T) {
	t.Parallel()
	for version, sizes := range map[string][]int{v36: {3, 5, 3, 2, 1}, v35: {3, 2}, v37: {3, 2}} {
		t.Run(version, func(t *testing.T) {
			c := start(t, quick...)
			c.Bootstrap(1, version, "a", "b", "c", "d", "e")
			w := c.Write()
			for _, count := range sizes {
				c.SetSpec(count, version)
				c.WaitVoters(harness.Soon, count)
				c.Eventually(harness.Soon, "as many etcd processes as members", func(context.Context) error {
					return running(c, count)
				})
			}
			c.SetSpec(3, version)
			c.WaitVoters(harness.Soon, 3)
			w.WaitMore(harness.Soon, 10)
			victim := follower(t, c)
			victim.LoseDisk()
			c.Eventually(harness.Soon, "another takes its place", func(ctx context.Context) error {
				names, err := c.Voters(ctx)
				if err == nil && (len(names) != 3 || slices.Contains(names, victim.Name)) {
					err = fmt.Errorf("the voters are %v", names)
				}
				return err
			})
			w.WaitMore(harness.Soon, 10)
		})
	}
}

// The raft leader's disk is lost, and the coordinator's with it where they are
// one machine.
func TestReplaceEachInTurn(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	for _, n := range c.Nodes() {
		id := memberID(t, c, n)
		n.LoseDisk()
		n.Start()
		waitNewMember(t, c, n, id)
		w.WaitMore(harness.Soon, 10)
	}
}
