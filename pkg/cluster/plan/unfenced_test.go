package plan_test

import (
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// TestUnfenced shows when a step may be done by a daemon that does not hold the lease: one
// of a restore only where an operator has declared so many lease voters to be gone that
// nobody can, and nothing contradicts it; a backup where nobody can hold one yet.
func TestUnfenced(t *testing.T) {
	const lost = "cluster a b c\nleader none\nmember a down=1h\nnode b down\nmember b down=1h\nnode c down\nmember c " +
		"down=1h\nbackup age=1h\n"
	const stage = "restore stage --node=a --request=r1 --backup=b --token=n1 --version=3.6.16 --revision=7 " +
		"--voter=a=https://a:2380 --lost=b --lost=c"
	const restored = "cluster a b c\nincarnation 1 token=t1 voters=a,b,c\nincarnation 2 token=n1 voters=a,b,c restored=r1\n" +
		"node a staged=n1/r1:a,b,c ready\n"
	const change = "restore switch --token=n1 --expect-token=t1 --node="
	tests := []struct {
		name, world, line string
		want              bool
	}{
		{"a majority is gone", lost + "request r1 kind=restore backup=1h lost=b,c", stage, true},
		{"nobody has asked", lost, stage, false},
		{"a minority is gone", lost + "request r1 kind=restore backup=1h lost=b", stage, false},
		{"one that is called lost answers", lost + "node c up\nrequest r1 kind=restore backup=1h lost=b,c", stage, false},
		{"one that is not called lost is unreachable", lost + "node z down\nrequest r1 kind=restore backup=1h lost=b,c",
			stage, false},
		{"a cluster that has a leader", lost + "leader a\nrequest r1 kind=restore backup=1h lost=b,c", stage, false},
		{"a backup of one's own where nobody can hold a lease yet", "cluster a b c\nbare\nnode a blank\nnode b blank\nnode c blank",
			"backup take --node=a --reason=interval", true},
		{"a backup of another's", "cluster a b c\nbare\nnode a blank\nnode b blank\nnode c blank",
			"backup take --node=b --reason=interval", false},
		{"a backup under a lease", "cluster a b c", "backup take --node=a --reason=interval", false},
		{"a change to what the record says and the node has", restored, change + "a", true},
		{"a change of a node that has nothing of it", restored, change + "b", false},
		{"a change by a record that is not the newest", restored + "incarnation 3 token=n2 voters=a,b,c", change + "a", false},
		{"a restore that nobody can carry out", lost + "request r1 kind=restore backup=1h lost=b,c",
			"request close --name=r1 --outcome=refused --reason=why", true},
		{"a restore that somebody may carry out", lost + "request r1 kind=restore backup=1h lost=b",
			"request close --name=r1 --outcome=refused --reason=why", false},
		{"a restore that is done", lost + "request r1 kind=restore backup=1h lost=b,c",
			"request close --name=r1 --outcome=done --reason=why", false},
		{"another step", lost + "request r1 kind=restore backup=1h lost=b,c",
			"data discard --node=a --name=x --expect-at=2026-11-20T11:00:00Z", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage()
			if err := s.observe(tt.world); err != nil {
				t.Fatal(err)
			}
			op, err := plan.Parse(strings.Fields(tt.line))
			if err != nil {
				t.Fatal(err)
			}
			if got := plan.Unfenced(s.obs, op); got != tt.want {
				t.Errorf("unfenced is %v, want %v", got, tt.want)
			}
		})
	}
}
