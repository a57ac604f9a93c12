//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/testing/crashrun"
)

// A downgrade that is cancelled when the first member has changed, with that member's
// daemon and the coordinator killed in between: it is cancelled, and all run the later
// version again.
func TestADowngradeIsCancelled(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	c.SetSpec(3, v35)
	var first string
	eventually(t, c, "a member runs the earlier version", func() error {
		for _, n := range c.Nodes() {
			if s, err := n.EtcdStatus(t.Context()); err == nil && s.Version == v35 {
				first = n.Name
				return nil
			}
		}
		return fmt.Errorf("none does")
	})
	c.SetSpec(3, v36)
	for _, n := range []*harness.Node{c.Node(first), c.Coordinator()} {
		if n.Running() {
			n.Kill()
			n.Start()
		}
	}
	allRun(t, c, v36)
	answers(t, c, v36)
	w.WaitMore(harness.Soon, 10)
	r, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	if o := r.Observation; !o.Downgrade.IsZero() {
		t.Errorf("the downgrade to %s is still enabled", o.Downgrade)
	}
}

// versionCrash are the points that a downgrade comes to, or its cancellation.
var versionCrash = regexp.MustCompile(`^(downgrade|member-change-version)`)

// The daemon kills itself at each effect of a downgrade, which is also that of the
// coordinator: started again, it brings the member to the version that the spec asks
// for.
func TestCrashesInADowngrade(t *testing.T) {
	t.Parallel()
	bin := crashPrograms(t)
	for _, point := range crashPointsOf(t, versionCrash.MatchString) {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			o := options(t, quick...)
			o.Bin = bin
			c := harness.New(t.Context(), t, o)
			c.SetSpec(1, v36)
			n := c.Node("a")
			n.MayEnd, n.Env = true, []string{crashrun.Variable + "=" + point}
			n.Start()
			converge(t, c, 1)
			w := c.Write()
			writes(t, c, w)
			crashed, want := 0, v35
			if strings.HasPrefix(point, "downgrade-cancel") {
				// One that the spec does not ask for is cancelled: of a spec that is changed back in time, nobody knows
				// whether the only member was faster.
				want = v36
				eventually(t, c, "a downgrade is enabled", func() error { return enableDowngrade(t, n) })
			} else {
				c.SetSpec(1, want)
			}
			eventually(t, c, "a daemon comes to "+point, func() error {
				if crashed += restart(t, c); crashed == 0 {
					return fmt.Errorf("none has crashed")
				}
				return nil
			})
			allRun(t, c, want)
			answers(t, c, want)
			writes(t, c, w)
		})
	}
}

// enableDowngrade has etcd let the cluster be downgraded to 3.5, as a person may with etcdctl.
func enableDowngrade(t *testing.T, n *harness.Node) error {
	t.Helper()
	client, err := n.Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), harness.Soon)
	defer cancel()
	if _, err := client.Downgrade(ctx, clientv3.DowngradeEnable, "3.5.0"); err != nil &&
		!errors.Is(err, rpctypes.ErrDowngradeInProcess) {
		return fmt.Errorf("enable a downgrade: %w", err)
	}
	return nil
}

// Two minors down are two downgrades, each finished before the next.
func TestAVersionTwoMinorsDown(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.Bootstrap(3, v37, "a", "b", "c")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	c.SetSpec(3, v35)
	allRun(t, c, v35)
	answers(t, c, v35)
	w.WaitMore(harness.Soon, 10)
	entries, err := c.History()
	if err != nil {
		t.Fatal(err)
	}
	var enabled []string
	for _, e := range entries {
		// One whose answer was lost is asked for again.
		if strings.HasPrefix(e.Line, "etcdadm downgrade ") && !slices.Contains(enabled, e.Line) {
			enabled = append(enabled, e.Line)
		}
		if strings.Contains(e.Error, "did not come up") {
			t.Errorf("%s: %s", e.Line, e.Error)
		}
	}
	if len(enabled) != 2 {
		t.Errorf("the history reports %q", enabled)
	}
}

// The lines that upgrade plan prints, run by a shell without an observation in between, end where
// the daemons end: each waits for what etcd and the daemons do by themselves.
func TestTheLinesOfAPlanByHand(t *testing.T) {
	t.Run("down", func(t *testing.T) {
		t.Parallel()
		changesByHand(t, v37, v35)
	})
	t.Run("up", func(t *testing.T) {
		t.Parallel()
		changesByHand(t, v34, v37)
	})
}

func changesByHand(t *testing.T, from, to string) {
	c := start(t, quick...)
	c.Bootstrap(3, from, "a", "b", "c")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	env := byHand(t, c)
	if _, err := c.Ctl("pause", "--reason=by hand"); err != nil {
		t.Fatal(err)
	}
	c.WaitHold(harness.Soon, "paused")
	c.SetSpec(3, to)
	var lines string
	eventually(t, c, "a plan", func() (err error) { // there is none while a member does not serve
		lines, err = shell(t, env, "etcdadm upgrade plan --to="+to)
		return err
	})
	t.Log(lines)
	path := filepath.Join(c.Dir, "plan.sh")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := shell(t, env, "sh -e "+path); err != nil {
		t.Error(err)
	}
	answers(t, c, to)
	if _, err := c.Ctl("resume"); err != nil {
		t.Fatal(err)
	}
	allRun(t, c, to)
	w.WaitMore(harness.Soon, 10)
}

// Two minors in one go, of a cluster born on 3.5: what 3.7 cannot read of 3.5's log
// entries is behind a raft snapshot by then, and no acknowledged write is lost. Whether a
// snapshot has to be forced depends on the log: on a slow machine it may have no such
// entries.
func TestAVersionTwoMinorsUp(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.Bootstrap(3, v35, "a", "b", "c")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	c.SetSpec(3, v37)
	allRun(t, c, v37)
	answers(t, c, v37)
	w.WaitMore(harness.Soon, 10)
	entries, err := c.History()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Error, "did not come up") {
			t.Errorf("%s: %s", e.Line, e.Error)
		}
	}
}
