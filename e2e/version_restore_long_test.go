//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/testing/crashpoint"
)

const v34, late35 = "3.4.25", "3.5.35"

// From 3.5 to 3.4 nothing leads but a backup and a restore. It waits for the operator's
// word, which may be taken back and counts once. No acknowledged write is lost (the
// writer looks for each at the end), a watch ends and sees nothing twice, a lease ends,
// and the revision only grows. Then the members go back up, and the word is used.
func TestAVersionThatOnlyARestoreReaches(t *testing.T) {
	t.Parallel()
	c := restoring(t, quick...)
	c.Found(3, late35, "a", "b", "c")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	client, err := c.NewClient(c.Nodes()...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	lease, err := client.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	put(t, c, "leased", "1", clientv3.WithLease(lease.ID))

	before := processes(c)
	c.SetSpec(3, v34)
	if text := c.WaitHold(harness.Soon, string(plan.VersionDiffers)); !strings.Contains(text,
		"--etcd-version="+v34+" configure-cluster --allow-restore") {
		t.Errorf("it holds with %q", text)
	}
	// Allowed and taken back before the coordinator acts on it.
	ctl(t, c, "pause", "--reason=to take it back")
	ctl(t, c, "configure-cluster", "--allow-restore")
	c.SetSpec(3, late35)
	ctl(t, c, "resume")
	eventually(t, c, "what was taken back is closed", func() error {
		if out := ctl(t, c, "list-commands"); strings.Contains(out, "sealed") {
			return errors.New(out)
		}
		return nil
	})
	allRun(t, c, late35)
	if after := processes(c); !slices.Equal(before, after) {
		t.Errorf("the processes were %v, and are %v", before, after)
	}

	seen := put(t, c, "seen", "1")
	watch := client.Watch(t.Context(), "", clientv3.WithPrefix(), clientv3.WithRev(seen+1))
	ctl(t, c, "--etcd-version="+v34, "configure-cluster", "--allow-restore")
	w.LongestGap()
	runs(t, c, v34)
	answers(t, c, v34)
	w.WaitMore(harness.Soon, 10)
	t.Logf("%s to %s by a restore: %.1f s without an acknowledged write", late35, v34, w.LongestGap().Seconds())
	if v, revision := read(t, c, "seen"); v != "1" || revision < seen+1_000_000_000 {
		t.Errorf("seen is %q, at revision %d, and was written at %d", v, revision, seen)
	}
	compacted(t, c, watch, seen)
	eventually(t, c, "the lease ends", func() error {
		if v, _ := read(t, c, "leased"); v != "" {
			return fmt.Errorf("leased is %q", v)
		}
		return nil
	})
	// Up again, and the word does not count a second time.
	c.SetSpec(3, late35)
	runs(t, c, late35)
	w.WaitMore(harness.Soon, 10)
	c.SetSpec(3, v34)
	c.WaitHold(harness.Soon, string(plan.VersionDiffers))
	answers(t, c, late35)
}

// sealedCrash are the points that such a restore comes to.
var sealedCrash = regexp.MustCompile(`^(restore-(stage|switch)|quarantine|backup-take|request-close)`)

// Each daemon kills itself at its first crash point of a name, in the middle of such a
// restore. Started again, they finish it, and nothing that was acknowledged is lost.
func TestCrashOnTheWayByARestore(t *testing.T) {
	t.Parallel()
	bin := crashPrograms(t)
	for _, point := range crashPoints(t) {
		if !sealedCrash.MatchString(point) {
			continue
		}
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			o := options(t, quick...)
			o.Bin, o.Restored = bin, true
			c := harness.New(t.Context(), t, o)
			c.SetSpec(1, late35)
			for _, name := range []string{"a"} {
				n := c.Node(name)
				n.MayEnd, n.Env = true, []string{crashpoint.Variable + "=" + point}
				n.Start()
			}
			crashed := converge(t, c, 1)
			w := c.Write()
			crashed += writes(t, c, w)
			ctl(t, c, "--etcd-version="+v34, "configure-cluster", "--allow-restore")
			eventually(t, c, "a daemon comes to "+point, func() error {
				if crashed += restart(t, c); crashed == 0 {
					return errors.New("none has crashed")
				}
				return settledOn(c, v34)(t.Context())
			})
			writes(t, c, w)
		})
	}
}
