package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// damage leaves of a file of the node's data directory what a disk may leave.
func damage(t *testing.T, n *harness.Node, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(n.Dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// refused starts the node's daemon, which has to end and to say what to do.
func refused(t *testing.T, n *harness.Node, name string) {
	t.Helper()
	from := n.LogSize()
	n.MayEnd = true
	n.Start()
	if code := n.WaitExit(harness.Soon); code == 0 {
		t.Errorf("%s ended with 0", n.Name)
	}
	said, file := n.Said(from), filepath.Join(n.Dir, name)
	for _, part := range []string{file + " cannot be read", "mv " + file} {
		if !strings.Contains(said, part) {
			t.Errorf("%s does not say %q", n.Name, part)
		}
	}
}

// setAside does what the daemon has advised.
func setAside(t *testing.T, n *harness.Node, name string) {
	t.Helper()
	file := filepath.Join(n.Dir, name)
	if err := os.Rename(file, file+".damaged"); err != nil {
		t.Fatal(err)
	}
}

// A daemon whose state file is damaged does not start, and says how it will: first one
// of three, then a majority.
func TestDamagedStateFiles(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	for _, names := range [][]string{{"a"}, {"a", "b"}} {
		for i, name := range names {
			n := c.Node(name)
			n.Kill()
			damage(t, n, "etcdadm.json", [][]byte{nil, []byte(`{"format": 1, "state": {"assig`)}[i])
			refused(t, n, "etcdadm.json")
		}
		for _, name := range names {
			setAside(t, c.Node(name), "etcdadm.json")
			c.Node(name).Start()
		}
		c.WaitVoters(harness.Soon, 3)
		w.WaitMore(harness.Soon, 10)
		for _, name := range names { // the next damage of it has the same advice
			if err := os.Remove(filepath.Join(c.Node(name).Dir, "etcdadm.json.damaged")); err != nil {
				t.Fatal(err)
			}
		}
	}
	// etcd serves, and nobody can coordinate before a person has said so. Until all daemons answer,
	// the hold advises to start them.
	c.Eventually(harness.Soon, "the hold names recover-lease-voters", func(context.Context) error {
		if hold := c.WaitHold(harness.Soon, "lease-voters-lost"); !strings.Contains(hold, "recover-lease-voters") {
			return fmt.Errorf("it is %q", hold)
		}
		return nil
	})
	if out, err := c.Ctl("recover-lease-voters"); err != nil {
		t.Fatal(out, err)
	}
	c.SetSpec(1, v36)
	c.WaitVoters(harness.Soon, 1)
}

// A node that has lost both of its files runs no member: it does not know which it ran. Its
// member is replaced after the grace time, which is long enough here to warn a person first.
func TestBothStateFilesDamaged(t *testing.T) {
	t.Parallel()
	c := start(t, "--replace-grace=1m", "--bootstrap-grace=2s")
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	n := c.Node("c")
	old := memberID(t, c, n)
	n.Kill()
	for _, name := range []string{"etcdadm.json", "state"} {
		damage(t, n, name, []byte("\x00\x00"))
	}
	for _, name := range []string{"etcdadm.json", "state"} {
		refused(t, n, name)
		setAside(t, n, name)
	}
	n.Start()
	if hold := c.WaitHold(harness.Soon, "disk-unreadable"); !strings.Contains(hold, "the directory data") {
		t.Errorf("the hold is %q", hold)
	}
	n.Kill()
	setAside(t, n, "data")
	n.Start()
	c.Eventually(harness.Soon, "a new member on "+n.Name, func(ctx context.Context) error {
		s, err := n.EtcdStatus(ctx)
		if err == nil && (s.Header.MemberId == old || s.IsLearner) {
			err = fmt.Errorf("member %x, learner: %t", s.Header.MemberId, s.IsLearner)
		}
		return err
	})
	w.WaitMore(harness.Soon, 10)
}
