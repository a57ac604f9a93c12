package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// gray holds, and reports true, where the cluster has no healthy majority as far
// as can be seen, and what can be seen is no reason to take it for lost: etcd
// runs on a majority of the voters' nodes, and denies, hangs, or is slow.
func (l *view) gray() bool {
	nodes, alive := map[cluster.NodeName]bool{}, 0
	for _, name := range l.obs.LeaseVoters.Names {
		nodes[name] = true
	}
	for _, m := range l.voters {
		if n := l.nodeOf(m); n != nil {
			nodes[n.Name] = true
		}
	}
	troubled := false
	for name := range nodes {
		n := l.node(name)
		if n == nil || !n.Reachable || n.Process.State != cluster.ProcessRunning {
			continue
		}
		m := l.memberOf(n)
		ill := n.Process.NoReport != nil || n.Storage.Bad() || m != nil &&
			(m.Condition == cluster.Stuck || m.Condition == cluster.Late)
		if ill || m != nil && m.Healthy {
			alive++
		}
		troubled = troubled || ill
	}
	if !troubled || alive < cluster.Quorum(max(len(l.voters), len(nodes))) {
		return false
	}
	before := len(l.holds)
	// Nobody is moved or removed without a majority: of this only the holds count.
	_, _ = ruleHealth(l)
	for i := range l.obs.Nodes {
		if n := &l.obs.Nodes[i]; n.Reachable && n.Storage.Bad() && l.memberOf(n) == nil && nodes[n.Name] {
			l.holdHung(n)
		}
	}
	if len(l.holds) == before {
		return false
	}
	l.holdGray(nodes)
	return true
}

// holdGray reports, beside what is wrong with each, that no majority serves. It
// says nothing where enough of those that give no report may serve all the same:
// what keeps only the daemon out says nothing of the cluster.
func (l *view) holdGray(nodes map[cluster.NodeName]bool) {
	total := max(len(l.voters), len(nodes))
	serve, untold := 0, 0
	var words []string
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		n := l.node(name)
		if n == nil {
			words = append(words, fmt.Sprintf("%s is not known", name))
			continue
		}
		m, why := l.memberOf(n), n.Process.NoReport
		switch {
		case !n.Reachable:
			words = append(words, fmt.Sprintf("%s does not answer", name))
		case n.Process.State != cluster.ProcessRunning:
			words = append(words, fmt.Sprintf("%s is %s", name, n.Process.State))
		case n.Storage.Bad():
			words = append(words, fmt.Sprintf("the disk of %s is %s", name, n.Storage.State))
		case m != nil && m.Healthy:
			serve++
		case why != nil && (why.Cause == cluster.CauseAuth || why.Cause == cluster.CauseTLS):
			untold++
			words = append(words, fmt.Sprintf("%s denies its daemon access", name))
		case why != nil:
			words = append(words, fmt.Sprintf("%s does not report its state", name))
		case m != nil && m.Why != "":
			words = append(words, fmt.Sprintf("%s: %s", name, m.Why))
		default:
			words = append(words, fmt.Sprintf("%s does not serve", name))
		}
	}
	if serve+untold >= cluster.Quorum(total) || len(l.served()) > 0 {
		return
	}
	l.hold(QuorumLost, "%d of %d voters are known to serve, a majority is %d: %s. "+
		"What runs may serve again with all its data: look at each first, and restore nothing yet",
		serve, total, cluster.Quorum(total), strings.Join(words, ", "))
}
