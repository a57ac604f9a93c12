//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// layout returns a directory as kops' containers have one: a real directory for the last
// patch of each minor version, links to it for earlier patches, whose names lie, and
// etcdutl or none.
func layout(t *testing.T, dirs string, withUtl bool, versions map[string][]string) string {
	t.Helper()
	dir := t.TempDir()
	for v, names := range versions {
		place := filepath.Join(dir, "etcd-v"+v)
		if err := os.Mkdir(place, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, program := range []string{"etcd", "etcdctl", "etcdutl"} {
			path, err := harness.EtcdBinary(dirs, v, program)
			if err != nil || program == "etcdutl" && !withUtl {
				continue // there is none of each patch
			}
			if err := os.Symlink(path, filepath.Join(place, program)); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range names {
			if err := os.Symlink("etcd-v"+v, filepath.Join(dir, "etcd-v"+name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// The way of kops: the spec changes first, and then the machines come one by one with
// their disks and the new binaries. Nothing is changed before all have them, and a
// machine that restarts meanwhile runs the patch that it has.
func TestTheWayOfKops(t *testing.T) {
	t.Parallel()
	for name, withUtl := range map[string]bool{"with etcdutl": true, "without etcdutl": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, quick...)
			all := o.EtcdDirs
			steps := []map[string][]string{
				{"3.5.21": {"3.5.7", "3.5.17"}},
				{v35: {"3.5.7", "3.5.17", "3.5.21"}, "3.6.11": {"3.6.4"}},
				{"3.6.11": {"3.6.4"}, v37: {"3.7.0"}},
			}
			o.EtcdDirs = layout(t, all, withUtl, steps[0])
			c := harness.New(t.Context(), t, o)
			c.Bootstrap(3, "3.5.7", "a", "b", "c")
			w := c.Write()
			w.Watch()
			w.WaitMore(harness.Soon, 10)
			answers(t, c, "3.5.21")
			for i, want := range []string{"3.6.4", "3.7.0"} {
				c.SetSpec(3, want)
				c.WaitHold(harness.Soon, "binary-missing")
				dirs := layout(t, all, withUtl, steps[i+1])
				for _, n := range c.Nodes() {
					n.Stop()
					n.EtcdDirs = dirs
					n.Start()
					c.WaitVoters(harness.Soon, 3)
					w.WaitMore(harness.Soon, 10)
				}
				runs(t, c, want)
				answers(t, c, map[string]string{"3.6.4": "3.6.11", "3.7.0": v37}[want])
				w.WaitMore(harness.Soon, 10)
			}
		})
	}
}

// With an image of etcd of the operator's own, a machine has exactly one patch. The spec
// changes first; each machine that comes has the new one only, and runs its member with it.
// The same holds when the old version is asked for again.
func TestTheWayOfKopsWithOnePatch(t *testing.T) {
	t.Parallel()
	o := options(t, quick...)
	all := o.EtcdDirs
	o.EtcdDirs = layout(t, all, false, map[string][]string{"3.6.11": nil})
	c := harness.New(t.Context(), t, o)
	c.Bootstrap(3, "3.6.11", "a", "b", "c")
	w := c.Write()
	w.Watch()
	w.WaitMore(harness.Soon, 10)
	for _, want := range []string{"3.6.12", "3.6.11"} {
		c.SetSpec(3, want)
		c.WaitHold(harness.Soon, "binary-missing")
		dirs := layout(t, all, false, map[string][]string{want: nil})
		for _, n := range c.Nodes() {
			n.Stop()
			n.EtcdDirs = dirs
			n.Start()
			c.WaitVoters(harness.Soon, 3)
			w.WaitMore(harness.Soon, 10)
		}
		runs(t, c, want)
		answers(t, c, want)
		w.WaitMore(harness.Soon, 10)
	}
}
