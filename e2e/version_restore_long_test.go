//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/testing/crashrun"
)

// Three members go from 3.5 to 3.4 by a restore. The word that allows it may be
// cleared, and counts once: after the way up again it is asked for again.
func TestThreeMembersGoWhereOnlyARestoreLeads(t *testing.T) {
	t.Parallel()
	c := restoring(t, quick...)
	c.Bootstrap(3, v35, "a", "b", "c")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	refusedWithoutWord(t, c, 3, v34)

	before := processes(c)
	ctl(t, c, "pause", "--reason=to cancel it")
	c.WaitHold(harness.Soon, string(plan.Paused))
	ctl(t, c, "configure-cluster", "--allow-restore")
	c.SetSpec(3, v35)
	ctl(t, c, "resume")
	nothingQueued(t, c)
	allRun(t, c, v35)
	untouched(t, c, before)

	p := promise(t, c)
	w.LongestGap()
	ctl(t, c, "--etcd-version="+v34, "configure-cluster", "--allow-restore")
	runs(t, c, v34)
	answers(t, c, v34)
	w.WaitMore(harness.Soon, 10)
	t.Logf("%s to %s by a restore: %.1f s without an acknowledged write", v35, v34, w.LongestGap().Seconds())
	p.kept(t, c)
	nothingQueued(t, c)

	c.SetSpec(3, v35)
	runs(t, c, v35)
	w.WaitMore(harness.Soon, 10)
	refusedWithoutWord(t, c, 3, v34)
	answers(t, c, v35)
}

// From 3.7 the members go down to 3.5 by etcd's own downgrades while clients are served,
// and only then to 3.4.
func TestARestoreAfterDowngrades(t *testing.T) {
	t.Parallel()
	c := restoring(t, quick...)
	c.Bootstrap(1, v37, "a")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	p := promise(t, c)
	ctl(t, c, "--etcd-version="+v34, "configure-cluster", "--allow-restore")
	runs(t, c, v34)
	answers(t, c, v34)
	w.WaitMore(harness.Soon, 10)
	p.kept(t, c)
	nothingQueued(t, c)
	history, err := c.History()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range history {
		lines = append(lines, e.Line)
	}
	said := strings.Join(lines, "\n")
	down, closed := strings.LastIndex(said, "etcdadm downgrade enable"), strings.Index(said, "etcdadm quarantine set")
	if down < 0 || closed < down {
		t.Errorf("clients were to be kept away after the downgrades: %s", said)
	}
}

// One member goes to 3.4 from each version of the table from which only a restore leads there, after
// the downgrades that it needs, and up to the next such version. Three go from the newest patch of
// 3.5, and one from 3.7, in tests of their own.
func TestEachVersionFromWhichOnlyARestoreLeads(t *testing.T) {
	t.Parallel()
	_, ways, _ := plan.Ways()
	from := map[int][]string{}
	for _, w := range ways {
		if w.To == v34 && strings.Contains(w.How, "restore") && w.From != v35 && w.From != v37 {
			minor := etcdversion.Must(w.From).Minor
			from[minor] = append(from[minor], w.From)
		}
	}
	for minor, versions := range from {
		t.Run(fmt.Sprintf("3.%d", minor), func(t *testing.T) {
			t.Parallel()
			c := restoring(t, quick...)
			c.Bootstrap(1, versions[0], "a")
			w := c.Write()
			for _, version := range versions {
				c.SetSpec(1, version)
				runs(t, c, version)
				w.WaitMore(harness.Soon, 10)
				restoreTo34(t, c, w, version)
			}
		})
	}
}

// restoreTo34 has the one member of a cluster go to 3.4, by a restore, and prints what it took.
func restoreTo34(t *testing.T, c *harness.Cluster, w *harness.Writer, from string) {
	t.Helper()
	p := promise(t, c)
	w.LongestGap()
	began := time.Now()
	ctl(t, c, "--etcd-version="+v34, "configure-cluster", "--allow-restore")
	runs(t, c, v34)
	took := time.Since(began)
	answers(t, c, v34)
	w.WaitMore(harness.Soon, 10)
	t.Logf("restores: one member, %s to %s: %.1f s, of which %.1f s without an acknowledged write", from, v34,
		took.Seconds(), w.LongestGap().Seconds())
	p.kept(t, c)
	nothingQueued(t, c)
}

// away has three members on the way from 3.5 to 3.4 by a restore, and returns when one of them is
// closed to clients.
func away(t *testing.T, o harness.Options) (*harness.Cluster, *harness.Writer, promised) {
	t.Helper()
	o.Restored = true
	c := harness.New(t.Context(), t, o)
	c.Bootstrap(3, v35, "a", "b", "c")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	p := promise(t, c)
	ctl(t, c, "--etcd-version="+v34, "configure-cluster", "--allow-restore")
	oneIsClosed(t, c)
	return c, w, p
}

// oneIsClosed waits until a member is closed to clients.
func oneIsClosed(t *testing.T, c *harness.Cluster) {
	t.Helper()
	eventually(t, c, "a member is closed to clients", func() error {
		if names, err := quarantined(c); err != nil || len(names) == 0 {
			return errors.Join(errors.New("none is"), err)
		}
		return nil
	})
}

