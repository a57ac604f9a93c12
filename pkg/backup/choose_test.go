package backup_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func TestChoose(t *testing.T) {
	report := func(id, leader cluster.MemberID, applied uint64) cluster.Report {
		return cluster.Report{ID: id, Leader: leader, RaftTerm: 7, Applied: applied}
	}
	learner, corrupt, full, old := report(4, 1, 5000), report(5, 1, 5000), report(6, 1, 5000), report(7, 7, 5000)
	learner.Learner, corrupt.Alarms, full.Alarms, old.RaftTerm = true, []string{"CORRUPT"}, []string{"NOSPACE"}, 6
	hung, serves := report(2, 1, 5000), report(1, 1, 5000)
	hung.Read, serves.Read = cluster.ReadLate, cluster.ReadServed
	for name, c := range map[string]struct {
		reports []cluster.Report
		want    cluster.MemberID
		why     string
		passed  []backup.Passed
	}{
		"the lowest follower": {
			[]cluster.Report{report(3, 1, 5000), report(2, 1, 5000), report(1, 1, 5000)}, 2, "follower",
			[]backup.Passed{{ID: 1, Why: "it leads, and a follower is fit"}, {ID: 3, Why: "one follower is enough"}},
		},
		"a follower a little behind": {[]cluster.Report{report(1, 1, 5000), report(2, 1, 4000)}, 2, "follower", nil},
		"no follower too far behind": {
			[]cluster.Report{report(1, 1, 5001), report(2, 1, 4000)}, 1, "leader", []backup.Passed{
				{ID: 2, Why: "it is 1001 entries behind"},
			},
		},
		"no learner": {
			[]cluster.Report{report(1, 1, 5000), learner}, 1, "leader", []backup.Passed{
				{ID: 4, Why: "it is a learner, which serves no snapshots"},
			},
		},
		"no corrupt one": {
			[]cluster.Report{corrupt, report(1, 1, 5000)}, 1, "leader", []backup.Passed{
				{ID: 5, Why: "it has raised the alarm CORRUPT"},
			},
		},
		"a full one is as good as another": {[]cluster.Report{full, report(1, 1, 5000)}, 6, "follower", nil},
		"a single one":                     {[]cluster.Report{report(1, 1, 5000)}, 1, "only", nil},
		"no leader that has been succeeded": {
			[]cluster.Report{old, report(1, 1, 5000)}, 1, "leader", []backup.Passed{
				{ID: 7, Why: "it is in term 6, others are in 7"},
			},
		},
		"none that only answers": {
			[]cluster.Report{serves, hung}, 1, "leader", []backup.Passed{
				{ID: 2, Why: "it serves no linearizable read: its disk may hang"},
			},
		},
		"a follower where a leader is gone": {
			[]cluster.Report{report(2, 0, 5000), report(3, 1, 4999)}, 3, "follower", []backup.Passed{
				{ID: 2, Why: "it sees no leader: its data may be old"},
			},
		},
	} {
		given := slices.Clone(c.reports)
		got, err := backup.Choose(c.reports)
		if err != nil || got.Report.ID != c.want || !strings.Contains(got.Why, c.why) {
			t.Errorf("%s: chose %s, %q, %v", name, got.Report.ID, got.Why, err)
		}
		if c.passed != nil && !slices.Equal(got.Passed, c.passed) {
			t.Errorf("%s: passed %+v", name, got.Passed)
		}
		if len(got.Passed) != len(c.reports)-1 {
			t.Errorf("%s: of %d reports it passed %+v", name, len(c.reports), got.Passed)
		}
		for i := range given {
			if given[i].ID != c.reports[i].ID {
				t.Errorf("%s: the reports were put in another order", name)
			}
		}
	}
}

func TestChooseNone(t *testing.T) {
	for want, reports := range map[string][]cluster.Report{
		"none answers": nil,
		"4: it is a learner, which serves no snapshots; 9: it sees no leader: its data may be old": {
			{ID: 9}, {ID: 4, Learner: true},
		},
	} {
		_, err := backup.Choose(reports)
		if !errors.Is(err, backup.ErrNoMember) || !strings.HasSuffix(err.Error(), ": "+want) {
			t.Error(err)
		}
	}
}
