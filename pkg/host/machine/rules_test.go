package machine_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// TestEveryReasonIsExplained reads the reasons from where they are declared.
func TestEveryReasonIsExplained(t *testing.T) {
	source, err := os.ReadFile("goal.go")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]machine.ReasonDoc{}
	for _, d := range machine.Reasons() {
		explained[string(d.Reason)] = d
	}
	declared := regexp.MustCompile(`Reason += "([a-z-]+)"`).FindAllSubmatch(source, -1)
	if len(declared) < 15 || len(declared) != len(explained) {
		t.Errorf("%d reasons are declared, %d are explained", len(declared), len(explained))
	}
	for _, m := range declared {
		if d := explained[string(m[1])]; d.Means == "" || d.Do == "" {
			t.Errorf("%s is not explained", m[1])
		}
	}
}

func TestEveryPhaseAndCheckSaysWhatItIs(t *testing.T) {
	for _, a := range []machine.Action{machine.Init, machine.Join, machine.Reset, machine.Remove,
		machine.ToManager, machine.FromManager} {
		if len(machine.Phases(a)) == 0 {
			t.Errorf("%s has no phases", a)
		}
		for _, p := range machine.Phases(a) {
			if got, ok := machine.PhaseOf(a, p.Name); !ok || got.Short == "" {
				t.Errorf("phase %s of %s is not found or not described", p.Name, a)
			}
		}
	}
	if _, ok := machine.PhaseOf(machine.Init, "membership"); ok {
		t.Error("init has a phase of join")
	}
	seen := map[string]bool{}
	for _, c := range machine.Checks() {
		if c.What == "" || seen[c.ID] {
			t.Errorf("check %s is not described, or there twice", c.ID)
		}
		seen[c.ID] = true
	}
}
