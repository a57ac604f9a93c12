//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// midway has a cluster of three change from one version to another, and returns when the
// first member runs that, with it and a follower that does not yet.
func midway(t *testing.T, c *harness.Cluster, from, to string) (w *harness.Writer, first, next *harness.Node) {
	t.Helper()
	c.Found(3, from, "a", "b", "c")
	w = c.Write()
	w.Watch()
	w.WaitMore(harness.Soon, 10)
	c.SetSpec(3, to)
	first, next = between(t, c, to)
	return w, first, next
}

// between waits until one member runs a version, and returns it, and a follower that
// runs the other one.
func between(t *testing.T, c *harness.Cluster, to string) (first, next *harness.Node) {
	t.Helper()
	eventually(t, c, "a member runs etcd "+to, func() error {
		first, next = nil, nil
		for _, n := range c.Nodes() {
			s, err := n.EtcdStatus(t.Context())
			switch {
			case err != nil:
			case s.Version == to:
				first = n
			case s.Leader != s.Header.MemberId:
				next = n
			}
		}
		if first == nil {
			return fmt.Errorf("none does")
		}
		return nil
	})
	if next == nil {
		next = first // all others were faster
	}
	return first, next
}

// The wanted version changes while the members run two: to the next one, and back.
func TestTheVersionChangesAgainMeanwhile(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	w, _, _ := midway(t, c, v35, v36)
	c.SetSpec(3, v37)
	runs(t, c, v37)
	c.SetSpec(3, v36)
	between(t, c, v36)
	c.SetSpec(3, v37)
	runs(t, c, v37)
	answers(t, c, v37)
	w.WaitMore(harness.Soon, 10)
}

// A machine is replaced by an empty one of its name while the members run two versions.
func TestAMachineIsReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	w, _, next := midway(t, c, v35, v36)
	id := memberID(t, c, next)
	next.LoseDisk()
	next.Start()
	waitNewMember(t, c, next, id)
	runs(t, c, v36)
	answers(t, c, v36)
	c.WaitVoters(harness.Soon, 3)
	w.WaitMore(harness.Soon, 10)
}
