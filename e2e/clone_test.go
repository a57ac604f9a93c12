//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// A machine is cloned with its disk: two daemons have one name, one state file and one
// member's data. The second one starts no etcd, says why, ends, and disturbs nobody.
func TestAClonedMachine(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.Found(3, v36, "a", "b", "c")
	b, twin := c.Node("b"), c.Node("twin")
	b.Stop()
	if err := os.CopyFS(twin.Dir, os.DirFS(b.Dir)); err != nil {
		t.Fatal(err)
	}
	b.Start()
	c.WaitVoters(harness.Soon, 3)
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	twin.Flags, twin.MayEnd = []string{"--node-name=b"}, true
	twin.Start()
	if code := twin.WaitExit(harness.Soon); code <= 0 {
		t.Errorf("it ends with %d", code)
	}
	twin.WaitSaid(harness.Soon, 0, "is a copy of its", b.Address)
	if pid := twin.EtcdPID(); pid != 0 {
		t.Errorf("two etcds are member b: that of the twin is process %d", pid)
	}
	w.WaitMore(harness.Soon, 100)
	c.WaitNames(harness.Soon, "a", "b", "c")
	// The other machine is gone: this one takes its place, as with a disk that was moved.
	b.Kill()
	twin.Start()
	c.Eventually(harness.Soon, "b has the address of the other machine", func(ctx context.Context) error {
		members, err := c.Members(ctx)
		if err != nil {
			return err
		}
		for _, m := range members {
			if m.Name == "b" && strings.Contains(strings.Join(m.PeerURLs, " "), twin.Address) {
				return nil
			}
		}
		return fmt.Errorf("the members are %v", members)
	})
	w.WaitMore(harness.Soon, 10)
}
