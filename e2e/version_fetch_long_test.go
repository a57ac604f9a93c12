//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// Daemons that have nothing but the version that runs fetch the one that the spec asks for
// and the one on the way to it; so does a machine that joins later. As long as the last one
// cannot be had, no member is changed to the one on the way.
func TestDaemonsFetchWhatIsOnTheWay(t *testing.T) {
	t.Parallel()
	const between = "3.6.11"
	m := newMirror(t, options(t).EtcdDirs, between, v37, v35)
	c := harness.New(t.Context(), t, withMirror(t, m, v35))
	c.Bootstrap(3, v35, "a", "b", "c")
	w := c.Write()
	w.Watch()
	w.WaitMore(harness.Soon, 10)
	const nowhere = "3.7.33"
	c.SetSpec(3, nowhere)
	if text := c.WaitHold(harness.Soon, "binary-missing"); !strings.Contains(text, between+", on the way to "+nowhere) {
		t.Errorf("the hold says %q", text)
	}
	answers(t, c, v35)
	c.SetSpec(3, v37)
	runs(t, c, v37)
	answers(t, c, v37)
	w.WaitMore(harness.Soon, 10)
	if a, b := m.fetched(between), m.fetched(v37); a != 3 || b != 3 {
		t.Errorf("%s was fetched %d times, %s %d times", between, a, v37, b)
	}
	n := follower(t, c)
	id := memberID(t, c, n)
	n.LoseDisk()
	n.Start()
	waitNewMember(t, c, n, id)
	c.WaitVoters(harness.Soon, 3)
	answers(t, c, v37)
	w.WaitMore(harness.Soon, 10)
}

// A daemon fetches the version that the spec asks for, and takes nothing whose digest is
// not the one that its operator knows, whatever the mirror says: until that is put right, the
// hold says so, and no process is touched.
func TestADaemonTakesNoArchiveWithAnotherDigest(t *testing.T) {
	t.Parallel()
	m := newMirror(t, options(t).EtcdDirs, v36)
	m.trust(t, v36, strings.Repeat("0", 64))
	c := harness.New(t.Context(), t, withMirror(t, m, v35))
	c.Bootstrap(1, v35, "a")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	before := processes(c)
	c.SetSpec(1, v36)
	eventually(t, c, "the hold says what is wrong with the archive", func() error {
		r, err := c.Status()
		for _, h := range r.Holds {
			if h.Reason == plan.BinaryMissing && strings.Contains(h.Text, "SHA-256") &&
				strings.Contains(h.Text, m.digests) {
				return nil
			}
		}
		return errors.Join(fmt.Errorf("the holds are %v", r.Holds), err)
	})
	if after := processes(c); !slices.Equal(before, after) {
		t.Errorf("the processes were %v, and are %v", before, after)
	}
	if left, _ := filepath.Glob(filepath.Join(c.Node("a").Dir, "releases", "etcd-v*", "etcd")); len(left) > 0 {
		t.Errorf("it has installed %q", left)
	}
	m.sign(t, v36)
	runs(t, c, v36)
	answers(t, c, v36)
	w.WaitMore(harness.Soon, 10)
}
