//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// hanging returns a cluster of a, b and c in which the disk of one that neither
// leads nor coordinates can be frozen.
func hanging(t *testing.T, flags ...string) (*harness.Cluster, *harness.Node, *harness.Disk) {
	t.Helper()
	if err := harness.DiskError(); err != nil {
		t.Skipf("no disk can be made to freeze: %v", err)
	}
	c := start(t, flags...)
	b := c.Node("b")
	d := c.NewDisk(b, 600)
	c.Bootstrap(3, v36, "a", "b", "c")
	if c.Coordinator() == b {
		b.Stop()
		b.Start()
		c.WaitVoters(harness.Soon, 3)
	}
	if leader(t, c) == b {
		handOver(t, c, c.Node("a"))
	}
	return c, b, d
}

// handOver has another member lead, from whichever leads now.
func handOver(t *testing.T, c *harness.Cluster, to *harness.Node) {
	t.Helper()
	c.Eventually(harness.Soon, "that "+to.Name+" leads", func(ctx context.Context) error {
		from := leader(t, c)
		if from == to {
			return nil
		}
		client, err := from.Client()
		if err == nil {
			_, err = client.MoveLeader(ctx, memberID(t, c, to))
		}
		return err
	})
}

// Three voters, one of them with a disk that hangs, and a spec of two: the hung
// one goes. It answers from memory, so by that it looks as good as the others,
// and with a good one gone, nothing could be written any more.
func TestHungDiskAndASmallerSpec(t *testing.T) {
	c, b, d := hanging(t)
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	d.Freeze()
	text := c.WaitHold(harness.Soon, "disk-hung")
	for _, part := range []string{"b (", b.Dir, "under way for"} {
		if !strings.Contains(text, part) {
			t.Errorf("the hold does not say %q: %s", part, text)
		}
	}
	c.SetSpec(2, v36)
	c.Eventually(harness.Soon, "a cluster of a and c", func(ctx context.Context) error {
		members, err := c.Members(ctx)
		if err != nil {
			return err
		}
		var names []string
		for _, m := range members {
			names = append(names, m.Name)
		}
		switch list := strings.Join(names, " "); {
		case !strings.Contains(list, "a") || !strings.Contains(list, "c"):
			t.Fatalf("a good member was removed: %s are left", list)
		case len(names) != 2:
			return fmt.Errorf("the members are %s", list)
		}
		return nil
	})
	w.WaitMore(harness.Soon, 10)
	d.Thaw()
	c.Eventually(harness.Soon, "b is cleared", func(context.Context) error {
		if pid := b.EtcdPID(); pid != 0 {
			return fmt.Errorf("etcd runs on b as process %d", pid)
		}
		return nil
	})
	w.WaitMore(harness.Soon, 10)
}

// Nobody writes, so etcd has nothing to put on the disk that hangs, and even
// serves reads through the quorum there. Only a write of the daemon shows it.
func TestHungDiskWhileNobodyWrites(t *testing.T) {
	c, _, d := hanging(t)
	d.Freeze()
	c.WaitHold(harness.Soon, "disk-hung")
	c.SetSpec(2, v36)
	c.WaitNames(harness.Soon, "a", "c")
}

// With a spare, the voter whose disk hangs is replaced, and no backup is taken of
// it meanwhile.
func TestHungDiskAndASpare(t *testing.T) {
	c, _, d := hanging(t, "--replace-grace=30s")
	w := c.Write()
	c.Start("d")
	w.WaitMore(harness.Soon, 10)
	d.Freeze()
	frozen := time.Now()
	c.WaitNames(2*harness.Soon, "a", "c", "d")
	if _, err := c.Ctl("take-backup", "--wait"); err != nil {
		t.Error(err)
	}
	history, err := c.History()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range history {
		if strings.Contains(e.Line, "backup take --node=b") && e.At.After(frozen) && e.Error == "" {
			t.Errorf("a backup of b while its disk hung: %+v", e)
		}
	}
	w.WaitMore(harness.Soon, 10)
}

// A spare without room for the database is not tried again and again: it is named with
// what it lacks, and keeps what it has. One with room takes the place.
func TestASpareWithASmallDisk(t *testing.T) {
	if err := harness.DiskError(); err != nil {
		t.Skipf("no small disk can be made: %v", err)
	}
	c := start(t)
	small := c.Node("c")
	c.NewDisk(small, 40)
	c.Bootstrap(2, v36, "a", "b")
	w := c.Write()
	small.Start()
	small.WaitSaid(harness.Soon, 0, "msg=running")
	c.SetSpec(3, v36)
	c.Eventually(harness.Soon, "the hold names c", func(context.Context) error {
		text := c.WaitHold(harness.Soon, "no-spare")
		if !strings.Contains(text, "c has ") || !strings.Contains(text, "MiB free and needs ") {
			return fmt.Errorf("it says: %s", text)
		}
		return nil
	})
	w.WaitMore(harness.Soon, 200)
	c.Start("d")
	c.WaitNames(harness.Soon, "a", "b", "d")
	w.WaitMore(harness.Soon, 10)
	history, err := c.History()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range history {
		if strings.Contains(e.Line, "--node=c") {
			t.Errorf("c was tried: %s", e.Line)
		}
	}
	if left, err := os.ReadDir(small.Dir); err != nil || slices.ContainsFunc(left, func(d os.DirEntry) bool {
		return strings.Contains(d.Name(), "trash") || strings.Contains(d.Name(), "aside")
	}) {
		t.Errorf("on c are %v, %v", left, err)
	}
}
