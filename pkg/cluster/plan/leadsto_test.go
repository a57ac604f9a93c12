package plan

import (
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

func TestWhichFailuresStandInTheWay(t *testing.T) {
	for _, c := range []struct {
		from, to, spec string
		want           bool
	}{
		{"3.5.35", "3.6.16", "3.6.16", true},
		{"3.5.35", "3.6.16", "3.7.3", true},
		{"3.5.35", "3.6.1", "3.6.16", false}, // another patch
		{"3.5.35", "3.6.16", "3.5.35", false},
		{"3.5.21", "3.5.35", "3.6.16", true}, // a floor on the way
		{"3.5.21", "3.5.35", "3.5.36", false},
		{"3.5.35", "3.5.21", "3.5.21", true}, // a patch down
		{"3.5.35", "3.5.21", "3.5.35", false},
		{"3.6.16", "3.5.35", "3.5.35", true}, // back
		{"3.6.16", "3.5.35", "3.6.16", false},
	} {
		change := cluster.VersionChange{
			From: etcdversion.Must(c.from), To: etcdversion.Must(c.to), Failed: "it broke", Back: true,
		}
		if got := leadsTo(change, etcdversion.Must(c.spec)); got != c.want {
			t.Errorf("a change from %s to %s failed, the spec asks for %s: in the way %t, want %t", c.from, c.to, c.spec, got,
				c.want)
		}
	}
}

// A node in the middle of its change takes the old version again by itself, before its
// member is replaced.
func TestAMemberThatChangesItsVersionIsNotReplacedSoon(t *testing.T) {
	change := &cluster.VersionChange{Token: "t1", From: etcdversion.Must("3.5.35"), To: etcdversion.Must("3.6.16")}
	m := cluster.Member{ID: 2, Name: "b"}
	l := &view{policy: cluster.Policy{Grace: 1}}
	l.obs.Token = "t1"
	l.obs.Nodes = []cluster.Node{{Name: "b", Reachable: true, Assigned: &cluster.Assigned{Token: "t1"}, Change: change}}
	if got := l.grace(m); got != changeGrace {
		t.Errorf("it gets %s", got)
	}
	change.Failed = "it broke"
	if got := l.grace(m); got != 1 {
		t.Errorf("after it failed it gets %s", got)
	}
}
