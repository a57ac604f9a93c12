package apply

import (
	"errors"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// TestAnAdoptionIsHeldToTheQuorumAndTheDisk makes a node with a real member a lease voter of a
// cluster that is taken over: only with the voters that its quorum reports, and only where its
// disk has the data of one of them.
func TestAnAdoptionIsHeldToTheQuorumAndTheDisk(t *testing.T) {
	t.Parallel()
	v := etcdversion.Must("3.6.16")
	h := realHost(t, v)
	voters := []cluster.InitialMember{{Name: "a", PeerURLs: h.o.URLs.Peer}}
	h.must(&plan.MemberPrepare{Node: "a", Token: "t1", Version: v, Voters: voters},
		&plan.MemberStart{Node: "a", Token: "t1", Mode: plan.StartNew, Version: v, Peers: voters})
	h.reports()
	op := &plan.LeaseVotersAdopt{Node: "a", Token: "t2", Names: []cluster.NodeName{"a"}}
	h.refused(op, "does not run incarnation t2")
	op.Token = "t1"
	before := h.disk()
	for _, names := range [][]cluster.NodeName{{"a", "b"}, {"b"}} {
		op.Names = names
		if err := h.do(op); !errors.As(err, new(*plan.StaleError)) {
			t.Errorf("voters %v, which the quorum does not report: %v", names, err)
		}
	}
	op.Names = []cluster.NodeName{"a"}
	h.must(op, op)
	if e := h.disk().LeaseVoters; e.Token != "t1" || len(e.Names) != 1 || e.Term != before.LeaseVoters.Term {
		t.Errorf("the record is %+v", e)
	}
	// Its daemon has another name by now, as on a machine that was cloned.
	h.Local.o.Name = "b"
	op.Node = "b"
	h.refused(op, "which is not the voter b")
	h.Local.o.Name = "a"
	op.Node = "a"
	h.must(&plan.MemberStop{Node: "a", ExpectToken: "t1", ExpectMemberID: h.observe().Disk.MemberID})
	if _, err := nodestate.SetAside(h.o.DataDir, "t1", h.o.Now()); err != nil {
		t.Fatal(err)
	}
	if err := h.do(op); err == nil {
		t.Error("a node without data has adopted the record")
	}
}
