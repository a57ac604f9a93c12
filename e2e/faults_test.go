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
)

func TestEtcdKilledComesBack(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	ownSlack(t, c.Node("a"))
	for _, n := range []*harness.Node{leader(t, c), follower(t, c)} {
		id, pid := memberID(t, c, n), n.KillEtcd()
		c.Eventually(harness.Soon, "etcd is back", func(ctx context.Context) error {
			if now := n.EtcdPID(); now == 0 || now == pid {
				return fmt.Errorf("etcd is process %d, it was %d", now, pid)
			}
			s, err := n.EtcdStatus(ctx)
			if err == nil && s.Header.MemberId != id {
				t.Fatalf("member %x came back as %x", id, s.Header.MemberId)
			}
			return err
		})
		c.WaitVoters(harness.Soon, 3)
	}
	w.WaitMore(harness.Soon, 10)
}

// ownSlack checks that the node's etcd has the timer slack of this test, and not that of its daemon.
func ownSlack(t *testing.T, n *harness.Node) {
	t.Helper()
	slack := func(pid any) string {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%v/timerslack_ns", pid))
		if err != nil {
			t.Logf("the timer slack is not known: %v", err) // without CAP_SYS_NICE
		}
		return string(b)
	}
	own, etcd, daemon := slack("self"), slack(n.EtcdPID()), slack(n.PID())
	if etcd != "" && (etcd != own || daemon == own) {
		t.Errorf("etcd has a timer slack of %s, its daemon of %s, and this test of %s", etcd, daemon, own)
	}
}

// A daemon that is killed takes its etcd with it, and both come back.
func TestDaemonKilledAndStarted(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	for _, n := range c.Nodes() {
		id := memberID(t, c, n)
		n.Kill()
		w.WaitMore(harness.Soon, 10) // a majority is there
		n.Start()
		c.WaitVoters(harness.Soon, 3)
		if now := memberID(t, c, n); now != id {
			t.Errorf("%s was member %x and is %x", n.Name, id, now)
		}
	}
	w.WaitMore(harness.Soon, 10)
}

func TestAllOffAndOnWithoutStore(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	for _, n := range c.Nodes() {
		n.Kill()
	}
	back := unreachable(t, c)
	for _, n := range c.Nodes() {
		n.Start()
	}
	c.WaitVoters(harness.Soon, 3)
	w.WaitMore(harness.Soon, 10)
	back()
}

