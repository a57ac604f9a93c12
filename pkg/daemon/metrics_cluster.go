package daemon

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
)

// clusterMetrics are what the coordinator knows of the cluster. A daemon that does not coordinate says only that:
// what it has not observed it serves not at all, so that it cannot be mistaken for an answer.
type clusterMetrics struct {
	// last is the last report of the loop, nil for none.
	last atomic.Pointer[reconcile.Report]
}

// describe returns the description of one of the metrics.
func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	coordinatorDesc = describe("etcdadm_coordinator", "1 while this daemon holds the coordinator's lease.")
	termDesc        = describe("etcdadm_coordinator_term",
		"Term in which this daemon coordinates, 0 while it does not.")
	convergedDesc = describe("etcdadm_converged",
		"1 while the cluster is as the spec says. Served by the coordinator.")
	wantedDesc = describe("etcdadm_wanted_members",
		"Voters that the spec asks for. Served by the coordinator.")
	membersDesc = describe("etcdadm_members", "Members by role and health. Served by the coordinator.",
		"role", "healthy")
	sizeDesc = describe("etcdadm_member_db_size_bytes",
		"Size of a member's database, if it answers. Served by the coordinator.", "member")
	reachableDesc = describe("etcdadm_node_reachable", "1 while the daemon of a node answers. Served by the coordinator.",
		"node")
	freeDesc = describe("etcdadm_node_free_bytes",
		"Free space below a node's data directory, if known. Served by the coordinator.", "node")
	unlinkedDesc = describe("etcdadm_peer_unreachable",
		"1 while a voter does not reach the peer port of another one. Served by the coordinator.", "from", "to")
	holdDesc     = describe("etcdadm_hold", "Reasons for not acting, by reason. Served by the coordinator.", "reason")
	failuresDesc = describe("etcdadm_failing_operations",
		"Operations that failed and wait to be retried. Served by the coordinator.")
	failingDesc = describe("etcdadm_operation_failing",
		"1 while an operation of a kind has failed and waits to be retried. Served by the coordinator.", "kind")
	storeDesc = describe("etcdadm_store_reachable",
		"1 while the coordinator can read the control store. Served by the coordinator.")
	backupsDesc = describe("etcdadm_backups", "Backups in the store. Served by the coordinator.")
	backupDesc  = describe("etcdadm_last_backup_timestamp_seconds",
		"Unix time of the newest backup. Served by the coordinator, if there is one.")
	verifiedDesc = describe("etcdadm_last_backup_verified_timestamp_seconds",
		"Unix time of the last successful verification of a backup. Served by the coordinator, if there is one.")
	drillDesc = describe("etcdadm_last_backup_drill_timestamp_seconds",
		"Unix time of the last successful trial restore of a backup. Served by the coordinator, if there is one.")
)

// Describe is of [prometheus.Collector].
func (c *clusterMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		coordinatorDesc, termDesc, convergedDesc, wantedDesc, membersDesc, sizeDesc, reachableDesc, freeDesc, holdDesc,
		unlinkedDesc, failuresDesc, failingDesc, storeDesc, backupsDesc, backupDesc, verifiedDesc, drillDesc,
	} {
		to <- d
	}
}

// Collect is of [prometheus.Collector].
func (c *clusterMetrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	r := c.last.Load()
	if r == nil || r.Term == 0 {
		gauge(coordinatorDesc, 0)
		gauge(termDesc, 0)
		return
	}
	gauge(coordinatorDesc, 1)
	gauge(termDesc, float64(r.Term))
	gauge(convergedDesc, one(r.Converged))
	gauge(wantedDesc, float64(r.Spec.MemberCount))
	gauge(failuresDesc, float64(len(r.Observation.Failures)))
	for kind := range failingKinds(r.Observation.Failures) {
		gauge(failingDesc, 1, kind)
	}
	for _, h := range holdReasons(r) {
		gauge(holdDesc, 1, h)
	}
	collectUnlinked(r.Observation, gauge)
	collectMembers(r.Observation, gauge)
	for _, n := range r.Observation.Nodes {
		gauge(reachableDesc, one(n.Reachable), string(n.Name))
		if n.Reachable && n.FreeBytes > 0 {
			gauge(freeDesc, float64(n.FreeBytes), string(n.Name))
		}
	}
	collectStore(r.Observation.Store, gauge)
}

// holdReasons returns each reason once: two holds may have the same.
func holdReasons(r *reconcile.Report) (reasons []string) {
	known := map[string]bool{}
	for _, h := range r.Holds {
		if reason := string(h.Reason); !known[reason] {
			known[reason], reasons = true, append(reasons, reason)
		}
	}
	return reasons
}

// failingKinds returns each kind once: operations on two members may have the same.
func failingKinds(failures []cluster.Failure) map[string]bool {
	kinds := map[string]bool{}
	for _, f := range failures {
		kinds[kindOf(f.Line)] = true
	}
	return kinds
}

// collectUnlinked reports each pair once: two members may have the same name, and a page that
// has a number twice is none.
func collectUnlinked(o cluster.Observation, gauge func(*prometheus.Desc, float64, ...string)) {
	known := map[[2]cluster.NodeName]bool{}
	for _, u := range plan.UnlinkedVoters(o) {
		if pair := [2]cluster.NodeName{u.From, u.To}; !known[pair] {
			known[pair] = true
			gauge(unlinkedDesc, 1, string(u.From), string(u.To))
		}
	}
}

func collectMembers(o cluster.Observation, gauge func(*prometheus.Desc, float64, ...string)) {
	type group struct{ learner, healthy bool }
	counts, sized := map[group]int{}, map[cluster.NodeName]bool{"": true}
	for _, m := range o.Members {
		counts[group{m.Learner, m.Healthy}]++
		if m.DBSize > 0 && !sized[m.Name] {
			sized[m.Name] = true
			gauge(sizeDesc, float64(m.DBSize), string(m.Name))
		}
	}
	for _, g := range []group{{false, false}, {false, true}, {true, false}, {true, true}} {
		role := "voter"
		if g.learner {
			role = "learner"
		}
		gauge(membersDesc, float64(counts[g]), role, strconv.FormatBool(g.healthy))
	}
}

// collectStore reports the backups, also those that a store that is not reachable had.
func collectStore(s cluster.Store, gauge func(*prometheus.Desc, float64, ...string)) {
	gauge(storeDesc, one(s.Reachable))
	own := s.Own()
	gauge(backupsDesc, float64(len(own)))
	if len(own) > 0 {
		gauge(backupDesc, seconds(own[0].At))
	}
	verified, drilled := s.Inspected()
	if !verified.IsZero() {
		gauge(verifiedDesc, seconds(verified))
	}
	if !drilled.IsZero() {
		gauge(drillDesc, seconds(drilled))
	}
}
