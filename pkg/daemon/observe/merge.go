package observe

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// inputs are the answers of one observation.
type inputs struct {
	sources Sources
	at      time.Time
	store   StoreAnswer
	nodes   []asked
	probes  []probed
}

// A Heard answer is what came of one question to a node.
type Heard struct {
	Peer   Peer
	Answer cluster.Answer
	Err    error
}

// Of returns the observation that an observation of the time at makes of raw answers, all
// of that moment. direct are reports of members that were asked directly, because
// their nodes are unreachable. It is what [Collect] returns, without the asking.
func Of(s Sources, at time.Time, store StoreAnswer, nodes []Heard, direct []cluster.Report,
	prev cluster.Observation) cluster.Observation {
	in := inputs{sources: s, at: at, store: store, nodes: make([]asked, len(nodes))}
	for i, h := range nodes {
		in.nodes[i] = asked{peer: h.Peer, answer: h.Answer, err: h.Err, sent: at, got: at}
	}
	for _, r := range direct {
		in.probes = append(in.probes, probed{member: cluster.Member{ID: r.ID}, report: r})
	}
	return Merge(in, prev)
}

// Merge makes an observation of the answers.
func Merge(in inputs, prev cluster.Observation) cluster.Observation {
	obs := cluster.Observation{
		Cluster:  in.sources.Cluster,
		At:       in.at,
		Observer: in.sources.Observer,
		Since:    in.sources.Since,
		Nonce:    in.sources.Nonce(),
		Store:    in.store.Store,
	}
	obs.Store.Reachable = in.store.Err == nil
	if in.store.Err != nil {
		obs.Gaps = append(obs.Gaps, cluster.Gap{Source: "store", Text: in.store.Err.Error()})
	}
	in.addNodes(&obs, prev)
	in.addLeaseVoters(&obs, prev)
	in.addMembers(&obs, prev)
	slices.SortFunc(obs.Gaps, func(a, b cluster.Gap) int { return strings.Compare(a.Source, b.Source) })
	return obs
}

func (in inputs) addNodes(obs *cluster.Observation, prev cluster.Observation) {
	known := map[cluster.NodeName]bool{}
	for _, a := range in.nodes {
		n := a.answer.Node
		if a.err != nil {
			n = lastSaid(prev, a.peer.Name)
			n.OtherCluster = otherCluster(a.err)
			obs.Gaps = append(obs.Gaps, cluster.Gap{Source: "node " + string(a.peer.Name), Text: a.err.Error()})
		} else {
			n.Reachable, n.LastSeen = true, in.at
			n.ClockSkew = a.answer.Now.Sub(a.sent.Add(a.got.Sub(a.sent) / 2))
		}
		n.Name, n.Conflict = a.peer.Name, a.peer.Conflict
		if a.peer.Address != "" {
			n.Address = a.peer.Address
		}
		known[n.Name] = true
		obs.Nodes = append(obs.Nodes, n)
	}
	for _, r := range in.store.Records {
		if known[r.Name] {
			continue
		}
		n := lastSaid(prev, r.Name)
		// Gossip no longer knows it, so nothing speaks for a second daemon either.
		n.Name, n.Address, n.Conflict = r.Name, r.Address, ""
		known[n.Name] = true
		obs.Nodes = append(obs.Nodes, n)
	}
	slices.SortFunc(obs.Nodes, func(a, b cluster.Node) int { return strings.Compare(string(a.Name), string(b.Name)) })
	for i := range obs.Nodes {
		n := &obs.Nodes[i]
		n.Published = slices.ContainsFunc(in.store.Records, func(r Record) bool {
			return r.Name == n.Name && r.Boot == n.Boot && n.Boot != ""
		})
	}
}

// otherCluster returns the name of the cluster to which a daemon belongs that
// refused because it was asked for another one, empty for other errors.
func otherCluster(err error) string {
	var refused interface{ OtherCluster() string }
	if errors.As(err, &refused) {
		return refused.OtherCluster()
	}
	return ""
}

// lastSaid returns what a node said when it last answered.
func lastSaid(prev cluster.Observation, name cluster.NodeName) cluster.Node {
	for _, n := range prev.Nodes {
		if n.Name == name {
			n.Reachable, n.ClockSkew, n.OtherCluster = false, 0, ""
			return n
		}
	}
	return cluster.Node{Name: name}
}

