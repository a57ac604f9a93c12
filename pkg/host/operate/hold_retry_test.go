package operate

import (
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

func TestMomentaryHoldsAreWaitedForAndNoLonger(t *testing.T) {
	lacks := &machine.Hold{Reason: machine.QuorumMargin, Momentary: true}
	unreachable := &machine.Hold{Reason: machine.ClusterUnreachable, Wait: true}
	joining := &machine.Hold{Reason: machine.LearnerPending, Wait: true}
	final := &machine.Hold{Reason: machine.DataLost}
	type observed struct {
		after time.Duration
		why   *machine.Hold
		want  bool
	}
	const limit = time.Minute
	for name, observations := range map[string][]observed{
		"final":       {{0, final, false}},
		"an election": {{0, lacks, true}, {momentaryGrace - 1, lacks, true}, {momentaryGrace, lacks, false}},
		"an election that was unreachable first": {
			{0, unreachable, true}, {30 * time.Second, lacks, true}, {35 * time.Second, unreachable, true}, {
				45 * time.Second, lacks, false,
			},
		},
		"a machine that was restarted between two": {
			{0, lacks, true}, {time.Second, unreachable, true}, {30 * time.Second, unreachable, true},
			{40 * time.Second, lacks, true},
		},
		"two, with another reason between": {
			{0, lacks, true}, {time.Second, joining, true}, {40 * time.Second, lacks, true},
		},
		"what clears by itself has the limit": {{0, joining, true}, {limit - 1, joining, true}, {limit, joining, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var h holding
			for i, l := range observations {
				if got := h.clears(l.why, limit, time.Unix(1000, 0).Add(l.after)); got != l.want {
					t.Errorf("observation %d: waiting is %v", i, got)
				}
			}
		})
	}
	var h holding
	h.clears(lacks, time.Second, time.Unix(1000, 0))
	if h.clears(lacks, time.Second, time.Unix(1001, 0)) {
		t.Error("a momentary hold is waited for longer than all others")
	}
}

func TestWhatCameBetweenObservationAndChangeIsTriedAgain(t *testing.T) {
	remove := machine.Step{Do: &machine.Membership{Operation: &plan.Remove{ID: 1}}}
	few := fmt.Errorf("remove: %w", &plan.UnsafeError{Invariant: "quorum"})
	for _, tc := range []struct {
		err           error
		always, often bool // with OneTry, without
	}{
		{few, false, true},
		{rpctypes.ErrNotLeader, true, true},
		{&plan.StaleError{}, true, true},
		{&plan.UnsafeError{Invariant: "live-data"}, false, false},
	} {
		for once, want := range map[bool]bool{true: tc.always, false: tc.often} {
			m := &Machine{o: Options{OneTry: once}}
			if got := m.later(tc.err, remove); got != want {
				t.Errorf("%v, one try %v: tried again is %v", tc.err, once, got)
			}
		}
	}
	m := &Machine{}
	m.cfg.Timeouts.Membership = machine.Duration(time.Hour)
	if got := m.limit(remove.Do, few); got != momentaryGrace {
		t.Errorf("too few that serve are waited for %s", got)
	}
}

func TestOtherMachinesAreWaitedForForHours(t *testing.T) {
	unreachable := &machine.Hold{Reason: machine.ClusterUnreachable, Wait: true, Others: true}
	joining := &machine.Hold{Reason: machine.LearnerPending, Wait: true, Others: true}
	untrusted := &machine.Hold{Reason: machine.ClusterUnreachable, Wait: true}
	limit := time.Duration(machine.Defaults().Timeouts.Membership)
	if limit < time.Hour {
		t.Errorf("a join ends after %s", limit)
	}
	for name, c := range map[string]struct {
		whys []*machine.Hold
		last time.Duration
	}{
		"a first member that is late":  {[]*machine.Hold{unreachable}, limit},
		"two that join at once":        {[]*machine.Hold{joining}, limit},
		"late, and then another joins": {[]*machine.Hold{unreachable, joining}, limit},
		"another authority":            {[]*machine.Hold{untrusted}, clearingGrace},
	} {
		t.Run(name, func(t *testing.T) {
			var h holding
			began := time.Unix(1000, 0)
			for i, why := range c.whys {
				if !h.clears(why, limit, began.Add(time.Duration(i)*time.Second)) {
					t.Error("it is not waited for")
				}
			}
			why := c.whys[len(c.whys)-1]
			if !h.clears(why, limit, began.Add(c.last-1)) || h.clears(why, limit, began.Add(c.last)) {
				t.Errorf("it is not waited for %s", c.last)
			}
		})
	}
	var h holding
	if h.clears(unreachable, time.Second, time.Unix(1000, 0)); h.clears(unreachable, time.Second, time.Unix(1001, 0)) {
		t.Error("--membership-timeout does not bound it")
	}
}

func TestPausesGrowAndDiffer(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 50 {
		seen[backoff(time.Hour)] = true
		for waited, most := range map[time.Duration]time.Duration{
			0: 2 * pause, time.Minute: 8 * time.Second, time.Hour: longestPause * 5 / 4,
		} {
			if d := backoff(waited); d < pause/2 || d > most {
				t.Errorf("after %s the pause is %s", waited, d)
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("there are %d different pauses", len(seen))
	}
}

func TestAReasonIsReportedOnceAMinute(t *testing.T) {
	var lines []string
	m := &Machine{o: Options{Waiting: func(text string) { lines = append(lines, text) }}}
	for second := range 121 {
		m.say(machine.ClusterUnreachable, fmt.Sprintf("endpoint %d", second%3), time.Unix(int64(1000+second), 0))
		if second == 30 {
			m.say(machine.LearnerPending, "another member is joining", time.Unix(1030, 0))
		}
	}
	if len(lines) != 4 || lines[1] != "another member is joining" {
		t.Errorf("said were %q", lines)
	}
}

// Each kind of refusal has a time of its own, which ends where it is not seen for a while.
func TestRefusalsOfTwoKinds(t *testing.T) {
	few, behind := error(&plan.UnsafeError{Invariant: "quorum"}), error(rpctypes.ErrMemberLearnerNotReady)
	var r refusals
	for i, n := range []struct {
		at, took time.Duration
		err      error
		want     time.Duration
	}{
		{0, 0, behind, 0},
		{20 * time.Second, 0, behind, 20 * time.Second},
		{80 * time.Second, 45 * time.Second, behind, 80 * time.Second}, // each try may take long
		{140 * time.Second, 45 * time.Second, behind, 140 * time.Second},
		{141 * time.Second, 0, few, 0},
		{145 * time.Second, 0, few, 4 * time.Second},
		{160 * time.Second, 0, behind, 160 * time.Second},
		{180 * time.Second, 0, few, 0},
	} {
		now := time.Unix(1000, 0).Add(n.at)
		if got := r.note(n.err, now.Add(-n.took), now); got != n.want {
			t.Errorf("%d: %s, want %s", i, got, n.want)
		}
	}
}

// What has no effect is done three times at most. The leadership that another machine
// hands back is no such thing, but it is not handed over forever.
func TestStepsThatAreRepeated(t *testing.T) {
	count := func(op machine.Operation) int {
		step := machine.Step{Phase: "remove-member", Do: op}
		var again repetition
		var done []machine.Step
		for again.note(t.Context(), done, step) == nil {
			if again.begins(step) != (len(done) == 0) {
				t.Errorf("%s: reported after %d times", step.Text(), len(done))
			}
			if done = append(done, step); len(done) == 6 {
				break
			}
		}
		return len(done)
	}
	moves := machine.Step{Do: &machine.Membership{Operation: &plan.MoveLeader{To: "b"}}}
	if n := count(&machine.StopService{}); n != 3 {
		t.Errorf("a service is stopped %d times", n)
	}
	if n := count(moves.Do); n != 6 {
		t.Errorf("the leader moves %d times", n)
	}
	full := make([]machine.Step, maxSteps+1)
	for i := range full {
		full[i].Do = &machine.StopService{}
	}
	if new(repetition).note(t.Context(), full, moves) == nil {
		t.Error("the leader moves forever")
	}
}
