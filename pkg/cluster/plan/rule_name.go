package plan

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// ruleName reports daemons that belong to a cluster of another name. Where no
// other daemon answers, nothing is known of this cluster, and least of all that
// it is lost.
func ruleName(l *view) (Operation, verdict) {
	others := map[string][]cluster.NodeName{}
	var order []string
	answered := false
	for _, n := range l.obs.Nodes {
		answered = answered || n.Reachable
		if n.Reachable || n.OtherCluster == "" {
			continue
		}
		if !slices.Contains(order, n.OtherCluster) {
			order = append(order, n.OtherCluster)
		}
		others[n.OtherCluster] = append(others[n.OtherCluster], n.Name)
	}
	for _, name := range order {
		if answered {
			l.hold(ClusterName, "the cluster of %s has the name %s, not %q", names(others[name]), name, l.obs.Cluster)
			continue
		}
		l.hold(ClusterName, "this cluster's name is %s, not %q (--cluster-name=%s): reported by %s",
			name, l.obs.Cluster, name, names(others[name]))
	}
	return nil, verdict(len(order) > 0 && !answered)
}
