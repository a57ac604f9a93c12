//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// midway has a cluster of three change from one version to another, and returns when the
// first member runs that, with it and a follower that does not yet.
func midway(t *testing.T, c *harness.Cluster, from, to string) (w *harness.Writer, first, next *harness.Node) {
	t.Helper()
	c.Bootstrap(3, from, "a", "b", "c")
	w = c.Write()
	w.Watch()
	w.WaitMore(harness.Soon, 10)
	c.SetSpec(3, to)
	first, next = between(t, c, to)
	return w, first, next
}

// between waits until one member runs a version, and returns it, and a follower that
// runs the other one.
func between(t *testing.T, c *harness.Cluster, to string) (first, next *harness.Node) {
	t.Helper()
	eventually(t, c, "a member runs etcd "+to, func() error {
		first, next = nil, nil
		for _, n := range c.Nodes() {
			s, err := n.EtcdStatus(t.Context())
			switch {
			case err != nil:
			case s.Version == to:
				first = n
			case s.Leader != s.Header.MemberId:
				next = n
			}
		}
		if first == nil {
			return fmt.Errorf("none does")
		}
		return nil
	})
	if next == nil {
		next = first // all others were faster
	}
	return first, next
}

// The wanted version changes while the members run two: to the next one, and back; and on the way
// down, to the one before that.
func TestTheVersionChangesAgainMeanwhile(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	w, _, _ := midway(t, c, v35, v36)
	c.SetSpec(3, v37)
	runs(t, c, v37)
	c.SetSpec(3, v36)
	between(t, c, v36)
	c.SetSpec(3, v37)
	runs(t, c, v37)
	answers(t, c, v37)
	w.WaitMore(harness.Soon, 10)
	c.SetSpec(3, v36)
	between(t, c, v36)
	c.SetSpec(3, v35)
	runs(t, c, v35)
	answers(t, c, v35)
	w.WaitMore(harness.Soon, 10)
}

// A machine is replaced by an empty one of its name while the members run two versions, on the way
// up and down.
func TestAMachineIsReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	for from, to := range map[string]string{v35: v36, v36: v35} {
		t.Run(from+" to "+to, func(t *testing.T) {
			t.Parallel()
			c := start(t, quick...)
			w, _, next := midway(t, c, from, to)
			id := memberID(t, c, next)
			next.LoseDisk()
			next.Start()
			waitNewMember(t, c, next, id)
			runs(t, c, to)
			answers(t, c, to)
			c.WaitVoters(harness.Soon, 3)
			w.WaitMore(harness.Soon, 10)
		})
	}
}

// The spec asks for more members, and for fewer, while they run two versions on the way down.
func TestTheSizeChangesOnTheWayDown(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	w, _, _ := midway(t, c, v36, v35)
	c.SetSpec(4, v35)
	c.Start("d")
	c.WaitVoters(2*harness.Soon, 4)
	runs(t, c, v35)
	answers(t, c, v35)
	w.WaitMore(harness.Soon, 10)
	c.SetSpec(4, v36)
	runs(t, c, v36)
	c.SetSpec(4, v35)
	between(t, c, v35)
	c.SetSpec(3, v35)
	votersRun(t, c, 3, v35)
	w.WaitMore(harness.Soon, 10)
}

// votersRun waits until the cluster has that many voters, and all of them run a version; the other
// nodes may have none.
func votersRun(t *testing.T, c *harness.Cluster, count int, version string) {
	t.Helper()
	c.WaitVoters(2*harness.Soon, count)
	c.Eventually(2*harness.Soon, "the voters run etcd "+version, func(ctx context.Context) error {
		names, err := c.Voters(ctx)
		for _, name := range names {
			if s, err := c.Node(name).EtcdStatus(ctx); err != nil || s.Version != version {
				return fmt.Errorf("%s: %+v, %w", name, s, err)
			}
		}
		if r, statusErr := c.Status(); statusErr != nil || !r.Converged {
			err = errors.Join(err, statusErr, fmt.Errorf("the holds are %v", r.Holds))
		}
		return err
	})
}

// A node is cut off in a downgrade when the first member has changed: no other member is touched
// before all answer again.
func TestAPartitionInADowngrade(t *testing.T) {
	t.Parallel()
	needsNamespaces(t)
	o := options(t, quick...)
	o.Net = harness.NewNet(t)
	k := newKilling(t, o)
	c := k.c
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	w.Watch()
	w.WaitMore(harness.Soon, 10)
	// The daemon of the first member ends when it has changed. While it is away, nobody changes.
	k.arm("member-change-version.after-end")
	c.SetSpec(3, v35)
	var first *harness.Node
	eventually(t, c, "a member has changed", func() error {
		for _, n := range c.Nodes() {
			if _, ended := n.Ended(); ended {
				first = n
				return nil
			}
		}
		return errors.New("none has")
	})
	rest := beside(c, first)
	before := pids(rest)
	c.Net.Cut(rest[0])
	restart(t, c)
	w.WaitMore(harness.Soon, 10)
	c.WaitHold(harness.Soon, string(plan.NodeUnreachable))
	pause(c, 3*time.Second)
	if now := pids(rest); !slices.Equal(before, now) {
		t.Errorf("the processes of the others were %v, and are %v", before, now)
	}
	c.Net.Heal()
	runs(t, c, v35)
	answers(t, c, v35)
	w.WaitMore(harness.Soon, 10)
}
