//go:build e2e

package e2e

import (
	"context"
	"errors"
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
	c.Bootstrap(3, v36, "a", "b", "c")
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
	twin.WaitSaid(harness.Soon, 0, "is a copy of that member's", b.Address)
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

// clone returns a machine with a copy of b's disk, as it is while b is off.
func clone(t *testing.T, c *harness.Cluster) (b, twin *harness.Node) {
	t.Helper()
	b, twin = c.Node("b"), c.Node("twin")
	b.Stop()
	if err := os.CopyFS(twin.Dir, os.DirFS(b.Dir)); err != nil {
		t.Fatal(err)
	}
	twin.Flags, twin.MayEnd, b.MayEnd = []string{"--node-name=b"}, true, true
	return b, twin
}

// endsSaying waits until a daemon ends by itself, has said why, and has left no etcd.
func endsSaying(t *testing.T, n *harness.Node, why ...string) {
	t.Helper()
	if code := n.WaitExit(harness.Soon); code <= 0 {
		t.Errorf("%s ends with %d", n.Name, code)
	}
	n.WaitSaid(harness.Soon, 0, why...)
	if pid := n.EtcdPID(); pid != 0 {
		t.Errorf("two etcds are member b: that of %s is process %d", n.Name, pid)
	}
}

// at waits until etcd has member b on record at a node's address.
func at(c *harness.Cluster, n *harness.Node) {
	c.Eventually(harness.Soon, "b has the address of "+n.Name, func(ctx context.Context) error {
		members, err := c.Members(ctx)
		if err != nil {
			return err
		}
		for _, m := range members {
			if m.Name == "b" && strings.Contains(strings.Join(m.PeerURLs, " "), n.Address) {
				return nil
			}
		}
		return fmt.Errorf("the members are %v", members)
	})
}

// The copy is up first, while the original is off. It is member b from then on, and the
// original, which has the older data, starts nothing: neither beside the copy nor when
// that is off. Emptied, it takes the lost member's place.
func TestTheCopyOfAMachineIsUpFirst(t *testing.T) {
	t.Parallel()
	c := start(t, "--replace-grace=5s", "--bootstrap-grace=2s")
	c.Bootstrap(3, v36, "a", "b", "c")
	b, twin := clone(t, c)
	w := c.Write()
	twin.Start()
	at(c, twin)
	w.WaitMore(harness.Soon, 10)
	b.Start()
	endsSaying(t, b, "is a copy of that member's", twin.Address)
	w.WaitMore(harness.Soon, 100)
	twin.Kill()
	b.Start()
	endsSaying(t, b, "an older copy", "an empty data directory")
	if err := os.RemoveAll(b.Dir); err != nil {
		t.Fatal(err)
	}
	b.Start()
	at(c, b)
	c.WaitNames(harness.Soon, "a", "b", "c")
	w.WaitMore(harness.Soon, 10)
}

// Before etcd's record of the member has followed the copy, the others hear from it, and
// so the original does not start either.
func TestTheOriginalStartsBesideItsCopy(t *testing.T) {
	t.Parallel()
	c := start(t, "--replace-grace=60s", "--bootstrap-grace=2s")
	c.Bootstrap(3, v36, "a", "b", "c")
	b, twin := clone(t, c)
	// Its flags say what the original's do: the record stays.
	twin.Flags = append(twin.Flags, "--peer-urls=https://"+b.Address+":2380", "--etcd-address="+twin.Address)
	twin.Start()
	w := c.Write()
	c.Eventually(harness.Soon, "the copy follows a leader", func(ctx context.Context) error {
		s, err := twin.EtcdStatus(ctx)
		if err == nil && s.Leader == 0 {
			err = errors.New("it has none")
		}
		return err
	})
	w.WaitMore(harness.Soon, 10)
	// They begin no etcd, and listen for longer to what the others hear.
	slow := []string{"ETCD_HEARTBEAT_INTERVAL=1000", "ETCD_ELECTION_TIMEOUT=10000"}
	b.Env = slow
	b.Start()
	endsSaying(t, b, "is a copy of that member's", "hears from it")
	// Nor at the same address, from another directory.
	other := c.Node("other")
	if err := os.CopyFS(other.Dir, os.DirFS(b.Dir)); err != nil {
		t.Fatal(err)
	}
	other.Address, other.Flags, other.Env, other.MayEnd = twin.Address, twin.Flags, slow, true
	other.Start()
	endsSaying(t, other, "is a copy of that member's", "hears from it")
	w.WaitMore(harness.Soon, 100)
}

// The original starts while it sees nobody, and then sees the others, among them its
// copy, which has taken its place: it stops what it has started.
func TestTheOriginalComesBackFromAlone(t *testing.T) {
	t.Parallel()
	c := apart(t, "--replace-grace=60s", "--bootstrap-grace=2s")
	c.Bootstrap(3, v36, "a", "b", "c")
	b, twin := clone(t, c)
	twin.Start()
	at(c, twin)
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	c.Net.Cut(b)
	b.Start()
	b.WaitSaid(harness.Soon, 0, "running", b.Address)
	c.Net.Heal()
	endsSaying(t, b, "is a copy of that member's", twin.Address)
	w.WaitMore(harness.Soon, 100)
	at(c, twin)
}

// A machine is put back to an older image of its disk at its own address, with and
// without another leader in between. What it had acknowledged is not lost.
func TestAnOlderImageAtTheSameAddress(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.Bootstrap(3, v36, "a", "b", "c")
	b, image := c.Node("b"), t.TempDir()
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	for round, elect := range []bool{false, true} {
		b.Stop()
		if err := os.RemoveAll(image); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(image, os.DirFS(b.Dir)); err != nil {
			t.Fatal(err)
		}
		b.Start()
		c.WaitVoters(harness.Soon, 3)
		w.WaitMore(harness.Soon, 200)
		b.Kill()
		if elect {
			c.Node("a").Stop()
			c.Node("a").Start()
		}
		if err := os.RemoveAll(b.Dir); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(b.Dir, os.DirFS(image)); err != nil {
			t.Fatal(err)
		}
		b.Start()
		c.WaitNames(harness.Soon, "a", "b", "c")
		c.WaitVoters(harness.Soon, 3)
		w.WaitMore(harness.Soon, 20)
		t.Logf("round %d is over", round)
	}
}
