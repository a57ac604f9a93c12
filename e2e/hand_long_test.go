//go:build e2e

package e2e

import (
	"context"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// What the daemon does, a person can do: the printed plan, run line by line,
// ends where the daemon ends.
func TestScriptEqualsDaemon(t *testing.T) {
	t.Parallel()
	ends := map[string]string{}
	for _, who := range []string{"daemon", "script"} {
		c := start(t)
		c.Bootstrap(3, v36, "a", "b", "c", "d", "e")
		w := c.Write()
		w.WaitMore(harness.Soon, 10)
		env := byHand(t, c)
		was := 3
		for _, count := range []int{5, 2} {
			allServe(c, was)
			was = count
			if who == "script" {
				if _, err := c.Ctl("pause", "--reason=by hand"); err != nil {
					t.Fatal(err)
				}
			}
			c.SetSpec(count, v36)
			if who == "script" {
				script(t, c, env, count)
			}
			c.WaitVoters(harness.Soon, count)
			c.Eventually(harness.Soon, "as many etcd processes as members", func(context.Context) error {
				return running(c, count)
			})
			if who == "script" {
				if _, err := c.Ctl("resume"); err != nil {
					t.Fatal(err)
				}
			}
		}
		idle(t, c)
		ends[who] = end(t, c, env)
	}
	if ends["daemon"] != ends["script"] {
		t.Errorf("the daemon ends at\n%s\nthe script at\n%s", ends["daemon"], ends["script"])
	}
}
