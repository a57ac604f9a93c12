//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// another waits until a daemon other than gone acts in a term of its own, and
// returns it.
func another(c *harness.Cluster, within time.Duration, gone *harness.Node, said map[string]int) *harness.Node {
	var next *harness.Node
	c.Eventually(within, "another coordinator", func(context.Context) error {
		for _, n := range c.Nodes() {
			if n != gone && strings.Contains(n.Said(said[n.Name]), "msg=coordinating") {
				next = n
				return nil
			}
		}
		return fmt.Errorf("nobody but %s coordinates", gone.Name)
	})
	return next
}

// healthz asks a daemon's health page.
func healthz(ctx context.Context, n *harness.Node, port, want int) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d/healthz", n.Address, port), nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Timeout: 10 * time.Second}).Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != want {
		return fmt.Errorf("/healthz says %d, want %d", answer.StatusCode, want)
	}
	return nil
}

// The disk of the coordinator's machine hangs, and its member's with it. Another
// coordinates within seconds, by-hand commands are served, and the hung one says
// that it is stuck, until its disk goes on.
func TestCoordinatorsDiskHangs(t *testing.T) {
	if err := harness.DiskError(); err != nil {
		t.Skipf("no disk can be made to freeze: %v", err)
	}
	port := testport.Free(t)
	c := start(t, calm...)
	a := c.Node("a")
	a.Flags = []string{fmt.Sprintf("--etcd-manager-metrics-port=%d", port)}
	d := c.NewDisk(a, 600)
	c.Bootstrap(3, v36, "a", "b", "c")
	lead(t, c, a)
	if leader(t, c) == a {
		handOver(t, c, c.Node("b"))
	}
	c.Start("d") // not before: it would replace who is stopped there
	c.Eventually(harness.Soon, "a well daemon", func(ctx context.Context) error {
		return healthz(ctx, a, port, http.StatusOK)
	})
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	said := sizes(c)
	d.Freeze()
	another(c, harness.Soon, a, said)
	c.Eventually(harness.Soon, "a daemon that says that it is stuck", func(ctx context.Context) error {
		return healthz(ctx, a, port, http.StatusServiceUnavailable)
	})
	w.WaitMore(harness.Soon, 10)
	// The work goes on: the hung voter is replaced by the spare.
	c.WaitNames(2*harness.Soon, "b", "c", "d")
	if _, err := c.Ctl("pause", "--reason=test"); err != nil {
		t.Error(err)
	}
	c.WaitHold(harness.Soon, "paused")
	env, pid := byHand(t, c), c.Node("b").EtcdPID()
	for _, order := range []string{"set", "lift"} {
		if _, err := shell(t, env, "etcdadm quarantine "+order+" --node=b"); err != nil {
			t.Error(err)
		}
	}
	if c.Node("b").EtcdPID() == pid {
		t.Error("etcd of b, which was ordered to keep clients away and to let them in, was not restarted")
	}
	if err := healthz(t.Context(), a, port, http.StatusServiceUnavailable); err != nil {
		t.Errorf("the disk does not hang any more: %v", err)
	}
	d.Thaw()
	c.Eventually(harness.Soon, "a well daemon again", func(ctx context.Context) error {
		return healthz(ctx, a, port, http.StatusOK)
	})
	if _, err := c.Ctl("resume"); err != nil {
		t.Error(err)
	}
	w.WaitMore(harness.Soon, 10)
}

// lead makes the daemon of n the coordinator: it is the lowest name, and takes
// over what is given back.
func lead(t *testing.T, c *harness.Cluster, n *harness.Node) {
	t.Helper()
	for range 10 {
		now := c.Coordinator()
		if now == n {
			return
		}
		was, err := c.Status()
		if err != nil {
			t.Fatal(err)
		}
		now.Stop()
		c.Eventually(harness.Soon, "the status of a later term", func(context.Context) error {
			r, err := c.Status()
			if err == nil && r.Term <= was.Term {
				err = fmt.Errorf("the status is of %s in term %d", r.Coordinator, r.Term)
			}
			return err
		})
		now.Start()
		c.WaitVoters(harness.Soon, 3)
	}
	t.Fatalf("%s does not coordinate", n.Name)
}

// A coordinator stands still for longer than the grace time, and comes back. What
// it knew from before, it must not take for what has been all the time, and what it
// was about to publish yields to what its successor has published.
func TestCoordinatorStandsStill(t *testing.T) {
	t.Parallel()
	c := start(t, calm...)
	c.Bootstrap(3, v36, "a", "b", "c")
	c.Start("d")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	for range 2 {
		gone := c.Coordinator()
		said := sizes(c)
		gone.Pause()
		another(c, harness.Soon, gone, said)
		later := published(c, gone)
		// Daemons that are away are no members that are down: their etcds serve.
		pause(c, 35*time.Second)
		gone.Continue()
		w.WaitMore(harness.Soon, 10)
		c.Eventually(harness.Soon, "a status of that term or a later one", func(context.Context) error {
			r, err := c.Status()
			if err == nil && r.Term < later {
				err = fmt.Errorf("the status is of %s in term %d, after one of term %d", r.Coordinator, r.Term, later)
			}
			return err
		})
	}
	pause(c, 5*time.Second)
	c.WaitNames(harness.Soon, "a", "b", "c")
	history, err := c.History()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range history {
		if strings.Contains(e.Line, "member remove") {
			t.Errorf("a member was removed: %+v", e)
		}
	}
}

