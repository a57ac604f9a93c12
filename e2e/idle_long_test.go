//go:build e2e

package e2e

import (
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// A cluster of daemons that has a long history, and that nobody writes to, grows: a learner that gets
// a snapshot applies nothing after it until somebody writes.
func TestAnIdleClusterGrows(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Unwatched = true // who watches writes
	c := harness.New(t.Context(), t, o)
	c.Bootstrap(1, v36, "a")
	client, err := c.NewClient(c.Node("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	writers := new(errgroup.Group)
	for range 50 { // 20,000 entries: the log has only the last ones, and etcd sends a snapshot
		writers.Go(func() error {
			for range 400 {
				if _, err := client.Put(t.Context(), "k", "v"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	c.SetSpec(3, v36)
	c.Start("b", "c")
	c.WaitVoters(harness.Soon, 3)
}
