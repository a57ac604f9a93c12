//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// A cluster that was born on 3.4, with keys of the v2 store, and takes raft snapshots as
// seldom as etcd does by itself: all that was ever asked of the v2 store is in the log. On
// 3.5 it is found on every member. Before 3.6 raft snapshots are forced, by hand and by the
// daemons; the keys hold the change until they are deleted; and nothing is lost.
func TestALogBornOn34(t *testing.T) {
	t.Parallel()
	o := options(t, quick...)
	const seldom = "ETCD_SNAPSHOT_COUNT=100000"
	o.Env = []string{"ETCD_ENABLE_V2=true", seldom}
	c := harness.New(t.Context(), t, o)
	c.Bootstrap(3, v34, "a", "b", "c")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	v2(t, c, http.MethodPut, "/apps/one")
	c.SetSpec(3, v35)
	allRun(t, c, v35)
	answers(t, c, v35)
	everyMember(t, c, cluster.HazardV2Log, cluster.HazardPresent)

	// The setting that let them in is unknown to 3.6, and holds what the daemons would do.
	c.SetSpec(3, v36)
	c.WaitHold(harness.Soon, string(plan.VersionSettings))
	env, before, lines := byHand(t, c), processes(c), forceLines(t, c)
	if _, err := c.Ctl("pause", "--reason=by hand"); err != nil {
		t.Fatal(err)
	}
	c.WaitHold(harness.Soon, "paused")
	for _, line := range lines {
		if out, err := shell(t, env, line); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	if _, err := c.Ctl("resume"); err != nil {
		t.Fatal(err)
	}
	everyMember(t, c, cluster.HazardV2Log, cluster.HazardAbsent)
	everyMember(t, c, cluster.HazardV2Content, cluster.HazardPresent)
	if text := c.WaitHold(harness.Soon, string(plan.VersionHazard)); !strings.Contains(text, "v2-content present") {
		t.Errorf("the hold does not say what is there: %s", text)
	}
	untouched(t, c, before)

	v2(t, c, http.MethodDelete, "/apps?recursive=true")
	c.Env = []string{seldom}
	for _, n := range c.Nodes() {
		n.Stop()
		n.Start()
		c.WaitVoters(harness.Soon, 3)
	}
	runs(t, c, v36)
	answers(t, c, v36)
	w.WaitMore(harness.Soon, 10)
	entries, err := c.History()
	if err != nil {
		t.Fatal(err)
	}
	forced := 0
	for _, e := range entries {
		if strings.HasPrefix(e.Line, "etcdadm member force-snapshot ") && e.Error == "" {
			t.Logf("%s took %s", e.Line, e.Took)
			forced++
		}
		if strings.Contains(e.Error, "did not come up") {
			t.Errorf("%s: %s", e.Line, e.Error)
		}
	}
	if forced < 2 {
		t.Errorf("the daemons have forced %d raft snapshots", forced)
	}
}

// everyMember waits until each node has found a hazard, or that there is none.
func everyMember(t *testing.T, c *harness.Cluster, kind cluster.HazardKind, state cluster.HazardState) {
	t.Helper()
	eventually(t, c, fmt.Sprintf("%s %s on every member", kind, state), func() error {
		r, err := c.Status()
		if err != nil || len(r.Observation.Nodes) != len(c.Nodes()) {
			return fmt.Errorf("the status has %d nodes, %w", len(r.Observation.Nodes), err)
		}
		for _, n := range r.Observation.Nodes {
			if h := cluster.HazardOf(n.Hazards, kind); h.State != state {
				return fmt.Errorf("%s has %s", n.Name, h)
			}
		}
		return nil
	})
}

// forceLines are the command lines that force a raft snapshot on each node.
func forceLines(t *testing.T, c *harness.Cluster) (lines []string) {
	t.Helper()
	r, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range r.Observation.Nodes {
		lines = append(lines, plan.Line(&plan.MemberForceSnapshot{
			Node: n.Name, ExpectToken: r.Observation.Token, ExpectMemberID: n.Disk.MemberID,
		}))
	}
	return lines
}
