//go:build e2e

package machine

import (
	"bufio"
	"context"
	"strings"
	"syscall"
	"testing"
)

// A voter that the others need does not answer for a moment: a command waits for
// it, says so, and then goes on.
func TestAVoterThatIsAwayForAMoment(t *testing.T) {
	t.Parallel()
	hosts := newHosts(func(name string) *host { return newHost(t, name, v36) }, 3)
	found(hosts...)
	a, b, c := hosts[0], hosts[1], hosts[2]
	b.lead()
	pid := a.etcd()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume := func() { _ = syscall.Kill(pid, syscall.SIGCONT) } // it may have ended
	t.Cleanup(resume)
	ctx, cancel := context.WithTimeout(t.Context(), commandTime)
	defer cancel()
	cmd := b.command(ctx, b.program, "reset")
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.start(cmd); err != nil {
		t.Fatal(err)
	}
	waited, said := false, ""
	for lines := bufio.NewScanner(out); lines.Scan(); said += lines.Text() + "\n" {
		if strings.HasPrefix(lines.Text(), "waiting: ") && strings.Contains(lines.Text(), "1 healthy voters of 2") {
			waited = true
			resume()
		}
	}
	if err := cmd.Wait(); err != nil || !waited {
		t.Fatalf("%v, waited: %v\n%s", err, waited, said)
	}
	a.wantVoters("a", "c")
	c.wantVoters("a", "c")
}
