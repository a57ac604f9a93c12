//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/crashrun"
)

// killEtcd is no crash point: in a change, etcd alone is killed, and its daemon lives.
const killEtcd = "etcd"

// changeCrash are the points of a change of one member in the order in which one after the other
// can be passed, and those of the leader's, which comes last. A member whose change is on its disk
// goes on from there: of the points that follow, each takes a member of its own.
var changeCrash = []string{
	"member-change-version.before-order", "member-change-version.before-record", "member-change-version.before-signal",
	"member-change-version.after-end", "member-change-version.before-spawn", "member-change-version.before-end",
	"member-move-leader.before", "member-move-leader.after",
	"member-change-version.after-spawn", killEtcd, "member-change-version.after-order",
}

// A killing is a cluster whose daemons kill themselves where a file in a directory says, one at a
// time: who comes to the point first.
type killing struct {
	t   *testing.T
	c   *harness.Cluster
	dir string
	// armed is the point that is waited for.
	armed string
	fired []string
}

func newKilling(t *testing.T, o harness.Options) *killing {
	t.Helper()
	k := &killing{t: t, dir: t.TempDir()}
	o.Bin, o.Env = crashPrograms(t), []string{crashrun.Variable + "=" + crashrun.Dir + k.dir}
	k.c = harness.New(t.Context(), t, o)
	for _, name := range []string{"a", "b", "c"} {
		k.c.Node(name).MayEnd = true
	}
	return k
}

func (k *killing) path() string { return filepath.Join(k.dir, k.armed) }

