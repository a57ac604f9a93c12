//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/testing/crashrun"
)

// exchangeSteps are the steps of an exchange that a daemon can be killed at: it starts the
// member that state reports, and ours agree when the last one of the others has gone.
var exchangeSteps = []string{
	"member-start.before-spawn",
	"incarnation-create.before", "incarnation-create.after", "lease-voters-adopt.before", "lease-voters-adopt.after",
	"incarnation-mark.before", "incarnation-mark.after",
}

// Daemons are killed with SIGKILL at each step of an exchange, with whatever ran in their
// containers, and begun again in place as the kubelet does.
func TestRollingExchangeKilled(t *testing.T) {
	t.Parallel()
	bin := crashPrograms(t)
	x := newExchange(t, 250*time.Millisecond)
	w := x.c.Write()
	w.WaitMore(harness.Soon, 10)
	dir := t.TempDir()
	for _, step := range exchangeSteps {
		if err := os.WriteFile(filepath.Join(dir, step), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range x.nodes {
		n.Stop()
		n.Bin, n.MayEnd, n.Env = bin, true, []string{crashrun.Variable + "=" + crashrun.Dir + dir}
		x.startOurs(n)
		eventually(t, x.c, "the members serve", func() error {
			x.begunAgain()
			names, err := x.c.Voters(t.Context())
			if err == nil && len(names) != 3 {
				err = fmt.Errorf("the voters are %v", names)
			}
			return err
		})
		x.unchanged()
	}
	eventually(t, x.c, "the takeover", func() error {
		x.begunAgain()
		return takenOver(t.Context(), x.c, 1, kopsVoters...)
	})
	eventually(t, x.c, "all steps have killed somebody", func() error {
		x.begunAgain()
		left, err := os.ReadDir(dir)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%v are left", left)
		}
		return err
	})
	x.takenOver()
	w.WaitMore(harness.Soon, 10)
}

// begunAgain starts the daemons that have ended, in new containers.
func (x *exchange) begunAgain() {
	x.t.Helper()
	for _, n := range x.nodes {
		how, ended := n.Ended()
		if !ended {
			continue
		}
		if how.String() != "signal: killed" {
			x.t.Fatalf("daemon %s: %s\n%s", n.Name, how, n.Said(0))
		}
		n.WaitExit(harness.Soon)
		x.startOurs(n)
	}
}

// One machine is cut off while the last one of the existing kind is exchanged: one of ours,
// or that one. Nothing is decided by those that see each other, who are a majority, nor by
// the one; when all see each other again, ours take over.
func TestRollingExchangePartitioned(t *testing.T) {
	t.Parallel()
	for _, cut := range []string{"etcd-b", "etcd-a"} {
		t.Run(cut, func(t *testing.T) {
			x := newExchange(t, 250*time.Millisecond)
			w := x.c.Write()
			w.WaitMore(harness.Soon, 10)
			for _, n := range x.nodes[1:] {
				x.exchange(n, x.startOurs)
			}
			x.undecided()
			x.c.Net.Cut(x.c.Node(cut))
			last := x.nodes[0]
			last.Stop()
			x.startOurs(last)
			x.holds("taking-over", cut)
			pause(x.c, 25*time.Second) // longer than anybody listens for the existing kind
			x.undecided()
			w.WaitMore(harness.Soon, 10)
			x.c.Net.Heal()
			x.takenOver()
			w.WaitMore(harness.Soon, 10)
		})
	}
}

// holds waits until a hold for that reason, published after this, has the words.
func (x *exchange) holds(reason string, words ...string) {
	x.t.Helper()
	began := time.Now()
	eventually(x.t, x.c, "the hold "+reason, func() error {
		r, err := x.c.Status()
		if err == nil && r.At.Before(began) {
			err = errors.New("the status is an old one")
		}
		if err != nil {
			return err
		}
		for _, h := range r.Holds {
			lacks := func(w string) bool { return !strings.Contains(h.Text, w) }
			if string(h.Reason) == reason && !slices.ContainsFunc(words, lacks) {
				return nil
			}
		}
		return fmt.Errorf("the holds are %v", r.Holds)
	})
}