// published waits until another than gone has published a status in a term, and
// returns the term.
func published(c *harness.Cluster, gone *harness.Node) (term cluster.Term) {
	c.Eventually(harness.Soon, "a status of another coordinator", func(context.Context) error {
		r, err := c.Status()
		if err == nil && (r.Term == 0 || string(r.Coordinator) == gone.Name) {
			err = fmt.Errorf("the status is of %s in term %d", r.Coordinator, r.Term)
		}
		term = r.Term
		return err
	})
	return term
}

// The disks of all nodes have a term that nobody can follow. Members run on,
// nobody coordinates, the hold names the way out, and that leads out. So it does
// where the daemons were killed before the store had the marker.
func TestPoisonedTerm(t *testing.T) {
	for name, marked := range map[string]bool{"marked": true, "not marked": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			poisonedTerm(t, marked)
		})
	}
}

func poisonedTerm(t *testing.T, marked bool) {
	c := start(t, quick...)
	c.Bootstrap(3, v36, "a", "b", "c")
	marker := filepath.Join(c.Store, "control/etcd-cluster-created")
	c.Eventually(harness.Soon, "the marker", func(context.Context) error {
		_, err := os.Stat(marker)
		return err
	})
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	for _, n := range c.Nodes() {
		n.Kill()
	}
	if !marked {
		if err := os.Remove(marker); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range c.Nodes() {
		poison(t, n.Dir)
		n.Start()
	}
	w.WaitMore(harness.Soon, 10)
	if text := c.WaitHold(harness.Soon, "no-coordinator"); !strings.Contains(text, "etcdadm term reset") {
		t.Errorf("the hold does not name the way out: %s", text)
	}
	for _, n := range c.Nodes() {
		n.Stop()
		if out, err := c.Program("etcdadm", "term", "reset", "--data-dir="+n.Dir, "--to=1000"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		n.Start()
		c.WaitVoters(harness.Soon, 3)
	}
	c.Eventually(harness.Soon, "a coordinator", func(context.Context) error {
		r, err := c.Status()
		if err == nil && (r.Term <= 1000 || r.Term > 2000) {
			err = fmt.Errorf("the coordinator's term is %d", r.Term)
		}
		return err
	})
	c.SetSpec(2, v36)
	c.WaitVoters(harness.Soon, 2)
	w.WaitMore(harness.Soon, 10)
}

// poison writes the largest term into a node's state, as a daemon did that took
// over what a caller sent.
func poison(t *testing.T, dir string) {
	t.Helper()
	s, err := nodestate.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "etcdadm.json")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	s.Term = 1<<64 - 1
	s.LeaseVoters.Term = s.Term
	if file["state"], err = json.Marshal(s); err == nil {
		b, err = json.Marshal(file)
	}
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The daemons are paused, all of them are started again while the store is away,
// and they are still paused.
func TestPauseOutlastsARestartWithoutTheStore(t *testing.T) {
	t.Parallel()
	c := start(t, calm...)
	c.Bootstrap(3, v36, "a", "b", "c")
	if _, err := c.Ctl("pause", "--reason=maintenance"); err != nil {
		t.Fatal(err)
	}
	c.WaitHold(harness.Soon, "paused")
	c.Start("d")
	c.Eventually(harness.Soon, "a node that remembers the pause", func(context.Context) error {
		for _, n := range c.Nodes() {
			if s, err := nodestate.Read(n.Dir); err == nil && s.Pause != nil {
				return nil
			}
		}
		return fmt.Errorf("no disk has it")
	})
	for _, n := range c.Nodes() {
		n.Kill()
	}
	back, said := unreachable(t, c), sizes(c)
	for _, n := range c.Nodes() {
		if n.Name != "c" { // it would be replaced by d
			n.Start()
		}
	}
	c.Eventually(harness.Soon, "a daemon that is paused", func(context.Context) error {
		for _, n := range c.Nodes() {
			if strings.Contains(n.Said(said[n.Name]), "reason=paused") {
				return nil
			}
		}
		return fmt.Errorf("none says so")
	})
	pause(c, 35*time.Second) // longer than the grace time
	if list := members(t, c); len(list) != 3 {
		t.Errorf("%d members: c was replaced", len(list))
	}
	back()
	began := time.Now()
	c.Node("c").Start()
	// Who is not there yet when the pause ends is replaced.
	c.Eventually(harness.Soon, "c is seen to serve", func(context.Context) error {
		r, err := c.Status()
		for _, m := range r.Observation.Members {
			if m.Name == "c" && m.Healthy && r.At.After(began) {
				return nil
			}
		}
		return fmt.Errorf("at %s the members are %v, %w", r.At, r.Observation.Members, err)
	})
	if _, err := c.Ctl("resume"); err != nil {
		t.Fatal(err)
	}
	c.WaitNames(harness.Soon, "a", "b", "c")
}
