package operate

import (
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

func TestAMomentWithoutAnAnswerIsNotTheReason(t *testing.T) {
	joining, unreachable := &machine.Hold{Reason: machine.LearnerPending}, &machine.Hold{
		Reason: machine.ClusterUnreachable,
	}
	var r reason
	if got := r.of(unreachable); got != unreachable {
		t.Errorf("of a cluster that has said nothing: %v", got)
	}
	r.note(joining)
	if got := r.of(unreachable); got != joining {
		t.Errorf("unreachable in the last observation: %v", got)
	}
	r.note(unreachable)
	if got := r.of(unreachable); got != joining {
		t.Errorf("unreachable for a moment: %v", got)
	}
	r.unreachable = time.Now().Add(-retryGrace)
	r.note(unreachable)
	if got := r.of(unreachable); got != unreachable {
		t.Errorf("unreachable for long: %v", got)
	}
	if got := r.of(joining); got != joining {
		t.Errorf("what it says at last: %v", got)
	}
	r.note(joining)
	if got := r.of(unreachable); got != joining {
		t.Errorf("unreachable again: %v", got)
	}
}