// unreachable makes the store one that cannot be read: its place is a file.
// The function it returns brings it back.
func unreachable(t *testing.T, c *harness.Cluster) func() {
	t.Helper()
	away := c.Store + ".away"
	if err := os.Rename(c.Store, away); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.Store, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := errors.Join(os.Remove(c.Store), os.Rename(away, c.Store)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStoreUnreachableForAWhile(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	victim, said := follower(t, c), sizes(c)
	back := unreachable(t, c)
	anySays(c, said, "store-unreachable")
	w.WaitMore(harness.Soon, 50)
	pid := victim.KillEtcd()
	c.Eventually(harness.Soon, "etcd is back without the store", func(ctx context.Context) error {
		if now := victim.EtcdPID(); now == 0 || now == pid {
			return fmt.Errorf("etcd is process %d, it was %d", now, pid)
		}
		_, err := c.Voters(ctx)
		return err
	})
	back()
	c.Start("d", "e")
	c.SetSpec(5, v36)
	c.WaitVoters(harness.Soon, 5)
	w.WaitMore(harness.Soon, 10)
}

// Markers and records are written again; the data is left alone.
func TestStoreForgets(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, c *harness.Cluster){
		"the marker": func(t *testing.T, c *harness.Cluster) {
			eventually(t, c, "the marker", func() error {
				return os.Remove(filepath.Join(c.Store, "control/etcd-cluster-created"))
			})
		},
		"everything": func(t *testing.T, c *harness.Cluster) {
			// At once: the daemons go on writing there.
			if err := os.Rename(c.Store, c.Store+".gone"); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(c.Store, 0o755); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, lose := range tests {
		t.Run(name, func(t *testing.T) {
			c := start(t)
			c.Bootstrap(3, v36, "a", "b", "c")
			w := c.Write()
			w.WaitMore(harness.Soon, 10)
			before := etcdPIDs(c)
			lose(t, c)
			eventually(t, c, "the marker is back", func() error {
				_, err := os.Stat(filepath.Join(c.Store, "control/etcd-cluster-created"))
				return err
			})
			w.WaitMore(harness.Soon, 50)
			if after := etcdPIDs(c); after != before {
				t.Errorf("etcd processes were %s and are %s", before, after)
			}
		})
	}
}

func etcdPIDs(c *harness.Cluster) string {
	var pids []string
	for _, n := range c.Nodes() {
		pids = append(pids, fmt.Sprint(n.EtcdPID()))
	}
	return strings.Join(pids, " ")
}

func TestSpecChangeIsSeenWithinSeconds(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.Bootstrap(1, v36, "a", "b", "c")
	for try := 1; ; try++ { // on a busy machine it may take longer once
		began := time.Now()
		c.SetSpec(3, v36)
		c.Eventually(harness.Soon, "the first member is added", func(ctx context.Context) error {
			members, err := c.Members(ctx)
			if err == nil && len(members) < 2 {
				err = fmt.Errorf("%d members", len(members))
			}
			return err
		})
		took := time.Since(began)
		t.Logf("acted on after %s", took.Round(time.Millisecond))
		c.WaitVoters(harness.Soon, 3)
		if took <= 15*time.Second {
			return
		}
		if try == 3 {
			t.Fatal("it takes so long each time")
		}
		c.SetSpec(1, v36)
		c.WaitVoters(harness.Soon, 1)
	}
}

// A coordinator that was stopped in its tracks past the end of its lease finds
// that another one acts, and changes nothing.
func TestStaleCoordinatorChangesNothing(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.Bootstrap(3, v36, "a", "b", "c", "d", "e")
	w := c.Write()
	stale := c.Coordinator()
	r, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	stale.Pause()
	c.SetSpec(5, v36)
	c.Eventually(harness.Soon, "another coordinator acts", func(ctx context.Context) error {
		now, err := c.Status()
		if err == nil && (now.Term <= r.Term || string(now.Coordinator) == stale.Name) {
			err = fmt.Errorf("%s coordinates in term %d, %s did in term %d", now.Coordinator, now.Term, stale.Name, r.Term)
		}
		return err
	})
	c.SetSpec(3, v36)
	said := stale.LogSize()
	stale.Continue()
	c.WaitVoters(harness.Soon, 3)
	idle(t, c)
	w.WaitMore(harness.Soon, 10)
	for line := range strings.Lines(stale.Said(said)) {
		if strings.Contains(line, "msg=doing") && !strings.Contains(stale.Said(said), "msg=coordinating") {
			t.Errorf("the stale coordinator did: %s", line)
		}
	}
}

// Killing the coordinator, with its member, makes another one act.
func TestCoordinatorKilled(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	c.Bootstrap(3, v36, "a", "b", "c", "d", "e")
	w := c.Write()
	gone := c.Coordinator()
	before, err := c.Voters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone.Kill()
	killed := time.Now()
	c.SetSpec(5, v36)
	c.Eventually(30*time.Second, "a member is added", func(ctx context.Context) error {
		members, err := c.Members(ctx)
		if err != nil {
			return err
		}
		for _, m := range members {
			if m.Name != "" && !slices.Contains(before, m.Name) {
				return nil
			}
		}
		return fmt.Errorf("the members are %v", members)
	})
	t.Logf("acted on after %s", time.Since(killed).Round(time.Millisecond))
	gone.Start()
	c.WaitVoters(harness.Soon, 5)
	w.WaitMore(harness.Soon, 10)
}
