//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// needsMachines skips a test where there can be no machines. CI refuses that.
func needsMachines(t *testing.T) {
	t.Helper()
	needsNamespaces(t)
	if err := harness.DiskError(); err != nil {
		t.Skipf("volumes are loop devices: %v", err)
	}
}

// podMachines returns machines of AWS for the members of an etcd cluster, with volumes
// that are attached to none of them.
func podMachines(t *testing.T, e harness.KopsEtcd, members ...string) (*harness.Cluster, []*harness.Machine) {
	t.Helper()
	c := harness.New(t.Context(), t, podOptions(t))
	return c, e.AWSMachines(c, members, v36, "3.6.0", "3.6.12")
}

// podOptions are options with a network, and with the log runner of the image.
func podOptions(t *testing.T) harness.Options {
	t.Helper()
	needsMachines(t)
	o := options(t)
	runner, err := programs.runner()
	if err != nil {
		t.Fatal(err)
	}
	o.LogRunner, o.RSA, o.Net, o.Unwatched = runner, true, harness.NewNet(t), true
	return o
}

// kopsPods starts a pod on each machine.
func kopsPods(c *harness.Cluster, e harness.KopsEtcd, machines []*harness.Machine) {
	for _, m := range machines {
		m.Pod(e.AWSArgs(c)...)
	}
}

// The pod of kops on three machines of AWS: each attaches its volume, makes a file system
// and mounts it; containers end and are made again, with new hosts files and without what
// was mounted in them; a machine is replaced by another one, with another address; machines
// lose their power. The log file is rotated by copying.
func TestKopsPod(t *testing.T) {
	t.Parallel()
	e := harness.KopsMain
	c, machines := podMachines(t, e, "a", "b", "c")
	names := []string{"etcd-a", "etcd-b", "etcd-c"}
	for _, m := range machines { // a proxy through which nothing comes
		m.Env = append(m.Env, "http_proxy=http://127.0.0.1:9", "https_proxy=http://127.0.0.1:9", "no_proxy=127.0.0.1")
	}
	c.SetSpec(3, "3.6.12") // where the pod has a newer patch, as kops' images do
	kopsPods(c, e, machines)
	c.WaitNames(harness.Soon, names...)
	w := c.Write()
	w.WaitMore(harness.Soon, 5)

	for i, m := range machines {
		rotates(t, c, m)
		switch i {
		case 0: // all at once, as the kubelet ends a container that does not end
			m.Kill()
		case 1: // the daemon alone: the container ends, although etcd had its output
			m.KillDaemon()
			if code := m.WaitExit(harness.Soon); code != 1 {
				t.Errorf("the container ended with %d", code)
			}
		case 2:
			m.Stop()
		}
		gone(t, c, m)
		m.Pod(e.AWSArgs(c)...)
		c.WaitNames(harness.Soon, names...)
		hostsHave(t, c, m.Hosts(), c.Nodes())
		w.WaitMore(harness.Soon, 5)
	}

	// Another machine, with another address, has to wait for the volume.
	machines[0].ReplaceInstance()
	machines[0].Pod(e.AWSArgs(c)...)
	c.WaitNames(harness.Soon, names...)
	for _, m := range machines {
		hostsHave(t, c, m.Hosts(), c.Nodes())
	}
	w.WaitMore(harness.Soon, 5)
	for _, m := range machines {
		m.Off()
	}
	for _, m := range machines {
		m.Boot()
	}
	kopsPods(c, e, machines)
	c.WaitNames(harness.Soon, names...)
	w.WaitMore(harness.Soon, 5)
}

// gone waits until nothing of a machine's container is left, as the kubelet does.
func gone(t *testing.T, c *harness.Cluster, m *harness.Machine) {
	t.Helper()
	eventually(t, c, "nothing of the container is left", func() error {
		if n := m.Others(); n > 0 {
			return fmt.Errorf("%d processes are left on %s", n, m.Name)
		}
		return nil
	})
}

// An image of one's own that has a shell, for kops up to 1.34.
func TestKopsPodWithAShell(t *testing.T) {
	t.Parallel()
	e := harness.KopsEvents
	c, machines := podMachines(t, e, "a")
	m := machines[0]
	m.Shell, m.MayEnd = true, true // its first process is the daemon
	c.SetSpec(1, v36)
	kopsPods(c, e, machines)
	c.WaitNames(harness.Soon, m.Name)
	w := c.Write()
	w.WaitMore(harness.Soon, 5)
	m.Kill()
	gone(t, c, m)
	kopsPods(c, e, machines)
	w.WaitMore(harness.Soon, 5)
	if b, err := os.ReadFile(m.EtcdLog()); err != nil || strings.Count(string(b), "etcd-manager\n") != 2 {
		t.Errorf("the log file has %d bytes, %v", len(b), err)
	}
}

// rotates copies the log file and cuts it, as logrotate does with copytruncate, and waits
// until there is more in it: at its beginning.
func rotates(t *testing.T, c *harness.Cluster, m *harness.Machine) {
	t.Helper()
	b, err := os.ReadFile(m.EtcdLog())
	if err != nil || !strings.Contains(string(b), "etcd-manager\n") || !strings.Contains(string(b), "etcd: {") {
		t.Errorf("the log file of %s lacks lines, %v:\n%s", m.Name, err, b[:min(len(b), 2000)])
	}
	if err := os.Truncate(m.EtcdLog(), 0); err != nil {
		t.Fatal(err)
	}
	m.KillEtcd() // so that something is said
	eventually(t, c, "the log file is written", func() error {
		b, err := os.ReadFile(m.EtcdLog())
		switch {
		case err != nil:
			return err
		case len(b) == 0:
			return errors.New("nothing is in it")
		case b[0] == 0:
			t.Fatalf("the log file of %s has a hole", m.Name)
		}
		return nil
	})
}
