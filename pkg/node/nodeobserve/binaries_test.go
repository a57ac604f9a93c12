package nodeobserve

import (
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// A node reports what its member would lose with the other minor versions that it has.
func TestLostSettings(t *testing.T) {
	o := New(Options{UserEnv: map[string]string{"ETCD_ENABLE_V2": "true", "ETCD_SNAPSHOT_COUNT": "5"}})
	has := []etcdversion.Version{
		etcdversion.Must("3.5.21"), etcdversion.Must("3.5.35"), etcdversion.Must("3.6.11"), etcdversion.Must("3.6.16"),
	}
	state := nodestate.State{Assigned: &cluster.Assigned{Version: etcdversion.Must("3.5.35")}}
	got := o.lostSettings(state, has)
	if len(got) != 1 || got[0].Version != etcdversion.Must("3.6.0") || len(got[0].What) != 1 {
		t.Errorf("got %+v, want one setting that 3.6 loses", got)
	}
	n := cluster.Node{Lost: got}
	if len(n.LostBefore(etcdversion.Must("3.6.16"))) != 1 || n.LostBefore(etcdversion.Must("3.5.21")) != nil {
		t.Errorf("before 3.6.16: %q, before 3.5.21: %q", n.LostBefore(etcdversion.Must("3.6.16")),
			n.LostBefore(etcdversion.Must("3.5.21")))
	}
	if got := o.lostSettings(nodestate.State{}, has); got != nil {
		t.Errorf("a node without a member loses %+v", got)
	}
}
