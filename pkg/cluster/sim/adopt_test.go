package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// TestAClusterWithoutRecordsIsTakenOver begins where the existing etcd-manager ends: the
// members run, the store has the marker, and no node knows of lease voters.
func TestAClusterWithoutRecordsIsTakenOver(t *testing.T) {
	w := running(t, 3, 0)
	for _, n := range w.nodes {
		n.shutdown()
		n.grantor.Durable = lease.Durable{}
		n.reboot(w)
	}
	w.store.incarnations, w.store.created = nil, w.now
	adopted := 0
	for range 200 {
		w.reseed()
		w.tick()
		op := w.act(w.nodes[0]).op
		w.pass(time.Second)
		w.step++
		if w.broken != nil {
			t.Fatal(*w.broken)
		}
		if _, ok := op.(*plan.LeaseVotersAdopt); ok {
			adopted++
		}
		if op == nil && adopted > 0 && w.settled() {
			break
		}
	}
	if len(w.store.incarnations) != 1 || w.store.created.Before(w.store.incarnations[0].At) || adopted != 2 {
		t.Errorf("records %v, the marker is of %s; %d nodes adopted", w.store.incarnations, w.store.created, adopted)
	}
	for _, n := range w.nodes {
		if e := n.leaseVoters(); e.Token != w.groups[0].token || fmt.Sprint(e.Names) != "[a b c]" {
			t.Errorf("%s has %+v", n.name, e)
		}
	}
}
