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
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// matrix are the versions between which clusters are changed.
var matrix = []string{"3.4.25", "3.5.0", "3.5.21", "3.5.35", "3.6.0", "3.6.11", "3.6.16", "3.7.3"}

// A walk is a cluster of some size, and the versions that it runs one after the other.
type walk struct {
	members  int
	versions []string
}

func (w walk) String() string {
	return fmt.Sprintf("%d members, %s", w.members, strings.Join(w.versions, " to "))
}

// walks are what TestMatrix walks: a slice in which each kind of step is, up and down,
// by a patch, by one, two and three minor versions; or, where ETCDADM_MATRIX is set,
// each pair of versions in both directions, of one, three and five members.
func walks() []walk {
	if os.Getenv("ETCDADM_MATRIX") == "" {
		return []walk{
			{3, []string{"3.4.25", "3.7.3"}},
			{3, []string{"3.5.0", "3.5.35", "3.5.21", "3.6.0", "3.6.16", "3.6.11", "3.7.3", "3.5.0"}},
			{5, []string{"3.5.21", "3.6.11", "3.5.35"}},
			{1, []string{"3.4.25", "3.5.21", "3.6.16", "3.5.0"}},
		}
	}
	var list []walk
	for _, members := range []int{3, 1, 5} {
		for i, low := range matrix {
			for _, high := range matrix[i+1:] {
				w := walk{members, []string{low, high}}
				if etcdversion.Must(low).AtLeast(3, 5) { // otherwise nothing leads back
					w.versions = append(w.versions, low)
				}
				list = append(list, w)
			}
		}
	}
	return list
}

// Real clusters go from each version to each other that can be reached, with a writer
// and a watcher: no acknowledged write is lost, and none is missed or seen twice. Where
// that is not so, the cluster stays as it is, and says why.
func TestMatrix(t *testing.T) {
	t.Parallel()
	for _, w := range walks() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			w.walk(t)
		})
	}
}

func (w walk) walk(t *testing.T) {
	c := start(t, quick...)
	var names []string
	for i := range w.members {
		names = append(names, string(rune('a'+i)))
	}
	c.Found(w.members, w.versions[0], names...)
	writer := c.Write()
	writer.Watch()
	writer.WaitMore(harness.Soon, 10)
	for i, to := range w.versions[1:] {
		from := w.versions[i]
		w.refuses(t, c, from)
		writer.LongestGap()
		began, acked := time.Now(), writer.Acked()
		c.SetSpec(w.members, to)
		runs(t, c, to)
		took, gap := time.Since(began), writer.LongestGap()
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
			took.Seconds(), writer.Acked()-acked, gap.Seconds())
	}
	w.refuses(t, c, w.versions[len(w.versions)-1])
	if history, err := c.History(); err != nil {
		t.Error(err)
	} else {
		for _, e := range history {
			if strings.Contains(e.Error, "did not come up") {
				t.Errorf("%s: %s", e.Line, e.Error)
			}
		}
	}
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

// refuses makes sure that nothing leads from a version to the oldest of the matrix,
// that the hold says so, and that nothing is touched.
func (w walk) refuses(t *testing.T, c *harness.Cluster, from string) {
	t.Helper()
	to := matrix[0]
	if !etcdversion.Must(from).AtLeast(3, 5) {
		return
	}
	before := processes(c)
	c.SetSpec(w.members, to)
	text := c.WaitHold(harness.Soon, string(plan.VersionDiffers))
	if !strings.Contains(text, to) && !strings.Contains(text, "3.4") {
		t.Errorf("from %s to %s it holds with %q", from, to, text)
	}
	if after := processes(c); !slices.Equal(before, after) {
		t.Errorf("from %s to %s, which cannot be: the processes were %v, and are %v", from, to, before, after)
	}
	c.SetSpec(w.members, from)
	allRun(t, c, from)
}

// processes are those of the members.
func processes(c *harness.Cluster) (pids []int) {
	for _, n := range c.Nodes() {
		pids = append(pids, n.EtcdPID())
	}
	return pids
}
