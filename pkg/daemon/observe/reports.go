package observe

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A memberReport is one member's report with its node, and the incarnation that this
// runs.
type memberReport struct {
	node   cluster.NodeName
	token  cluster.Token
	report cluster.Report
	// known says that the member is the observer's own, or was one before.
	known bool
}

func (in inputs) reports(prev cluster.Observation) []memberReport {
	var list []memberReport
	for _, a := range in.nodes {
		if a.err == nil && a.answer.Report != nil && a.answer.Node.Assigned != nil {
			list = append(list, memberReport{node: a.peer.Name, token: a.answer.Node.Assigned.Token, report: *a.answer.Report})
		}
	}
	for _, p := range in.probes {
		if p.err == nil && p.report.ID == p.member.ID {
			list = append(list, memberReport{node: p.member.Name, token: prev.Token, report: p.report})
		}
	}
	for i := range list {
		v := &list[i]
		v.known = v.node == in.sources.Observer || v.token == prev.Token && v.in(prev.Members)
	}
	return list
}

// in reports whether the list has the report's member, on its node. A member is
// named after its node as soon as it has started.
func (v memberReport) in(list []cluster.Member) bool {
	return slices.ContainsFunc(list, func(m cluster.Member) bool {
		return m.ID == v.report.ID && (m.Name == v.node || m.Name == "" || v.node == "")
	})
}

// present returns the incarnation that the cluster is in. One with a leader
// that a majority of its voters follow wins, unless a later one was restored;
// then that of the newest record in the store, without those of restores that
// never began; then that of the lease voters' record; then any that a node runs.
func present(obs *cluster.Observation, reports []memberReport) cluster.Token {
	var recorded cluster.Token
	if rec := obs.Present(); rec != nil {
		recorded = rec.Token
	}
	var quorate []cluster.Token
	for _, v := range reports {
		// The record of a restore ends what ran before, also where it still runs.
		if hasQuorum(v.token, reports) && !slices.Contains(quorate, v.token) && !obs.Ended(v.token) {
			quorate = append(quorate, v.token)
		}
	}
	slices.Sort(quorate)
	switch {
	case slices.Contains(quorate, recorded):
		return recorded
	case len(quorate) > 0:
		return mostOpen(obs, reports, quorate)
	case recorded != "":
		return recorded
	case obs.LeaseVoters.Token != "":
		return obs.LeaseVoters.Token
	}
	for _, n := range obs.Nodes {
		if n.Assigned != nil {
			return n.Assigned.Token
		}
	}
	return ""
}

// mostOpen returns, of incarnations of which the store has no record, the one to which clients are
// let in: it has their writes. That is as nodes say now, or as those said last that do not answer. What
// is not known comes before what is closed, to which no client has written.
func mostOpen(obs *cluster.Observation, reports []memberReport, quorate []cluster.Token) cluster.Token {
	for _, is := range []func(cluster.Token) bool{
		func(t cluster.Token) bool { return open(obs, t, true) },
		func(t cluster.Token) bool { return open(obs, t, false) },
		func(t cluster.Token) bool { return unseen(obs, reports, t) },
	} {
		if i := slices.IndexFunc(quorate, is); i >= 0 {
			return quorate[i]
		}
	}
	return quorate[0]
}

// open reports whether clients are let in to a member of an incarnation, by those nodes that
// answer, or by what those said last that do not.
func open(obs *cluster.Observation, token cluster.Token, answers bool) bool {
	return slices.ContainsFunc(obs.Nodes, func(n cluster.Node) bool {
		return n.Reachable == answers && n.Assigned != nil && n.Assigned.Token == token && !n.Assigned.Quarantined
	})
}

// unseen reports whether a member of an incarnation answers whose node does not.
func unseen(obs *cluster.Observation, reports []memberReport, token cluster.Token) bool {
	return slices.ContainsFunc(reports, func(v memberReport) bool {
		return v.token == token && !slices.ContainsFunc(obs.Nodes, func(n cluster.Node) bool {
			return n.Name == v.node && n.Reachable
		})
	})
}

// oneCluster returns the reports of an incarnation that are of one etcd cluster:
// the one with a quorum, else the one of which most answer. Others answer at the
// wrong place.
func oneCluster(token cluster.Token, reports []memberReport) []memberReport {
	// As a rule there is only one.
	other := func(v memberReport) bool {
		return v.token != token || v.report.ClusterID != reports[0].report.ClusterID
	}
	if !slices.ContainsFunc(reports, other) {
		return reports
	}
	var best []memberReport
	for _, v := range reports {
		if v.token != token {
			continue
		}
		var mine []memberReport
		for _, o := range reports {
			if o.token == token && o.report.ClusterID == v.report.ClusterID {
				mine = append(mine, o)
			}
		}
		switch {
		case best == nil, follow(mine) && !follow(best), follow(mine) == follow(best) && len(mine) > len(best):
			best = mine
		}
	}
	return best
}

func hasQuorum(token cluster.Token, reports []memberReport) bool {
	return follow(oneCluster(token, reports))
}

// follow reports whether a majority of the voters follow one leader.
func follow(mine []memberReport) bool {
	best := informed(mine)
	if best == nil || best.Leader == 0 {
		return false
	}
	voters, following := 0, 0
	for _, m := range best.Members {
		if m.Learner {
			continue
		}
		voters++
		own := []cluster.Member{m}
		if slices.ContainsFunc(mine, func(v memberReport) bool { return v.in(own) && v.report.Leader == best.Leader }) {
			following++
		}
	}
	return following >= cluster.Quorum(voters)
}

// informed returns the report to take the member list from: of the highest
// raft term with a leader, then the most entries applied.
//
// Everybody with a certificate may say that it has a member. So one is believed
// that more than half of those who report a list have in it; where there is none
// (many are away) one that was a member before, or the observer's own.
func informed(reports []memberReport) *cluster.Report {
	var reporting, trusted []memberReport
	for _, v := range reports {
		if len(v.report.Members) > 0 {
			reporting = append(reporting, v)
		}
	}
	for _, v := range reporting {
		count := 0
		for _, o := range reporting {
			if v.in(o.report.Members) {
				count++
			}
		}
		if 2*count > len(reporting) {
			trusted = append(trusted, v)
		}
	}
	if len(trusted) == 0 {
		trusted = slices.DeleteFunc(slices.Clone(reporting), func(v memberReport) bool { return !v.known })
	}
	if len(trusted) == 0 {
		trusted = reporting
	}
	var best *cluster.Report
	for i := range trusted {
		if r := &trusted[i].report; best == nil || r.BetterInformed(*best) {
			best = r
		}
	}
	return best
}

func ids(members []cluster.Member) []cluster.MemberID {
	list := make([]cluster.MemberID, len(members))
	for i, m := range members {
		list[i] = m.ID
	}
	slices.Sort(list)
	return list
}
