package observe

import (
	"cmp"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// addLeaseVoters finds the newest lease voters record. Records of different
// incarnations have no order; that of the newest incarnation counts.
func (in inputs) addLeaseVoters(obs *cluster.Observation, prev cluster.Observation) {
	var token cluster.Token
	if rec := obs.Present(); rec != nil {
		token = rec.Token
	}
	if serving := unrecordedServing(obs, in.reports(prev)); serving != "" {
		token = serving
	}
	for _, e := range reachable(in.trusted(obs, prev)) {
		better := obs.LeaseVoters.Token == "" || e.Token == token && obs.LeaseVoters.Token != token ||
			e.Token == obs.LeaseVoters.Token && newer(e, obs.LeaseVoters)
		if better {
			obs.LeaseVoters = e
		}
	}
}

// unrecordedServing returns the incarnation that a majority of its voters follow and of
// which the store has no record, empty where there is none. The store may be a copy from
// before it began: what is newest in it is of the past then, also where a node that was
// away still runs it. A restore that nodes are still to change over to comes after it.
func unrecordedServing(obs *cluster.Observation, reports []memberReport) cluster.Token {
	serving, rec := present(obs, reports), obs.Present()
	if serving == "" || recorded(obs, serving) || !hasQuorum(serving, reports) {
		return ""
	}
	awaited := func(n cluster.Node) bool { return n.Awaits(rec.Token) }
	if rec != nil && rec.Restored != nil && slices.ContainsFunc(obs.Nodes, awaited) {
		return ""
	}
	return serving
}

// keepsRecord reports whether a node has a record that may count. One without names says
// nothing. A promise makes lease voters once the bootstrap has its record, and as long
// as no restore has ended it; a node without member and promise is no lease voter any
// more.
func keepsRecord(obs *cluster.Observation, n cluster.Node) bool {
	e := n.LeaseVoters
	promised := n.Prepared != nil && recorded(obs, e.Token) && !obs.Ended(e.Token)
	return len(e.Names) > 0 && e.Term <= lease.MaxTerm && (n.Assigned != nil || promised)
}

// trusted returns the records to choose from. Everybody with a certificate may say
// that it has one. So those are asked that host a member of the list that a
// majority follows; the observer, and whom its record names; and whom the records of
// these name. All others count in an incarnation only where none of these has a
// record of it: for an observer that has none, of a cluster without a majority.
func (in inputs) trusted(obs *cluster.Observation, prev cluster.Observation) []cluster.LeaseVoters {
	reports := in.reports(prev)
	var list []cluster.LeaseVoters
	var done []cluster.Token
	for _, first := range obs.Nodes {
		token := first.LeaseVoters.Token
		if !keepsRecord(obs, first) || slices.Contains(done, token) {
			continue
		}
		done = append(done, token)
		believed := map[cluster.NodeName]bool{in.sources.Observer: true}
		if mine := oneCluster(token, reports); follow(mine) {
			for _, m := range informed(mine).Members {
				believed[m.Name] = true
			}
		}
		var all, these []cluster.LeaseVoters
		taken := map[cluster.NodeName]bool{}
		for again := true; again; {
			again = false
			for _, n := range obs.Nodes {
				if n.LeaseVoters.Token != token || taken[n.Name] || !believed[n.Name] || !keepsRecord(obs, n) {
					continue
				}
				taken[n.Name], again = true, true
				these = append(these, n.LeaseVoters)
				for _, name := range n.LeaseVoters.Names {
					believed[name] = true
				}
			}
		}
		for _, n := range obs.Nodes {
			if n.LeaseVoters.Token == token && keepsRecord(obs, n) {
				all = append(all, n.LeaseVoters)
			}
		}
		if len(these) == 0 {
			these = all
		}
		list = append(list, these...)
	}
	return list
}

// reachable leaves out records of terms far above those of the other records of
// their incarnation: whoever follows those could not follow them (see
// [lease.InReach]).
func reachable(list []cluster.LeaseVoters) []cluster.LeaseVoters {
	high := map[cluster.Token]cluster.Term{}
	slices.SortStableFunc(list, func(a, b cluster.LeaseVoters) int { return cmp.Compare(a.Term, b.Term) })
	return slices.DeleteFunc(list, func(e cluster.LeaseVoters) bool {
		if !lease.InReach(high[e.Token], e.Term) {
			return true
		}
		high[e.Token] = max(1, e.Term) // the bootstrap's record has term zero
		return false
	})
}

func recorded(obs *cluster.Observation, token cluster.Token) bool {
	return slices.ContainsFunc(obs.Store.Incarnations, func(i cluster.Incarnation) bool { return i.Token == token })
}

func newer(a, b cluster.LeaseVoters) bool {
	if a.Term != b.Term {
		return a.Term > b.Term
	}
	return a.Seq > b.Seq
}
