//go:build e2e

package e2e

import (
	"path/filepath"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// Three machines become a cluster by "etcdadm seed" and "etcdadm auto", which grows and heals as
// that of etcd-manager does.
func TestAuto(t *testing.T) {
	t.Parallel()
	c := start(t)
	if _, err := c.Program("etcdadm", "seed", c.StoreURL(), "version="+v36, "nodes=3", "--cluster-name=test"); err != nil {
		t.Fatal(err)
	}
	run := func(name string) {
		n := c.Node(name)
		n.Port.Store(2379)
		n.RunOther("ETCDADM_OF_THE_TEST=1", filepath.Join(c.Bin, "etcdadm"), "auto", c.StoreURL(), "--cluster-name=test",
			"--name="+name, "--bind-address="+n.Address, "--etcd-address="+n.Address,
			"--data-dir="+n.Dir, "--pki-dir="+n.InstallPKI(),
			"--etcd-dir="+c.EtcdDirs, "--replace-grace=3s")
	}
	for _, name := range []string{"a", "b", "c"} {
		run(name)
	}
	c.WaitNames(harness.Soon, "a", "b", "c")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	c.Node("b").LoseDisk()
	run("b")
	c.WaitNames(harness.Soon, "a", "b", "c")
	w.WaitMore(harness.Soon, 10)
	c.SetSpec(1, v36)
	c.WaitVoters(harness.Soon, 1)
	w.WaitMore(harness.Soon, 10)
}
