package operate

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

func TestAMomentOfSilenceIsNotTheReason(t *testing.T) {
	joining, silent := &machine.Hold{Rule: machine.LearnerPending}, &machine.Hold{Rule: machine.ClusterSilent}
	var r reason
	if got := r.of(silent); got != silent {
		t.Errorf("of a cluster that has told nothing: %v", got)
	}
	r.note(joining)
	if got := r.of(silent); got != joining {
		t.Errorf("silent in the last look: %v", got)
	}
	r.note(silent)
	if got := r.of(silent); got != joining {
		t.Errorf("silent for a moment: %v", got)
	}
	r.silent = time.Now().Add(-brief)
	r.note(silent)
	if got := r.of(silent); got != silent {
		t.Errorf("silent for long: %v", got)
	}
	if got := r.of(joining); got != joining {
		t.Errorf("what it says at last: %v", got)
	}
	r.note(joining)
	if got := r.of(silent); got != joining {
		t.Errorf("silent again: %v", got)
	}
}
