package machine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// Who waits for a cluster that does not answer reads what may be wrong, for how long it is tried and how
// to end sooner; other reasons, and other commands, say what they said.
func TestAWaitSaysHowToEndIt(t *testing.T) {
	cfg := desired(func(c *machine.Config) { c.Timeouts.Membership = machine.Duration(6 * time.Hour) })
	join := machine.Goal{Action: machine.Join}
	for problem, want := range map[string]string{
		"https://a:1: nothing listens there: connection refused": "is this the client port of a member that runs (2379 by default)?",
		"https://a:1: no connection within 2s":                   "is the address right, and the client port open for this machine?",
		"https://a:1: lookup a: no such host":                    "is the name right?",
		"https://a:1: there is no leader":                        "check the address",
	} {
		why := &machine.Hold{Reason: machine.ClusterUnreachable, Text: problem}
		got := machine.Waits(join, cfg, why)
		for _, part := range []string{problem, want, "6h0m0s (--membership-timeout)", "--retry=false tries once", "Ctrl-C"} {
			if !strings.Contains(got, part) {
				t.Errorf("no %q in %q", part, got)
			}
		}
		if got := machine.Waits(machine.Goal{Action: machine.Reset}, cfg, why); got != problem {
			t.Errorf("a reset says %q", got)
		}
	}
	if got := machine.Waits(join, cfg, &machine.Hold{Reason: machine.LearnerPending, Text: "x"}); got != "x" {
		t.Errorf("of another reason it says %q", got)
	}
}
