package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

func TestBootstrap(t *testing.T) {
	t.Parallel()
	for count, names := range map[int][]string{1: {"a"}, 3: {"a", "b", "c"}, 5: {"a", "b", "c", "d", "e"}} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			c := start(t)
			c.Bootstrap(count, v36, names...)
			c.Write().WaitMore(harness.Soon, 10)
			eventually(t, c, "the marker and one incarnation record", func() error {
				if _, err := os.Stat(filepath.Join(c.Store, "control/etcd-cluster-created")); err != nil {
					return err
				}
				records, err := os.ReadDir(filepath.Join(c.Store, "control/incarnations"))
				if len(records) != 1 {
					return fmt.Errorf("records: %v, %w", records, err)
				}
				return nil
			})
		})
	}
}

func TestBootstrapWithoutCertificates(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Insecure = true
	c := harness.New(t.Context(), t, o)
	c.Bootstrap(3, v36, "a", "b", "c")
	c.Write().WaitMore(harness.Soon, 10)
}

func TestBootstrapWithRSA(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.RSA = true
	c := harness.New(t.Context(), t, o)
	c.Bootstrap(3, v36, "a", "b", "c")
	c.Write().WaitMore(harness.Soon, 10)
}

// One node fewer than the spec wants has the same quorum, and is enough.
func TestBootstrapWithOneNodeMissing(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.SetSpec(3, v36)
	c.Start("a", "b")
	c.WaitNames(harness.Soon, "a", "b")
	w := c.Write()
	c.Start("c")
	c.WaitNames(harness.Soon, "a", "b", "c")
	w.WaitMore(harness.Soon, 10)
}

func TestBootstrapWaitsForNodesAndSpec(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.Start("a")
	c.Node("a").WaitSaid(harness.Soon, 0, "spec-missing")
	c.SetSpec(3, v36)
	c.Node("a").WaitSaid(harness.Soon, 0, "waiting-for-nodes")
	c.Start("b", "c")
	c.WaitNames(harness.Soon, "a", "b", "c")
}

// running checks how many nodes run an etcd, and that the others have their
// data out of the way.
func running(c *harness.Cluster, want int) error {
	n := 0
	for _, node := range c.Nodes() {
		if node.EtcdPID() != 0 {
			n++
			continue
		}
		if left, _ := filepath.Glob(filepath.Join(node.Dir, "data/*/member")); len(left) > 0 {
			return fmt.Errorf("%s runs no etcd and has %v", node.Name, left)
		}
	}
	if n != want {
		return fmt.Errorf("%d nodes run etcd, want %d", n, want)
	}
	return nil
}

// An evicted node stays out, also when all daemons start again.
func TestShrinkStaysShrunk(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	c.SetSpec(1, v36)
	c.WaitVoters(harness.Soon, 1)
	c.Eventually(harness.Soon, "one etcd process", func(context.Context) error { return running(c, 1) })
	for _, n := range c.Nodes() {
		n.Stop()
	}
	for _, n := range c.Nodes() {
		n.Start()
	}
	c.WaitVoters(harness.Soon, 1)
	w.WaitMore(harness.Soon, 10)
	if err := running(c, 1); err != nil {
		t.Error(err)
	}
	idle(t, c)
}

// idle waits until the coordinator has nothing to do, and checks that it then
// does nothing.
func idle(t *testing.T, c *harness.Cluster) {
	t.Helper()
	c.Eventually(harness.Soon, "the cluster is as the spec says", func(context.Context) error {
		r, err := c.Status()
		if err == nil && !r.Converged {
			err = fmt.Errorf("holds: %v", r.Holds)
		}
		return err
	})
	began := time.Now()
	pause(c, 4*time.Second)
	all, err := c.History()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		// Backups have a clock of their own.
		if e.At.After(began) && !strings.Contains(e.Line, "etcdadm backup ") {
			t.Errorf("nothing was to be done, and %s did: %s", e.By, e.Line)
		}
	}
}

func TestReplaceByAnotherName(t *testing.T) {
	t.Parallel()
	c := start(t, calm...)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	gone := follower(t, c)
	gone.Kill()
	c.Start("d")
	c.WaitNames(harness.Soon, others(c, gone.Name)...)
	w.WaitMore(harness.Soon, 10)

	// The machine comes back with its old data: it stays out, and its data is
	// put aside.
	gone.Start()
	c.Eventually(harness.Soon, "its data is put aside", func(context.Context) error {
		if aside, _ := filepath.Glob(filepath.Join(gone.Dir, "data-trashcan/*")); len(aside) == 0 {
			return fmt.Errorf("nothing is in data-trashcan")
		}
		return running(c, 3)
	})
	c.WaitNames(harness.Soon, others(c, gone.Name)...)
	w.WaitMore(harness.Soon, 10)
}

