//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// The daemon of a node that does not coordinate stands still, as in a machine that is paused or
// migrated, and goes on. What others asked of it meanwhile is over, and what its own clock says of
// the others is not true: the coordinator stays, or changes once.
func TestFollowerStandsStill(t *testing.T) {
	t.Parallel()
	c := start(t, calm...)
	c.Bootstrap(3, v36, "a", "b", "c")
	lead(t, c, c.Node("a"))
	follower := c.Node("b") // the next in line
	for range 2 {
		was, err := c.Status()
		if err != nil {
			t.Fatal(err)
		}
		said := sizes(c)
		follower.Pause()
		pause(c, 20*time.Second)
		follower.Continue()
		pause(c, 12*time.Second)
		is, err := c.Status()
		if err != nil {
			t.Fatal(err)
		}
		if is.Term < was.Term || is.Term > was.Term+4 {
			t.Errorf("the term went from %d to %d", was.Term, is.Term)
		}
		elected := 0
		for _, n := range c.Nodes() {
			log := n.Said(said[n.Name])
			elected += strings.Count(log, "msg=coordinating")
			if strings.Contains(log, "no daemon coordinates") {
				t.Errorf("%s says that no daemon coordinates", n.Name)
			}
		}
		if elected > 1 {
			t.Errorf("the coordinator changed %d times", elected)
		}
		c.WaitNames(harness.Soon, "a", "b", "c")
	}
}
