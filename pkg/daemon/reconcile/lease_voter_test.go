package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A node that is no lease voter does not ask: nobody would grant it the lease.
func TestANodeThatIsNoLeaseVoterDoesNotCampaign(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.backupDue()
		w.obs.LeaseVoters = cluster.LeaseVoters{Token: w.obs.Token, Names: []cluster.NodeName{"b", "c"}}
		w.pass(time.Minute)
		equal(t, "acquired", strings.Count(w.done(), "acquire from"), 0)
		equal(t, "backups", w.count("backup take"), 0)
		equal(t, "first reason", reasons(w.last(t))[:len("no-coordinator")], "no-coordinator")
		// Nor does one that has voted for one that has gone.
		before := len(w.reports)
		w.change(func() {
			w.obs.Nodes = append(w.obs.Nodes, cluster.Node{
				Name: "b", Reachable: true, Lease: cluster.Lease{Term: 4, Holder: "c"},
			})
		})
		w.pass(time.Minute)
		if len(w.reports) == before {
			t.Error("it takes an old vote for a coordinator, and says nothing")
		}
		// Where a lease voter coordinates, there is nothing to report.
		w.change(func() {
			w.obs.Nodes = slices.Clone(w.obs.Nodes) // the loop reads the one that it was given
			w.obs.Nodes[len(w.obs.Nodes)-1].Lease = cluster.Lease{Term: 4, Holder: "b", Running: true}
		})
		w.pass(10 * time.Second)
		reports := len(w.reports)
		w.pass(time.Minute)
		equal(t, "more reports", len(w.reports)-reports, 0)
	})
}

// A coordinator that has made others the lease voters gives its lease back: a node
// that joins then would not grant it, and could never become a lease voter.
func TestACoordinatorThatCeasesToBeALeaseVoterGivesTheLeaseBack(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.pass(time.Second)
		equal(t, "acquired", strings.Count(w.done(), "acquire from [a]"), 1)
		others := cluster.LeaseVoters{Token: w.obs.Token, Term: 1, Seq: 1, Names: []cluster.NodeName{"b", "c"}}
		w.change(func() { w.obs.LeaseVoters, w.lease.leaseVoters = others, others })
		w.pass(10 * time.Second)
		equal(t, "released", w.count("release"), 1)
		if _, held := w.lease.Held(); held {
			t.Error("it still has the lease")
		}
	})
}
