package render

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
)

// unmanaged says which members are on machines whose daemons do not answer, and what to do.
// Their etcd may serve all the same, but nothing repairs it, knows its disk or renews its
// certificates. Where no daemon answers at all, as on machines by hand, there is none to miss.
func unmanaged(r *reconcile.Report, now time.Time) (list []string) {
	obs := r.Observation
	if !slices.ContainsFunc(obs.Nodes, func(n cluster.Node) bool { return n.Reachable }) {
		return nil
	}
	const advice = ", so nothing manages its etcd: check whether etcd-manager runs "
	for _, m := range obs.Members {
		if m.Name == "" {
			continue // it has never started
		}
		i := slices.IndexFunc(obs.Nodes, func(n cluster.Node) bool { return n.Name == m.Name })
		switch {
		case i < 0 && slices.ContainsFunc(r.Holds, isTakeover):
			// A daemon of the existing tool runs there, as the hold says.
		case i < 0:
			list = append(list, fmt.Sprintf("no daemon is known for member %s%son its machine", m.Name, advice))
		case obs.Nodes[i].OtherCluster != "":
			list = append(list, fmt.Sprintf("the daemon of node %s answers for cluster %s only, so nothing manages its etcd: "+
				"check how etcd-manager is started there", m.Name, obs.Nodes[i].OtherCluster))
		case !obs.Nodes[i].Reachable:
			text := "the daemon of node " + string(m.Name) + " does not answer"
			if since := lastAnswer(obs, obs.Nodes[i], now); since != "" {
				text += " (" + since + ")"
			}
			list = append(list, text+advice+"there")
		}
	}
	return list
}

func isTakeover(h plan.Hold) bool {
	return h.Reason == plan.TakingOver || h.Reason == plan.ExistingDaemon
}

// lastAnswer says when a node that does not answer did so last, nothing where the observer
// cannot know: a command that is run once has not seen any node before.
func lastAnswer(obs cluster.Observation, n cluster.Node, now time.Time) string {
	switch {
	case !n.LastSeen.IsZero():
		return "seen " + Age(now.Sub(n.LastSeen))
	case obs.Observer == "":
		return ""
	}
	return "never seen"
}
