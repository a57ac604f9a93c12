//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// A downgrade that is taken back when the first member has changed, with that member's
// daemon and the coordinator killed in between: it is cancelled, and all run the later
// version again.
func TestADowngradeIsTakenBack(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.Found(3, v36, "a", "b", "c")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	c.SetSpec(3, v35)
	var first string
	eventually(t, c, "a member runs the earlier version", func() error {
		for _, n := range c.Nodes() {
			if s, err := n.EtcdStatus(t.Context()); err == nil && s.Version == v35 {
				first = n.Name
				return nil
			}
		}
		return fmt.Errorf("none does")
	})
	c.SetSpec(3, v36)
	for _, n := range []*harness.Node{c.Node(first), c.Coordinator()} {
		if n.Running() {
			n.Kill()
			n.Start()
		}
	}
	allRun(t, c, v36)
	answers(t, c, v36)
	w.WaitMore(harness.Soon, 10)
	r, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	if o := r.Observation; !o.Downgrade.IsZero() {
		t.Errorf("the downgrade to %s is still enabled", o.Downgrade)
	}
}