// addMembers settles which incarnation is the present one, takes the member
// list from its best informed member, and fills in how each member does.
func (in inputs) addMembers(obs *cluster.Observation, prev cluster.Observation) {
	reports := in.reports(prev)
	obs.Token = present(obs, reports)
	reports = oneCluster(obs.Token, reports)
	best := informed(reports)
	if best == nil {
		return
	}
	obs.Leader = best.Leader
	members := slices.DeleteFunc(slices.Clone(reports), func(v memberReport) bool { return !v.in(best.Members) })
	quorate := follow(members)
	for _, m := range best.Members {
		e := in.evidence(obs, members, m, prev)
		e.Term = best.RaftTerm
		if r := e.Report; r != nil {
			m.Applied, m.Committed, m.DBSize, m.Alarms = r.Applied, r.Committed, r.DBSize, r.Alarms
			m.Version, m.Storage = r.Version, r.Storage
		}
		m.Judge(e)
		carry(&m, obs.At, prev, quorate)
		obs.Members = append(obs.Members, m)
	}
	obs.Downgrade = downgrade(members)
	for _, v := range members {
		r := v.report
		obs.Revision = max(obs.Revision, r.Revision)
		if r.Cluster.Compare(obs.ClusterVersion) > 0 {
			obs.ClusterVersion = r.Cluster
		}
		obs.Views = append(obs.Views, cluster.View{
			Member: r.ID, ClusterID: r.ClusterID, Leader: r.Leader, RaftTerm: r.RaftTerm, Members: ids(r.Members),
			Revision: r.Revision,
		})
	}
	slices.SortFunc(obs.Views, func(a, b cluster.View) int {
		return strings.Compare(a.Member.String(), b.Member.String())
	})
}

// downgrade returns the version to which etcd lets the cluster be downgraded, by the
// word of who has applied most of those that know.
func downgrade(members []memberReport) (to etcdversion.Version) {
	applied := uint64(0)
	for _, v := range members {
		if r := v.report; r.Version.AtLeast(3, 6) && r.Applied >= applied {
			to, applied = r.Downgrade, r.Applied
		}
	}
	return to
}

// evidence collects what is known of one member, now and before.
func (in inputs) evidence(obs *cluster.Observation, reports []memberReport, m cluster.Member,
	prev cluster.Observation) cluster.Evidence {
	e := cluster.Evidence{Leader: obs.Leader, At: obs.At}
	if !prev.At.IsZero() {
		e.Passed = obs.At.Sub(prev.At)
	}
	for i := range reports {
		r := &reports[i].report
		if r.ID == m.ID {
			e.Report = r
		}
		e.Committed = max(e.Committed, r.Committed)
	}
	for _, p := range prev.Members {
		if p.ID == m.ID {
			e.Before = p
		}
		e.BeforeCommitted = max(e.BeforeCommitted, p.Committed)
	}
	for _, n := range obs.Nodes {
		// A node that does not answer reported its disk long ago, and one that has
		// other data is of another member.
		if n.Name == m.Name && n.Reachable && n.Assigned != nil && n.Assigned.Token == obs.Token &&
			(n.Disk.MemberID == 0 || n.Disk.MemberID == m.ID) {
			e.Storage, e.NoReport = n.Storage, n.Process.NoReport
		}
	}
	return e
}

// carry keeps, by member id, since when a member is unhealthy or a learner. A
// observation that no majority took part in says nothing about those it did not see:
// an observer that was cut off must not find everybody else dead for long when
// it comes back. Nor must one that stood still: time in which nobody observed does
// not count.
func carry(m *cluster.Member, at time.Time, prev cluster.Observation, quorate bool) {
	var old cluster.Member
	for _, p := range prev.Members {
		if p.ID == m.ID {
			old = p
		}
	}
	since := func(t time.Time) time.Time {
		if t.IsZero() {
			return at
		}
		if prev.At.IsZero() {
			return t // it comes from another coordinator, and counts from now on
		}
		return t.Add(max(0, at.Sub(prev.At)-cluster.MaxObservationInterval))
	}
	if !m.Healthy && quorate {
		m.UnhealthySince = since(old.UnhealthySince)
	}
	if m.Learner {
		m.LearnerSince = since(old.LearnerSince)
	}
}
