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
		"another alarm":       {func(r *Report) { r.Alarms = []string{"NOSPACE"} }, ""},
		"behind":              {func(r *Report) { r.Applied -= MaxBehind + 1 }, "it is 1001 entries behind"},
		"an old term":         {func(r *Report) { r.RaftTerm-- }, "it is in term 6, others are in 7"},
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
	if got := corrupt.Fault(); !strings.Contains(got, "CORRUPT") {
		t.Errorf("of a corrupt member: %q", got)
	}
	if got := good.Unfit([]Report{good}); got != "" {
		t.Errorf("alone: %q", got)
	}
}
