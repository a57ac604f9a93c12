package machine_test

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// A person who waits for a cluster that does not answer reads what may be wrong, for how long it is tried
// and how to end sooner; other reasons, and other commands, say what they said.
func TestAWaitSaysHowToEndIt(t *testing.T) {
	cfg := desired(func(c *machine.Config) { c.Timeouts.Membership = machine.Duration(6 * time.Hour) })
	join := machine.Goal{Action: machine.Join}
	for problem, want := range map[string]string{
		"https://a:1: nothing listens there: connection refused": "is this the client port of a member that runs (2379 by default)?",
		"https://a:1: connection refused":                        "is this the client port of a member that runs (2379 by default)?",
		"https://a:1: no connection within 2s":                   "is the address right, and the client port open for this machine?",
		"https://a:1: lookup a: no such host":                    "is the name right?",
		"https://a:1: the cluster has no leader: too few voters": "are enough of its voters running, and do they reach each other?",
		"https://a:1: it did not answer in time":                 "is the address right?",
	} {
		why := &machine.Hold{Reason: machine.ClusterUnreachable, Text: problem}
		want = problem + "; " + want + " It is tried for 6h0m0s (--membership-timeout); Ctrl-C ends it, and --retry=false tries once"
		if got := machine.Waits(join, cfg, why); got != want {
			t.Errorf("it says\n%q, want\n%q", got, want)
		}
		if got := machine.Waits(machine.Goal{Action: machine.Reset}, cfg, why); got != problem {
			t.Errorf("a reset says %q", got)
		}
	}
	if got := machine.Waits(join, cfg, &machine.Hold{Reason: machine.LearnerPending, Text: "x"}); got != "x" {
		t.Errorf("of another reason it says %q", got)
	}
}
