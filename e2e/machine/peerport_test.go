package machine

import (
	"context"
	"strings"
	"testing"
)

// A member that answers clients and whose peer port cannot be reached is reported before a
// machine joins, by preflight and by join; one that can be reached is not.
func TestAClosedPeerPortIsReportedBeforeAJoin(t *testing.T) {
	a, b := newHost(t, "a", v36), newHost(t, "b", v36)
	a.ok("init")
	b.copyCA(a)
	if r := b.run("preflight", "--endpoints", a.clientURL()); r.code != 0 || strings.Contains(r.stderr, "PeerPorts") {
		t.Fatalf("the port is open: %s", r)
	}
	// Nothing listens where the member is said to be. It goes on alone.
	c := a.client(a)
	id := a.members()[0].ID
	changes(t, "another peer URL", func(ctx context.Context) error {
		_, err := c.MemberUpdate(ctx, id, []string{"https://127.0.0.1:1"})
		return err
	})
	for _, args := range [][]string{
		{"preflight", "--endpoints", a.clientURL()}, {"join", "--dry-run", a.clientURL()},
	} {
		r := b.run(args...)
		if !strings.Contains(r.stderr, "[WARNING PeerPorts]: this machine does not reach the peer port of member a: ") ||
			!strings.Contains(r.stderr, "127.0.0.1:1: connect: connection refused") {
			t.Errorf("%s: %s", args, r)
		}
	}
}

// Two members of which one does not reach the other are reported by what shows the cluster, and by who
// joins, also where both serve: messages go both ways over the connection that the other has opened.
func TestAPeerPortThatAMemberDoesNotReachIsReported(t *testing.T) {
	a, b, c := newHost(t, "a", v36), newHost(t, "b", v36), newHost(t, "c", v36)
	a.ok("init")
	b.copyCA(a)
	c.copyCA(a)
	const reported = "member a does not reach the peer port of member b (https://127.0.0.1:1): open the peer port"
	if r := b.run("join", a.clientURL()); r.code != 0 || strings.Contains(r.stderr, "does not reach") {
		t.Fatalf("all ports are open: %s", r)
	}
	if r := a.run("status", "--check"); r.code != 0 || strings.Contains(r.stdout, "does not reach") {
		t.Fatalf("all ports are open: %s", r)
	}
	id := b.id()
	changes(t, "another peer URL", func(ctx context.Context) error {
		_, err := a.client(a).MemberUpdate(ctx, id, []string{"https://127.0.0.1:1"})
		return err
	})
	b.kill() // what is connected stays so
	if r := b.run("join", a.clientURL()); r.code != 0 || !strings.Contains(r.stderr, "warning: "+reported) {
		t.Errorf("join: %s", r)
	}
	if r := a.run("status", "--check"); r.code != 8 || !strings.Contains(r.stdout, "warning: "+reported) ||
		!strings.Contains(r.stderr, "member a does not reach") {
		t.Errorf("status: %s", r)
	}
	if r := c.run("preflight", "--endpoints", a.clientURL()); !strings.Contains(r.stderr,
		"[WARNING PeerPorts]: member a does not reach the peer port of member b (https://127.0.0.1:1)") {
		t.Errorf("preflight: %s", r)
	}
}
