package operate

import (
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

// A vote that came beside the steps is one of them, once: also where the list has it and
// the answer was lost, and not where it did not come, or a step of its own has done it.
func TestAVoteBesideTheStepsIsReportedOnce(t *testing.T) {
	op := &plan.Promote{Name: "b", ExpectVoters: 2}
	for name, c := range map[string]struct {
		done, reported bool
		learner, there bool
		want           int
	}{
		"it is done":                  {done: true, learner: true, there: true, want: 1},
		"the answer was lost":         {there: true, want: 1},
		"it is not done":              {learner: true, there: true},
		"the member is gone":          {},
		"a step has done it":          {reported: true, there: true},
		"it is done and has the vote": {done: true, there: true, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := machine.Defaults()
			cfg.Name, cfg.Listen.Address = "b", "10.0.0.2"
			var began int
			m := &Machine{cfg: cfg, o: Options{Began: func(machine.Step) { began++ }}}
			m.vote = &earlyVote{stop: func() {}, done: make(chan struct{}), asked: op, reported: c.reported}
			close(m.vote.done)
			if c.done {
				m.vote.op = op
			}
			r := Result{Last: machine.Observation{Remote: machine.Remote{Answered: true}}}
			if c.there {
				r.Last.Remote.Members = []cluster.Member{{
					ID: 0xb, Name: "b", PeerURLs: []string{"https://10.0.0.2:2380"}, Learner: c.learner,
				}}
			}
			m.noteVote(&r)
			m.noteVote(&r)
			if len(r.Steps) != c.want || began != c.want {
				t.Errorf("it is reported %d times, and begun %d times: %v", len(r.Steps), began, r.Steps)
			}
		})
	}
}