func TestReplaceSameNameEmptyDisk(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	victim := follower(t, c)
	id := memberID(t, c, victim)
	victim.LoseDisk()
	victim.Start()
	waitNewMember(t, c, victim, id)
	w.WaitMore(harness.Soon, 10)
}

func TestReplaceSameNameUselessData(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	victim := follower(t, c)
	id := memberID(t, c, victim)
	victim.Kill()
	// The write-ahead log is gone and the rest is there.
	wals, err := filepath.Glob(filepath.Join(victim.Dir, "data/*/member/wal/*.wal"))
	if err != nil || len(wals) == 0 {
		t.Fatalf("write-ahead log: %v, %v", wals, err)
	}
	for _, wal := range wals {
		if err := os.WriteFile(wal, []byte("this is no log"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	victim.Start()
	waitNewMember(t, c, victim, id)
	w.WaitMore(harness.Soon, 10)
}

func eventually(t *testing.T, c *harness.Cluster, what string, cond func() error) {
	t.Helper()
	c.Eventually(harness.Soon, what, func(context.Context) error { return cond() })
}

// follower returns a node that hosts a voter and neither leads nor coordinates.
func follower(t *testing.T, c *harness.Cluster) *harness.Node {
	t.Helper()
	coordinator := c.Coordinator()
	for _, n := range c.Nodes() {
		s, err := n.EtcdStatus(t.Context())
		if err == nil && s.Leader != s.Header.MemberId && n != coordinator {
			return n
		}
	}
	// The leader and the coordinator are not one, and there is no third.
	for _, n := range c.Nodes() {
		if n != coordinator && n.EtcdPID() != 0 {
			return n
		}
	}
	t.Fatal("there is no follower")
	return nil
}

func leader(t *testing.T, c *harness.Cluster) *harness.Node {
	t.Helper()
	var leads *harness.Node
	c.Eventually(harness.Soon, "a leader", func(ctx context.Context) error {
		for _, n := range c.Nodes() {
			if s, err := n.EtcdStatus(ctx); err == nil && s.Leader == s.Header.MemberId {
				leads = n
				return nil
			}
		}
		return errors.New("nobody leads")
	})
	return leads
}

// members returns the member list, also where there is an election at first.
func members(t *testing.T, c *harness.Cluster) (list []*clientv3.Member) {
	t.Helper()
	c.Eventually(harness.Soon, "a member list", func(ctx context.Context) (err error) {
		list, err = c.Members(ctx)
		return err
	})
	return list
}

// voters is [members] for the names of those that are well.
func voters(t *testing.T, c *harness.Cluster) (names []string) {
	t.Helper()
	c.Eventually(harness.Soon, "voters that are well", func(ctx context.Context) (err error) {
		names, err = c.Voters(ctx)
		return err
	})
	return names
}

func memberID(t *testing.T, c *harness.Cluster, n *harness.Node) uint64 {
	t.Helper()
	var id uint64
	c.Eventually(harness.Soon, "an answer of the etcd of "+n.Name, func(ctx context.Context) error {
		s, err := n.EtcdStatus(ctx)
		if err == nil {
			id = s.Header.MemberId
		}
		return err
	})
	return id
}

// waitNewMember waits until the node runs a voter with another id.
func waitNewMember(t *testing.T, c *harness.Cluster, n *harness.Node, old uint64) {
	t.Helper()
	c.Eventually(harness.Soon, n.Name+" is replaced", func(ctx context.Context) error {
		names, err := c.Voters(ctx)
		if err != nil {
			return err
		}
		s, err := n.EtcdStatus(ctx)
		if err == nil && (s.Header.MemberId == old || len(names) != 3) {
			err = fmt.Errorf("the voters are %v, member id %x, before %x", names, s.Header.MemberId, old)
		}
		return err
	})
}

// others returns the names of all nodes but one.
func others(c *harness.Cluster, not string) []string {
	var names []string
	for _, n := range c.Nodes() {
		if n.Name != not {
			names = append(names, n.Name)
		}
	}
	return names
}
