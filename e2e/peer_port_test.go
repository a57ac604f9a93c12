//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

const peerPort = 2380

// closedBetween has firewalls on both nodes close the peer port to the other one. The function
// that it returns opens them.
func closedBetween(c *harness.Cluster, a, b *harness.Node) (open func()) {
	there, here := c.Net.Close(a, b, peerPort), c.Net.Close(b, a, peerPort)
	return func() {
		there()
		here()
	}
}

// heldBack runs a line that is to be held, and returns what it says.
func heldBack(t *testing.T, env []string, line string) string {
	t.Helper()
	_, err := shell(t, env, line)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("%s ends with %v, and not with code 3", line, err)
		return ""
	}
	return err.Error()
}

// Two voters do not reach each other's peer port, and all three look healthy as soon as
// the third one leads. It is reported, and who reaches both is neither removed nor stopped.
// A node that one voter does not reach gets no vote until it does.
func TestAClosedPeerPort(t *testing.T) {
	t.Parallel()
	c := apart(t, "--replace-grace=10m", "--bootstrap-grace=2s")
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	open := closedBetween(c, c.Node("b"), c.Node("c"))
	c.WaitHold(harness.Soon, "peer-unreachable")
	w.WaitMore(harness.Soon, 10)
	allServe(c, 3)
	c.SetSpec(2, v36)
	c.WaitVoters(harness.Soon, 2)
	w.WaitMore(harness.Soon, 10)
	left := voters(t, c)
	if !slices.Contains(left, "a") {
		t.Fatalf("the voters are %v: who reached both is gone", left)
	}
	open()

	other, gone := "b", "c"
	if slices.Contains(left, "c") {
		other, gone = "c", "b"
	}
	// The leader is the one that does not reach the newcomer, and gives way.
	if leader(t, c).Name != other {
		handOver(t, c, c.Node(other))
	}
	open = closedBetween(c, c.Node(gone), c.Node(other))
	c.SetSpec(3, v36)
	eventually(t, c, "the vote of "+gone+" waits", func() error {
		r, err := c.Status()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(r.Holds, func(h plan.Hold) bool {
			return h.Reason == plan.PeerUnreachable && strings.Contains(h.Text, gone+" is not promoted")
		}) {
			return fmt.Errorf("holds %v", r.Holds)
		}
		return nil
	})
	// Nor does a person give it one, before anybody asks for the lease.
	env := byHand(t, c)
	err := heldBack(t, env, fmt.Sprintf("nsenter --net=/proc/%d/ns/net etcdadm member promote --expect-voters=2 --name=%s",
		c.Node("a").PID(), gone))
	if !strings.Contains(err, "do not reach each other's peer port") || !strings.Contains(err, "--accept-unreached=") {
		t.Errorf("a promotion by hand says %s", err)
	}
	eventually(t, c, "a leader that reaches "+gone, func() error {
		s, err := c.Node("a").EtcdStatus(t.Context())
		if err == nil && s.Leader != s.Header.MemberId {
			err = fmt.Errorf("%x leads", s.Leader)
		}
		return err
	})
	w.WaitMore(harness.Soon, 10)
	list := members(t, c)
	for _, m := range list {
		if m.Name == gone && !m.IsLearner {
			t.Error(gone, "has a vote, and", other, "does not reach it")
		}
	}
	if len(list) != 3 {
		t.Errorf("the members are %v", list)
	}
	open()
	c.WaitVoters(harness.Soon, 3)
	w.WaitMore(harness.Soon, 10)
}