// arrived waits until that way is at its end, and nothing was lost on it.
func arrived(t *testing.T, c *harness.Cluster, w *harness.Writer, p promised) {
	t.Helper()
	runs(t, c, v34)
	answers(t, c, v34)
	c.WaitVoters(harness.Soon, 3)
	w.WaitMore(harness.Soon, 10)
	p.kept(t, c)
	nothingQueued(t, c)
}

// A machine is replaced by an empty one of its name on the way by a restore: while the first member
// is closed to clients, its machine is lost. The others are not closed before it is a voter again.
func TestAMachineIsReplacedOnTheWayByARestore(t *testing.T) {
	t.Parallel()
	o := options(t, quick...)
	o.Restored = true
	k := newKilling(t, o)
	c := k.c
	c.Bootstrap(3, v35, "a", "b", "c")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	p := promise(t, c)
	k.arm("quarantine.before-record")
	ctl(t, c, "--etcd-version="+v34, "configure-cluster", "--allow-restore")
	var lost *harness.Node
	eventually(t, c, "a member is being closed to clients", func() error {
		for _, n := range c.Nodes() {
			if _, ended := n.Ended(); ended {
				lost = n
				return nil
			}
		}
		return errors.New("none is")
	})
	lost.LoseDisk()
	lost.Start()
	arrived(t, c, w, p)
}

// A node is cut off while clients are kept away for a restore, and comes back.
func TestAPartitionOnTheWayByARestore(t *testing.T) {
	t.Parallel()
	needsNamespaces(t)
	o := options(t, calm...)
	o.Net = harness.NewNet(t)
	c, w, p := away(t, o)
	c.Net.Cut(c.Node("b"))
	pause(c, 5*time.Second)
	c.Net.Heal()
	arrived(t, c, w, p)
}

// The word is cleared when clients are already kept away: the old version lets them
// in again, and nothing has been restored.
func TestARestoreIsCancelledWhileClientsAreKeptAway(t *testing.T) {
	t.Parallel()
	c := restoring(t, quick...)
	c.Bootstrap(3, v35, "a", "b", "c")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	ids := c.ClusterIDs()
	ctl(t, c, "--etcd-version="+v34, "configure-cluster", "--allow-restore")
	oneIsClosed(t, c)
	c.SetSpec(3, v35)
	runs(t, c, v35)
	answers(t, c, v35)
	w.WaitMore(harness.Soon, 10)
	nothingQueued(t, c)
	if now := c.ClusterIDs(); !slices.Equal(slices.Sorted(slices.Values(now)), slices.Sorted(slices.Values(ids))) {
		t.Errorf("the clusters are %v, they were %v", now, ids)
	}
}

// sealedCrash are the points that such a restore comes to.
var sealedCrash = regexp.MustCompile(`^(restore-(stage|switch)|quarantine|request-close)`)

// Each daemon of two kills itself at its first crash point of a name, in the middle of
// such a restore, before and after the backup is staged. Started again, they finish it.
func TestCrashesOnTheWayByARestore(t *testing.T) {
	t.Parallel()
	bin := crashPrograms(t)
	for _, point := range crashPointsOf(t, sealedCrash.MatchString) {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			crashSealed(t, bin, map[string]string{"a": point})
		})
	}
	// On three nodes, one before its member is closed, one before it stages, one after.
	t.Run("three nodes", func(t *testing.T) {
		t.Parallel()
		crashSealed(t, bin, map[string]string{
			"a": "quarantine.before-record", "b": "restore-stage.before-restore", "c": "restore-switch.before-aside",
		})
	})
}

// crashSealed has the nodes kill themselves each at a point on the way from 3.5 to 3.4.
func crashSealed(t *testing.T, bin string, points map[string]string) {
	t.Helper()
	o := options(t, quick...)
	o.Bin, o.Restored = bin, true
	c := harness.New(t.Context(), t, o)
	c.SetSpec(len(points), v35)
	for name, point := range points {
		n := c.Node(name)
		n.MayEnd, n.Env = true, []string{crashrun.Variable + "=" + point}
		n.Start()
	}
	crashed := converge(t, c, len(points))
	w := c.Write()
	writes(t, c, w)
	p := promise(t, c)
	ctl(t, c, "--etcd-version="+v34, "configure-cluster", "--allow-restore")
	c.Eventually(3*harness.Soon, "all run etcd "+v34+" after crashes", func(ctx context.Context) error {
		if crashed += restart(t, c); crashed < len(points) {
			return fmt.Errorf("%d of %d have crashed", crashed, len(points))
		}
		return settledOn(c, v34)(ctx)
	})
	answers(t, c, v34)
	writes(t, c, w)
	p.kept(t, c)
	nothingQueued(t, c)
}

// quarantined are the nodes whose members are closed to clients, as the coordinator
// published it last.
func quarantined(c *harness.Cluster) (names []string, err error) {
	r, err := c.Status()
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	for _, n := range r.Observation.Nodes {
		if n.Assigned != nil && n.Assigned.Quarantined {
			names = append(names, string(n.Name))
		}
	}
	return names, nil
}
