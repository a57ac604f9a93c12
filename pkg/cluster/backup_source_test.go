package cluster

import (
	"strings"
	"testing"
)

func TestUnfit(t *testing.T) {
	good := Report{ID: 1, Leader: 2, RaftTerm: 7, Applied: 5000, Read: ReadServed}
	for name, c := range map[string]struct {
		change func(*Report)
		want   string
	}{
		"fit":                 {func(*Report) {}, ""},
		"a little behind":     {func(r *Report) { r.Applied -= MaxBehind }, ""},
		"ahead of the others": {func(r *Report) { r.Applied, r.RaftTerm = 9000, 8 }, ""},
		"another leader":      {func(r *Report) { r.Leader, r.RaftTerm = 1, 6 }, "it follows 1, the others 2"},
		"another alarm":       {func(r *Report) { r.Alarms = []string{"NOSPACE"} }, ""},
		"behind":              {func(r *Report) { r.Applied -= MaxBehind + 1 }, "it is 1001 entries behind"},
		"an old term":         {func(r *Report) { r.RaftTerm-- }, "it has applied nothing of term 7 yet, as others have"},
		"a learner":           {func(r *Report) { r.Learner = true }, "learner"},
		"corrupt":             {func(r *Report) { r.Alarms = []string{"NOSPACE", AlarmCorrupt} }, "alarm CORRUPT"},
		"no leader":           {func(r *Report) { r.Leader = 0 }, "no leader"},
		"no read":             {func(r *Report) { r.Read = ReadLate }, "no linearizable read"},
	} {
		r := good
		c.change(&r)
		got := r.Unfit([]Report{good, r})
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// What shows by a report alone, "snapshot save" warns of.
	corrupt := good
	corrupt.Alarms = []string{AlarmCorrupt}
	if got := corrupt.Unfit(nil); !strings.Contains(got, "CORRUPT") {
		t.Errorf("of a corrupt member: %q", got)
	}
	if got := good.Unfit([]Report{good}); got != "" {
		t.Errorf("alone: %q", got)
	}
}

// A candidate that reaches nobody is in a term that nobody else has heard of.
func TestTermOfOneThatIsCutOffMakesNobodyUnfit(t *testing.T) {
	good := Report{ID: 1, Leader: 2, RaftTerm: 7, Applied: 5000, Read: ReadServed}
	cut := Report{ID: 3, RaftTerm: 40, Applied: 4000}
	if got := good.Unfit([]Report{cut, good}); got != "" {
		t.Errorf("the one that serves: %q", got)
	}
	if got := cut.Unfit([]Report{cut, good}); got != "it sees no leader" {
		t.Errorf("the one that is cut off: %q", got)
	}
}

// The agent that backs up any etcd, and the planner of the daemons, rely on a member by the same
// facts.
func TestAgentAndPlannerJudgeByTheSameFacts(t *testing.T) {
	best := Report{ID: 2, Leader: 2, RaftTerm: 7, Applied: 5000, Read: ReadServed}
	for _, alarms := range [][]string{nil, {"NOSPACE"}, {AlarmCorrupt}, {"NOSPACE", AlarmCorrupt}} {
		for _, leader := range []MemberID{0, 1, 2} {
			for _, term := range []uint64{6, 7} {
				for _, read := range []Read{"", ReadServed, ReadLate} {
					r := Report{ID: 1, Leader: leader, RaftTerm: term, Applied: 4900, Read: read, Alarms: alarms}
					if term == best.RaftTerm && leader == r.ID {
						continue // a term has one leader
					}
					unfit := r.Unfit([]Report{best, r})
					m := Member{ID: 1, Name: "a"}
					m.Judge(Evidence{Report: &r, Leader: best.Leader, Term: best.RaftTerm})
					if m.Condition.Serves() != (unfit == "") || m.Why != unfit {
						t.Errorf("%+v: the agent says %q, the planner %s: %s", r, unfit, m.Condition, m.Why)
					}
				}
			}
		}
	}
}

// What a learner has applied may be of earlier terms for as long as it catches up.
func TestALearnerThatCatchesUpIsNotLate(t *testing.T) {
	r := Report{ID: 1, Leader: 2, RaftTerm: 3, Applied: 10, Learner: true}
	m := Member{ID: 1, Name: "a", Learner: true}
	m.Judge(Evidence{Report: &r, Leader: 2, Term: 7})
	if m.Condition == Late || m.Condition == Stuck || strings.Contains(m.Why, "term") {
		t.Errorf("a learner that has applied entries of an earlier term is %s: %s", m.Condition, m.Why)
	}
}
