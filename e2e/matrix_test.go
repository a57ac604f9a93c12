package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A walk is a cluster of some size, and the versions that it runs one after the other.
type walk struct {
	members  int
	versions []string
}

func (w walk) String() string {
	return fmt.Sprintf("%d members, %s", w.members, strings.Join(w.versions, " to "))
}

// pairs are those of the table of docs/versions.md between which a running cluster is
// changed.
func pairs() (rolling []plan.Way) {
	_, ways, _ := plan.Ways()
	for _, w := range ways {
		if w.From != w.To && !strings.Contains(w.How, "restore") {
			rolling = append(rolling, w)
		}
	}
	return rolling
}

// distance is how many minor versions up a way leads.
func distance(w plan.Way) int { return etcdversion.Must(w.To).Minor - etcdversion.Must(w.From).Minor }

// trails puts pairs one behind the other, so that each is walked once, by as few clusters
// as go with at most that many steps of each.
func trails(left []plan.Way, longest int) (list [][]string) {
	left = slices.Clone(left)
	for len(left) > 0 {
		trail := []string{beginning(left)}
		for len(trail) <= longest {
			at := trail[len(trail)-1]
			i := slices.IndexFunc(left, func(w plan.Way) bool { return w.From == at })
			if i < 0 {
				break
			}
			trail = append(trail, left[i].To)
			left = slices.Delete(left, i, i+1)
		}
		list = append(list, trail)
	}
	return list
}

// beginning is the version that more pairs lead from than to.
func beginning(left []plan.Way) string {
	from := map[string]int{}
	for _, w := range left {
		from[w.From]++
		from[w.To]--
	}
	best := left[0].From
	for _, w := range left {
		if from[w.From] > from[best] {
			best = w.From
		}
	}
	return best
}

// Each pair is in a trail once, and nothing else is.
func TestTrails(t *testing.T) {
	t.Parallel()
	all := pairs()
	for _, longest := range []int{1, 4, 100} {
		seen := map[plan.Way]int{}
		for _, trail := range trails(all, longest) {
			if len(trail) < 2 || len(trail) > longest+1 {
				t.Errorf("a trail of at most %d steps is %v", longest, trail)
			}
			for i, to := range trail[1:] {
				seen[plan.Way{From: trail[i], To: to}]++
			}
		}
		for _, w := range all {
			if seen[plan.Way{From: w.From, To: w.To}] != 1 {
				t.Errorf("%v is walked %d times", w, seen[plan.Way{From: w.From, To: w.To}])
			}
		}
		if len(seen) != len(all) || len(all) < 40 {
			t.Errorf("%d pairs are walked, and the table has %d", len(seen), len(all))
		}
	}
}

// A slice of [TestMatrix]: one member goes through a patch, one minor version up and
// another, and two down. [TestAVersionAMinorDownAndUp] goes one down.
func TestMatrixSlice(t *testing.T) {
	t.Parallel()
	walk{1, []string{"3.5.21", v35, v36, v37, "3.5.21"}}.walk(t)
}

// walk walks with a writer and a watcher. Before each step it makes sure that 3.4, to
// which nothing leads, is refused.
func (w walk) walk(t *testing.T) {
	began := time.Now()
	c := start(t, quick...)
	var names []string
	for i := range w.members {
		names = append(names, string(rune('a'+i)))
	}
	c.Bootstrap(w.members, w.versions[0], names...)
	writer := c.Write()
	writer.Watch()
	writer.WaitMore(harness.Soon, 10)
	t.Logf("matrix: %d members of %s: %.1f s", w.members, w.versions[0], time.Since(began).Seconds())
	for i, to := range w.versions[1:] {
		w.step(t, c, writer, w.versions[i], to)
	}
	w.refuses(t, c, w.versions[len(w.versions)-1])
	history, err := c.History()
	if err != nil {
		t.Error(err)
	}
	for _, e := range history {
		if strings.Contains(e.Error, "did not come up") {
			t.Errorf("%s: %s", e.Line, e.Error)
		}
	}
	t.Logf("matrix: %s: %.1f s", w, time.Since(began).Seconds())
}

// step changes the version, and prints what it costs.
func (w walk) step(t *testing.T, c *harness.Cluster, writer *harness.Writer, from, to string) {
	w.refuses(t, c, from)
	writer.LongestGap()
	began, acked := time.Now(), writer.Acked()
	c.SetSpec(w.members, to)
	runs(t, c, to)
	took := time.Since(began)
	c.Eventually(harness.Soon, "all members answer as etcd "+to, func(ctx context.Context) error {
		for _, n := range c.Nodes() {
			if s, err := n.EtcdStatus(ctx); err != nil || s.Version != to {
				return fmt.Errorf("%s: %+v, %w", n.Name, s, err)
			}
		}
		return nil
	})
	writer.WaitMore(harness.Soon, 10)
	t.Logf("matrix: %d members, %s to %s: %.1f s, %d writes, at most %.1f s between two", w.members, from, to,
		took.Seconds(), writer.Acked()-acked, writer.LongestGap().Seconds())
}

// runs is allRun for as long as a change of several steps takes on a busy machine.
func runs(t *testing.T, c *harness.Cluster, version string) {
	t.Helper()
	last := ""
	for {
		err := c.Await(harness.Soon, settledOn(c, version))
		if err == nil {
			return
		}
		// A step that was not seen before is progress.
		if now := steps(t, c); now != last {
			last = now
			continue
		}
		t.Fatalf("all members run etcd %s: %v", version, err)
	}
}

// steps are the last lines of the history.
func steps(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	history, err := c.History()
	if err != nil || len(history) == 0 {
		t.Fatalf("history: %d entries, %v", len(history), err)
	}
	return fmt.Sprintf("%d: %s", len(history), history[len(history)-1].Line)
}

// refuses makes sure that nothing leads from a version to the oldest one, that the hold
// says so, and that nothing is touched.
func (w walk) refuses(t *testing.T, c *harness.Cluster, from string) {
	t.Helper()
	const to = "3.4.25"
	if !etcdversion.Must(from).AtLeast(3, 5) {
		return
	}
	before := processes(c)
	c.SetSpec(w.members, to)
	text := c.WaitHold(harness.Soon, string(plan.VersionDiffers))
	if !strings.Contains(text, "3.4") {
		t.Errorf("from %s to %s it holds with %q", from, to, text)
	}
	if after := processes(c); !slices.Equal(before, after) {
		t.Errorf("from %s to %s, which cannot be: the processes were %v, and are %v", from, to, before, after)
	}
}

// processes are those of the members.
func processes(c *harness.Cluster) (pids []int) {
	for _, n := range c.Nodes() {
		pids = append(pids, n.EtcdPID())
	}
	return pids
}
