package apply

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// A real member of 3.5 that takes raft snapshots as seldom as its operator says, and
// writes to its disk each time, has requests of the v2 store in its log. It takes a raft
// snapshot by order: nothing else changes, and 3.6 can follow. The long tests wait for as
// many entries as etcd does by itself.
func TestARealMemberForcesASnapshotBefore36(t *testing.T) {
	t.Parallel()
	v35, v36 := etcdversion.Must("3.5.35"), etcdversion.Must("3.6.16")
	h := realHost(t, v35, func(o *LocalOptions) {
		o.UserEnv = map[string]string{"ETCD_ENABLE_V2": "true", "ETCD_SNAPSHOT_COUNT": "20000"}
	})
	voters := []cluster.InitialMember{{Name: "a", PeerURLs: h.o.URLs.Peer}}
	h.must(&plan.MemberPrepare{Node: "a", Token: "t1", Version: v35, Voters: voters},
		&plan.MemberStart{Node: "a", Token: "t1", Mode: plan.StartNew, Version: v35, Peers: voters})
	n, r := h.reports()
	testwait.Until(h.t, "3.5 has a cluster version", func() bool { n, r = h.reports(); return r.Cluster.Minor == 5 })
	force := &plan.MemberForceSnapshot{Node: "a", ExpectToken: "t1", ExpectMemberID: n.Disk.MemberID}
	up := &plan.MemberChangeVersion{
		Node: "a", ExpectToken: "t1", ExpectMemberID: n.Disk.MemberID, ExpectVersion: v35, To: v36,
	}
	m := etcdtest.Member{ClientURL: h.o.URLs.Client[0]}
	m.V2(t, http.MethodPut, "/apps", url.Values{"value": {"x"}})
	m.V2(t, http.MethodDelete, "/apps", nil)
	v2log := func() cluster.Hazard {
		n, r = h.reports()
		return cluster.HazardOf(n.Hazards, cluster.HazardV2Log)
	}
	// It checks its data with each new file, and once more before the change.
	h.refused(up, "etcdadm member force-snapshot")
	testwait.Until(h.t, "the node reports the requests", func() bool { return v2log().State == cluster.HazardPresent })
	revision, pid, began := r.Revision, h.pid(), time.Now()
	done := make(chan error, 1)
	go func() { done <- h.do(force) }()
	testwait.Until(h.t, "the node reports how far it is", func() bool {
		return strings.Contains(v2log().What, "entries have been proposed")
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Logf("it took %s", time.Since(began))
	if found := v2log(); found.State != cluster.HazardAbsent || r.Revision != revision || h.pid() != pid {
		t.Errorf("%s; the revision is %d and was %d; the process is %d and was %d", found, r.Revision, revision, h.pid(), pid)
	}
	testwait.InTime(t, "a snapshot with nothing to do", 2*time.Second, func() { h.must(force) })
	h.must(up)
	if _, r = h.reports(); r.Version != v36 {
		t.Errorf("it runs %s", r.Version)
	}
}