func (k *killing) arm(point string) {
	k.t.Helper()
	k.armed = point
	if point == killEtcd {
		return
	}
	if err := os.WriteFile(k.path(), nil, 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// check starts daemons that have killed themselves, and reports whether the armed point has been
// passed.
func (k *killing) check() bool {
	k.t.Helper()
	restart(k.t, k.c)
	switch {
	case k.armed == "":
		return false
	case k.armed == killEtcd:
		if !k.kill() {
			return false
		}
	default:
		if _, err := os.Stat(k.path()); err == nil {
			return false
		}
	}
	k.t.Logf("killed at %s", k.armed)
	k.fired, k.armed = append(k.fired, k.armed), ""
	return true
}

// kill kills the etcd of a member that is between two versions, and reports whether it still
// was afterwards: its new etcd had not served.
func (k *killing) kill() bool {
	k.t.Helper()
	for _, n := range k.c.Nodes() {
		if to := pending(n); to != "" && strings.Contains(n.EtcdProgram(), "etcd-v"+to+"/") {
			n.KillEtcd()
			return pending(n) == to
		}
	}
	return false
}

// pending is the version that a node's member is changed to, "" where it is not.
func pending(n *harness.Node) string {
	s, err := nodestate.Read(n.Dir)
	if c := s.Changing(); err == nil && c.Pending() && !c.Back {
		return c.To.String()
	}
	return ""
}

// change has the cluster run a version, and kills at one point after the other meanwhile. It
// returns those that were not passed.
func (k *killing) change(to string, points []string) (left []string) {
	k.t.Helper()
	began := time.Now()
	left = k.meanwhile(to, points, settledOn(k.c, to))
	k.t.Logf("to %s: %.1f s, %d kills, %d points are left", to, time.Since(began).Seconds(), len(points)-len(left),
		len(left))
	return left
}

// meanwhile has the spec ask for a version, and kills at one point after the other until end says
// that it is over.
func (k *killing) meanwhile(to string, points []string, end func(context.Context) error) (left []string) {
	k.t.Helper()
	left = slices.Clone(points)
	k.c.SetSpec(3, to)
	k.c.Eventually(4*harness.Soon, "the way to etcd "+to+" with kills", func(ctx context.Context) error {
		if k.armed == "" && len(left) > 0 {
			k.arm(left[0])
		}
		if k.check() {
			left = left[1:]
			return errors.New("a daemon was killed")
		}
		return end(ctx)
	})
	// Not passed in this change: another one may.
	if k.armed != "" && k.armed != killEtcd && os.Remove(k.path()) != nil {
		k.check()
		left = left[1:]
	}
	k.armed = ""
	return left
}

// passed is the end when all kills have been.
func (k *killing) passed(count int) func(context.Context) error {
	count += len(k.fired)
	return func(context.Context) error {
		if len(k.fired) < count {
			return fmt.Errorf("nobody has come to %s", k.armed)
		}
		return nil
	}
}

// Three members are changed from 3.6 to 3.5 and back, again and again, and at last only the first
// one before the spec asks for 3.6 again. At each point of a change that the coordinator or the
// member's node comes to, that daemon is killed, and its etcd with it; and etcd alone, before the
// new version serves. Each time, up and down, the cluster comes to the version of the spec, and in
// order.
func TestKillsInAChangeOfThreeMembers(t *testing.T) {
	t.Parallel()
	k := newKilling(t, options(t, calm...))
	k.c.Bootstrap(3, v36, "a", "b", "c")
	w := k.c.Write()
	w.Watch()
	w.WaitMore(harness.Soon, 10)
	up := slices.Clone(changeCrash)
	down := append([]string{"downgrade-enable.before", "downgrade-enable.after"}, changeCrash...)
	for round := 0; len(up)+len(down) > 0; round++ {
		if round == 4 {
			t.Fatalf("after %d changes down and up, nobody came to %v on the way up, and to %v on the way down", round, up, down)
		}
		down = k.change(v35, down)
		answers(t, k.c, v35)
		up = k.change(v36, up)
		answers(t, k.c, v36)
		w.WaitMore(harness.Soon, 10)
	}
	first := []string{"member-change-version.after-end"}
	k.meanwhile(v35, first, k.passed(len(first)))
	if left := k.change(v36, []string{"downgrade-cancel.before", "downgrade-cancel.after"}); len(left) > 0 {
		t.Errorf("nobody came to %v", left)
	}
	answers(t, k.c, v36)
	w.WaitMore(harness.Soon, 10)
	for _, wrong := range disorder(k.c) {
		t.Error(wrong)
	}
}

// Before 3.7 the log has entries of 3.5. The coordinator is killed before and after the order that
// forces a raft snapshot, and the member's node, with its etcd, in the middle of it.
func TestKillsInAForcedSnapshot(t *testing.T) {
	t.Parallel()
	k := newKilling(t, options(t, calm...))
	k.c.Bootstrap(3, v35, "a", "b", "c")
	w := k.c.Write()
	w.Watch()
	w.WaitMore(harness.Soon, 10)
	k.c.SetSpec(3, v36)
	runs(t, k.c, v36)
	points := []string{
		"member-force-snapshot.before-order", "member-force-snapshot.after-propose", "member-force-snapshot.after-order",
	}
	if left := k.change(v37, points); len(left) > 0 {
		t.Errorf("nobody came to %v", left)
	}
	answers(t, k.c, v37)
	w.WaitMore(harness.Soon, 10)
	for _, wrong := range disorder(k.c) {
		t.Error(wrong)
	}
}

// The new version of three members dies each time, and the daemon of the first one is killed on the
// way back to the old version, too, before and after it is recorded. It goes back all the same, and
// no other member is touched.
func TestKillsOnTheWayBack(t *testing.T) {
	t.Parallel()
	o, put := withLater(t, options(t, calm...))
	k := newKilling(t, o)
	put(k.c, "echo panic: no luck today", "exit 7")
	k.c.Bootstrap(3, v36, "a", "b", "c")
	w := k.c.Write()
	w.Watch()
	w.WaitMore(harness.Soon, 10)
	before := processes(k.c)
	points := []string{"version-back.before-record", "version-back.before-spawn"}
	k.meanwhile(later, points, k.passed(len(points)))
	if text := k.c.WaitHold(harness.Soon, string(plan.VersionFailed)); !strings.Contains(text, "no luck today") {
		t.Errorf("it holds with %q", text)
	}
	answers(t, k.c, v36)
	touched := 0
	for i, pid := range processes(k.c) {
		if pid != before[i] {
			touched++
		}
	}
	if touched != 1 {
		t.Errorf("%d members were touched", touched)
	}
	k.c.SetSpec(3, v36)
	eventually(t, k.c, "the cluster is as the spec says", func() error {
		if r, err := k.c.Status(); err != nil || !r.Converged {
			return fmt.Errorf("converged: %t, holds %v, %w", r.Converged, r.Holds, err)
		}
		return nil
	})
	w.WaitMore(harness.Soon, 10)
	for _, wrong := range disorder(k.c) {
		t.Error(wrong)
	}
}
