//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// gated has a later version wait for a file before it becomes etcd. It returns the cluster
// without nodes, a function that waits for the first member that runs it, and one that
// makes the file.
func gated(t *testing.T, o harness.Options) (c *harness.Cluster, between func() *harness.Node, open func()) {
	t.Helper()
	o, put := withLater(t, o)
	c = harness.New(t.Context(), t, o)
	dir := t.TempDir()
	gate := filepath.Join(dir, "gate")
	put(c, ": >"+dir+"/runs-$ETCD_NAME", "while ! [ -e "+gate+" ]; do sleep 0.1; done")
	between = func() (first *harness.Node) {
		t.Helper()
		eventually(t, c, "a member runs the new version", func() error {
			for _, n := range c.Nodes() {
				if _, err := os.Stat(filepath.Join(dir, "runs-"+n.Name)); err == nil {
					first = n
					return nil
				}
			}
			return errors.New("none does")
		})
		return first
	}
	open = func() {
		t.Helper()
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c, between, open
}

// beside are the nodes but one.
func beside(c *harness.Cluster, but *harness.Node) []*harness.Node {
	return slices.DeleteFunc(c.Nodes(), func(n *harness.Node) bool { return n == but })
}

func pids(nodes []*harness.Node) (list []int) {
	for _, n := range nodes {
		list = append(list, n.EtcdPID())
	}
	return list
}

// changedTo waits until a node's member has come up with a version, as its node reports.
func changedTo(t *testing.T, c *harness.Cluster, n *harness.Node, version string) {
	t.Helper()
	eventually(t, c, n.Name+" runs etcd "+version, func() error {
		r, err := c.Status()
		for _, o := range r.Observation.Nodes {
			if string(o.Name) != n.Name {
				continue
			}
			if o.Assigned != nil && o.Assigned.Version.String() == version && o.Change == nil {
				return nil
			}
			return fmt.Errorf("it is assigned %+v, change %+v", o.Assigned, o.Change)
		}
		return errors.Join(errors.New("it is not known"), err)
	})
}

// A node is cut off while another one changes: that one comes up with what is left, and no
// other member is touched before all answer again.
func TestAPartitionInAChangeOfVersion(t *testing.T) {
	t.Parallel()
	needsNamespaces(t)
	o := options(t, quick...)
	o.Net = harness.NewNet(t)
	c, between, open := gated(t, o)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	w.Watch()
	w.WaitMore(harness.Soon, 10)
	c.SetSpec(3, later)
	first := between()
	rest := beside(c, first)
	cut := rest[0]
	before := pids(rest)
	c.Net.Cut(cut)
	open()
	changedTo(t, c, first, later)
	w.WaitMore(harness.Soon, 10)
	eventually(t, c, "the change waits for "+cut.Name, func() error {
		r, err := c.Status()
		for _, h := range r.Holds {
			if h.Reason == plan.QuorumMargin || h.Reason == plan.NodeUnreachable {
				return nil
			}
		}
		return errors.Join(fmt.Errorf("the holds are %v", r.Holds), err)
	})
	pause(c, 3*time.Second)
	if now := pids(rest); !slices.Equal(before, now) {
		t.Errorf("the processes of the others were %v, and are %v", before, now)
	}
	c.Net.Heal()
	runs(t, c, later)
	w.WaitMore(harness.Soon, 10)
}

// Of two voters, the disk of one hangs while the other one changes. Nothing can be written
// until it goes on; then the change goes on, too, and nothing is lost.
func TestADiskHangsInAChangeOfTwoVoters(t *testing.T) {
	if err := harness.DiskError(); err != nil {
		t.Skipf("no disk can be made to freeze: %v", err)
	}
	c, between, open := gated(t, options(t, "--replace-grace=10m", "--bootstrap-grace=2s"))
	disks := map[string]*harness.Disk{"a": c.NewDisk(c.Node("a"), 600), "b": c.NewDisk(c.Node("b"), 600)}
	c.Bootstrap(2, v36, "a", "b")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	c.SetSpec(2, later)
	first := between()
	rest := beside(c, first)
	before := pids(rest)
	disks[rest[0].Name].Freeze()
	open()
	pause(c, 5*time.Second)
	if now := pids(rest); !slices.Equal(before, now) {
		t.Errorf("the process of the other was %v, and is %v", before, now)
	}
	disks[rest[0].Name].Thaw()
	runs(t, c, later)
	c.WaitVoters(harness.Soon, 2)
	w.WaitMore(harness.Soon, 10)
}

// A learner that hangs holds the change: no member is touched before it is a voter.
func TestALearnerThatHangsHoldsTheVersion(t *testing.T) {
	t.Parallel()
	c := start(t, "--replace-grace=10m", "--bootstrap-grace=2s", "--learner-timeout=10m")
	d := c.Node("d")
	_, gate := d.GateEtcd(v35)
	c.SetSpec(3, v35)
	c.Start("a", "b", "c")
	c.WaitVoters(harness.Soon, 3)
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	d.Start()
	c.SetSpec(4, v35)
	c.Eventually(harness.Soon, "a learner", func(ctx context.Context) error {
		members, err := c.Members(ctx)
		if err == nil && !slices.ContainsFunc(members, func(m *clientv3.Member) bool { return m.IsLearner }) {
			err = errors.New("there is none")
		}
		return err
	})
	before := pids(beside(c, d))
	c.SetSpec(4, v36)
	c.WaitHold(harness.Soon, string(plan.LearnerBehind))
	w.WaitMore(harness.Soon, 300)
	if now := pids(beside(c, d)); !slices.Equal(before, now) {
		t.Errorf("the processes were %v, and are %v", before, now)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.WaitVoters(2*harness.Soon, 4)
	runs(t, c, v36)
	answers(t, c, v36)
	w.WaitMore(harness.Soon, 10)
}

// The spec asks for more members, and for fewer, while they run two versions.
func TestTheSizeChangesMeanwhile(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	w, _, _ := midway(t, c, v35, v36)
	c.SetSpec(5, v36)
	c.Start("d", "e")
	c.WaitVoters(2*harness.Soon, 5)
	runs(t, c, v36)
	answers(t, c, v36)
	w.WaitMore(harness.Soon, 10)
	c.SetSpec(5, v37)
	between(t, c, v37)
	c.SetSpec(3, v37)
	votersRun(t, c, 3, v37)
	w.WaitMore(harness.Soon, 10)
}
