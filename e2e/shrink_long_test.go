//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// What clients have asked of one of two members when it is removed is answered. A leader that
// changes meanwhile drops writes, which is etcd's own: then nothing is proved, and another cluster is
// tried.
func TestNoWriteFailsWhereTwoBecomeOne(t *testing.T) {
	t.Parallel()
	for _, version := range []string{v35, v36, v37} {
		t.Run(version, func(t *testing.T) {
			for range 4 {
				failed, elected := becomeOne(t, version)
				switch {
				case elected:
					continue
				case failed > 0:
					t.Errorf("%d writes failed", failed)
				}
				return
			}
			t.Error("in each of four clusters there was an election that nobody ordered")
		})
	}
}

// becomeOne shrinks a cluster of two under load, and returns how many writes failed, and whether there
// was an election that nobody ordered.
func becomeOne(t *testing.T, version string) (failed int, elected bool) {
	c := start(t, quick...)
	defer c.Close()
	c.Bootstrap(2, version, "a", "b")
	handOver(t, c, c.Node("a")) // the last by name is removed
	c.Eventually(harness.Soon, "processes that etcd lets go", func(context.Context) error {
		r, err := c.Status()
		for _, n := range r.Observation.Nodes {
			if age := time.Since(n.Process.Since); err == nil && age < 10*time.Second {
				err = fmt.Errorf("etcd of %s has run for %s", n.Name, age)
			}
		}
		return err
	})
	w := c.Load(time.Millisecond)
	w.WaitMore(harness.Soon, 1000)
	term, before := raftTerm(t, c), w.Failed()
	c.SetSpec(1, version)
	c.WaitVoters(harness.Soon, 1)
	c.Eventually(harness.Soon, "one etcd process", func(context.Context) error { return running(c, 1) })
	w.WaitMore(harness.Soon, 1000)
	w.End()
	return w.Failed() - before, raftTerm(t, c) != term
}

func raftTerm(t *testing.T, c *harness.Cluster) uint64 {
	t.Helper()
	s, err := c.Node("a").EtcdStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.RaftTerm
}
