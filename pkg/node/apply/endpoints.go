package apply

import (
	"cmp"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// clientURLs returns where to ask for the quorum's view: the voters that served
// in obs, or else those that are healthy by what they did before, at the URLs
// that they serve on now.
func clientURLs(obs cluster.Observation) []string {
	var serving, healthy []string
	for _, m := range obs.Members {
		if !m.Healthy || m.Learner {
			continue
		}
		urls := servedURLs(obs, m)
		healthy = append(healthy, urls...)
		if m.Condition.Serves() {
			serving = append(serving, urls...)
		}
	}
	if len(serving) > 0 {
		return serving
	}
	return healthy
}

func leaderURLs(obs cluster.Observation) []string {
	for _, m := range obs.Members {
		if m.ID == obs.Leader {
			return servedURLs(obs, m)
		}
	}
	return nil
}

// servedURLs returns the client URLs of m. What the member's own node says
// counts before what the member gave the cluster when it last started, of which a URL that
// others have too does not count.
func servedURLs(obs cluster.Observation, m cluster.Member) []string {
	for _, n := range obs.Nodes {
		if n.Name != m.Name || !n.Reachable || n.Assigned == nil {
			continue
		}
		if n.Assigned.Quarantined {
			return cluster.URLsAt(n.URLs.Quarantine, n.Address)
		}
		return cluster.URLsAt(n.URLs.Client, n.Address)
	}
	return cluster.OwnURLs(m, obs.Members)
}

func sortedByID(list []cluster.Member) []cluster.Member {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b cluster.Member) int { return cmp.Compare(a.ID, b.ID) })
	return list
}
