package render

import (
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
)

func TestHealth(t *testing.T) {
	well := func(names ...cluster.NodeName) (list []cluster.Member) {
		for i, name := range names {
			list = append(list, cluster.Member{
				ID: cluster.MemberID(i + 1), Name: name, Healthy: true, Condition: cluster.Serving,
			})
		}
		return list
	}
	change := func(list []cluster.Member, f func(*cluster.Member)) []cluster.Member {
		f(&list[len(list)-1])
		return list
	}
	ill := func(m *cluster.Member) {
		m.Healthy, m.Condition, m.UnhealthySince = false, cluster.Hung, now.Add(-42*time.Second)
	}
	// unasked has nobody have asked the last n, proven has the first served a read.
	unasked := func(list []cluster.Member, n int) []cluster.Member {
		for i := len(list) - n; i < len(list); i++ {
			m := &list[i]
			m.Healthy, m.Condition, m.Why = false, cluster.Unknown, "nobody knows its machine"
		}
		return list
	}
	proven := func(list []cluster.Member) []cluster.Member {
		list[0].Served = true
		return list
	}
	// daemons answer, but for the last one, which did so 3 minutes ago, or never.
	daemons := func(names ...cluster.NodeName) (list []cluster.Node) {
		for _, name := range names {
			list = append(list, cluster.Node{Name: name, Reachable: true, LastSeen: now})
		}
		last := &list[len(list)-1]
		last.Reachable, last.LastSeen = false, now.Add(-3*time.Minute)
		return list
	}
	three := cluster.Spec{MemberCount: 3}
	for name, tt := range map[string]struct {
		members []cluster.Member
		nodes   []cluster.Node
		gaps    []cluster.Gap
		holds   []plan.Hold
		age     time.Duration
		want    Health
		because string
		code    int
	}{
		"all serve":      {members: well("a", "b", "c"), want: Healthy},
		"just not stale": {members: well("a", "b", "c"), age: StaleAge, want: Healthy},
		"one serves, and nobody has asked two": {
			members: unasked(well("a", "b", "c"), 2), want: Unknown,
			because: "1 of 3 voters serve, and nobody has asked 2", code: 9,
		},
		"one has read through the quorum, and nobody has asked two": {
			members: proven(unasked(well("a", "b", "c"), 2)), want: Degraded,
			because: "member c is unknown: nobody knows", code: 8,
		},
		"two serve, and nobody has asked one": {
			members: unasked(well("a", "b", "c"), 1), want: Degraded, because: "member c is unknown: nobody knows", code: 8,
		},
		"too few serve, whatever the one does that nobody has asked": {
			members: append(change(well("a", "b"), ill), unasked(well("c"), 1)[0], change(well("d"), ill)[0]),
			want:    QuorumLost, because: "1 of 4 voters serve", code: 5,
		},
		"stale": {
			members: well("a", "b", "c"), age: time.Hour, want: Unknown, because: "STALE, 60m old", code: 9,
		},
		"no member is known": {want: Unknown, because: "no member is known; 0 of 3 voters are there", code: 9},
		"no daemon answers": {
			nodes: []cluster.Node{{Name: "a"}}, gaps: []cluster.Gap{{Source: "node a", Text: "refused"}}, want: Unknown,
			because: "no daemon answers; node a: refused; 0 of 3 voters are there", code: 9,
		},
		"one of three hangs": {
			members: change(well("a", "b", "c"), ill), want: Degraded, because: "member c is unhealthy for 42s", code: 8,
		},
		"one is slow": {
			members: change(well("a", "b", "c"), func(m *cluster.Member) { m.Condition = cluster.Slow }),
			want:    Degraded, because: "member c is slow", code: 8,
		},
		"one has no space": {
			members: change(well("a", "b", "c"), func(m *cluster.Member) { m.Alarms = []string{"NOSPACE"} }),
			want:    Degraded, because: "member c has the alarm NOSPACE", code: 8,
		},
		"too few voters":  {members: well("a", "b"), want: Degraded, because: "2 of 3 voters are there", code: 8},
		"too many voters": {members: well("a", "b", "c", "d"), want: Degraded, because: "4 of 3 voters are there", code: 8},
		"a learner that has not caught up": {
			members: change(well("a", "b", "c", "d"), func(m *cluster.Member) { m.Learner, m.Healthy = true, false }),
			want:    Healthy,
		},
		"all serve, and a daemon does not answer": {
			members: well("a", "b", "c"), nodes: daemons("a", "b", "c"), want: Degraded,
			because: "the daemon of node c does not answer (seen 3m ago), so nothing manages its etcd: check whether etcd-manager runs there",
			code:    8,
		},
		"all serve, and a daemon was never seen": {
			members: well("a", "b", "c"), nodes: append(daemons("a", "b", "x"), cluster.Node{Name: "c"}), want: Degraded,
			because: "the daemon of node c does not answer (never seen), so nothing", code: 8,
		},
		"all serve, and a daemon is of another cluster": {
			members: well("a", "b", "c"), want: Degraded,
			nodes:   append(daemons("a", "b", "x"), cluster.Node{Name: "c", OtherCluster: "events"}),
			because: "the daemon of node c answers for cluster events only", code: 8,
		},
		"all serve, and one has no daemon": {
			members: well("a", "b", "c"), nodes: daemons("a", "b", "x"), want: Degraded,
			because: "no daemon is known for member c, so nothing manages its etcd: check whether", code: 8,
		},
		"a node without a member does not answer": {
			members: well("a", "b", "c"), nodes: append(daemons("a", "b", "x"), cluster.Node{Name: "c", Reachable: true}),
			want: Healthy,
		},
		"held": {
			members: well("a", "b", "c"), holds: []plan.Hold{{Reason: plan.NoCoordinator}}, want: Degraded,
			because: "held: " + string(plan.NoCoordinator), code: 8,
		},
		"the quorum is lost": {
			members: change(change(well("a", "b"), ill), ill), want: QuorumLost, because: "1 of 2 voters serve", code: 5,
		},
		"the quorum is lost, it is reported": {
			holds: []plan.Hold{{Reason: plan.QuorumLost}}, want: QuorumLost, because: "0 of 0 voters serve", code: 5,
		},
	} {
		r := reconcile.Report{
			At: now.Add(-tt.age), Spec: three, Holds: tt.holds, Observation: cluster.Observation{
				Observer: "a", Members: tt.members, Nodes: tt.nodes, Gaps: tt.gaps, Leader: 1,
			},
		}
		s := NewStatus(&r, now)
		if because := strings.Join(s.Because, "; "); s.Health != tt.want || !strings.Contains(because, tt.because) ||
			(because == "") != (tt.want == Healthy) {
			t.Errorf("%s: %s because %q, want %s because %q", name, s.Health, because, tt.want, tt.because)
		}
		if code := cli.Classify(s.Check()).Number; code != tt.code {
			t.Errorf("%s: code %d, want %d", name, code, tt.code)
		}
	}
	if s := NewStatus(nil, now); s.Health != Unknown || cli.Classify(s.Check()).Number != 9 {
		t.Errorf("without a report: %+v", s)
	}
	if err := CheckMembers(true, well("a"), now); err != nil {
		t.Errorf("one member that serves: %v", err)
	}
	if err := CheckMembers(false, well("a"), now); cli.Classify(err).Kind != cli.KindUnknown {
		t.Errorf("a list that no quorum reports: %v", err)
	}
	// It was asked after the observation began, and was well before for all that is known.
	hung := append(well("a", "b"), cluster.Member{ID: 9, Name: "c", UnhealthySince: now.Add(3 * time.Second)})
	if err := CheckMembers(true, hung, now); err == nil || !strings.HasSuffix(err.Error(), "member c is unhealthy") {
		t.Errorf("one that does not answer: %v", err)
	}
}

// What a coordinator published before it went is not said to be so.
func TestStaleStateIsNotReportedAsTheState(t *testing.T) {
	r := reconcile.Report{At: now, Converged: true}
	if got := State(r, StaleAge+1); got != "unknown; STALE: as the spec says 3m ago" {
		t.Error(got)
	}
}
