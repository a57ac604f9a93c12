//go:build e2e

package e2e

import (
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// Daemons that have nothing but the version that runs fetch the one that the spec asks for
// and the one on the way to it; so does a machine that joins later.
func TestDaemonsFetchWhatIsOnTheWay(t *testing.T) {
	t.Parallel()
	const between = "3.6.11"
	m := newMirror(t, options(t).EtcdDirs, between, v37, v35)
	c := harness.New(t.Context(), t, withMirror(t, m, v35))
	c.Found(3, v35, "a", "b", "c")
	w := c.Write()
	w.Watch()
	w.WaitMore(harness.Soon, 10)
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
