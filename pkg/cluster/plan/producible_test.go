package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
)

// producible makes sure that a scenario describes a world that can be seen: it makes
// the raw answers that nodes would give in it, has observe merge them, and
// compares what is settled there (which incarnation is the present one, who its
// members are and how they do, who leads, and the lease voters' record) with the
// scenario. A scenario that settles it otherwise proves nothing.
func producible(obs cluster.Observation) error {
	merged := observe.Of(
		observe.Sources{Cluster: obs.Cluster, Observer: obs.Observer, Since: obs.Since, Nonce: func() cluster.Token {
			return obs.Nonce
		}},
		obs.At, rawStore(obs), rawAnswers(obs), rawDirect(obs), rawBefore(obs))
	switch {
	case merged.Token != obs.Token && obs.Token != "":
		return fmt.Errorf("the present incarnation is %q, an observation of it would say %q", obs.Token, merged.Token)
	case merged.Leader != obs.Leader:
		return fmt.Errorf("the leader is %s, an observation of it would say %s", obs.Leader, merged.Leader)
	case !slices.EqualFunc(merged.Members, obs.Members, func(a, b cluster.Member) bool {
		return a.ID == b.ID && a.Name == b.Name && a.Learner == b.Learner
	}):
		return fmt.Errorf("the members are %v, an observation of it would say %v", obs.Members, merged.Members)
	case len(obs.Members) > 0 && len(obs.LeaseVoters.Names) > 0 &&
		!slices.Equal(merged.LeaseVoters.Names, obs.LeaseVoters.Names):
		return fmt.Errorf("the lease voters are %v, an observation of it would say %v", obs.LeaseVoters.Names,
			merged.LeaseVoters.Names)
	}
	for i, m := range obs.Members {
		seen := merged.Members[i]
		if seen.Healthy != m.Healthy || m.Condition != "" && m.Condition != seen.Condition || m.Condition == "" &&
			m.Healthy && !seen.Condition.Serves() {
			return fmt.Errorf("member %s %s is %q, healthy: %t; an observation of it would say %q (%s), healthy: %t", m.ID,
				m.Name, m.Condition, m.Healthy, seen.Condition, seen.Why, seen.Healthy)
		}
	}
	return nil
}

func rawStore(obs cluster.Observation) observe.StoreAnswer {
	a := observe.StoreAnswer{Store: obs.Store}
	if !obs.Store.Reachable {
		a.Err = errors.New("connection refused")
	}
	for _, n := range obs.Nodes {
		if n.Published {
			a.Records = append(a.Records, observe.Record{Name: n.Name, Address: n.Address, Boot: n.Boot})
		}
	}
	return a
}

// rawBefore is what was heard of nodes and members that do not answer now, and of
// members that have been late for long.
func rawBefore(obs cluster.Observation) cluster.Observation {
	members := slices.Clone(obs.Members)
	for i := range members {
		if m := &members[i]; m.Condition == cluster.Stuck {
			m.LateSince = obs.At.Add(-11 * time.Second)
		}
	}
	return cluster.Observation{At: obs.At, Token: obs.Token, Nodes: obs.Nodes, Members: members}
}

// rawRead is how a read through the quorum of m ends, and whom m follows. A
// learner is not asked for one.
func rawRead(obs cluster.Observation, m cluster.Member) (cluster.Read, cluster.MemberID) {
	n := nodeNamed(obs, m.Name)
	switch {
	case !m.Healthy && m.Condition != cluster.Stuck && m.Condition != cluster.Hung && len(m.Alarms) == 0:
		return "", 0
	case m.Learner:
		return "", obs.Leader
	case m.Condition == cluster.Stuck, m.Condition == cluster.Late && (n == nil || n.Storage.Pending < time.Second):
		return cluster.ReadLate, obs.Leader
	}
	return cluster.ReadServed, obs.Leader
}

func nodeNamed(obs cluster.Observation, name cluster.NodeName) *cluster.Node {
	for i := range obs.Nodes {
		if obs.Nodes[i].Name == name {
			return &obs.Nodes[i]
		}
	}
	return nil
}

// rawAnswers are the answers of all nodes. A member that is healthy, and every
// member that runs while there is a leader, reports it; members of other
// incarnations report what they are as far as their nodes report.
func rawAnswers(obs cluster.Observation) []observe.Heard {
	var list []observe.Heard
	for _, n := range obs.Nodes {
		h := observe.Heard{Peer: observe.Peer{Name: n.Name, Address: n.Address, Conflict: n.Conflict}}
		if !n.Reachable {
			h.Err = errors.New("no answer")
		} else {
			h.Answer = cluster.Answer{Node: n, Report: rawReport(obs, n), Now: obs.At.Add(n.ClockSkew)}
		}
		list = append(list, h)
	}
	return list
}

// rawDirect are the answers of members whose nodes are unreachable, or denied.
func rawDirect(obs cluster.Observation) (list []cluster.Report) {
	for _, m := range obs.Members {
		unreachable := !slices.ContainsFunc(obs.Nodes, func(n cluster.Node) bool {
			return n.Name == m.Name && n.Reachable && n.Process.NoReport == nil
		})
		if unreachable && (m.Healthy || m.Condition == cluster.Stuck) && !m.Learner {
			read, leader := rawRead(obs, m)
			list = append(list, cluster.Report{
				ID: m.ID, ClusterID: cluster.ClusterID(len(obs.Token)), RaftTerm: 2, Revision: obs.Revision,
				Leader: leader, Read: read, Applied: m.Applied, Committed: m.Applied, Members: obs.Members,
			})
		}
	}
	return list
}

func rawReport(obs cluster.Observation, n cluster.Node) *cluster.Report {
	if n.Assigned == nil || n.Process.State != cluster.ProcessRunning || n.Process.NoReport != nil ||
		n.Disk.State != cluster.DiskData {
		return nil
	}
	r := &cluster.Report{ID: n.Disk.MemberID, ClusterID: cluster.ClusterID(len(n.Disk.Token)), RaftTerm: 2,
		Revision: obs.Revision}
	if n.Disk.Token == obs.Token {
		// Where no member is known, those that run do not answer (yet).
		i := slices.IndexFunc(obs.Members, func(m cluster.Member) bool { return m.ID == r.ID })
		if i < 0 {
			return nil // it was removed, and etcd ends
		}
		m := obs.Members[i]
		if m.Condition == cluster.Unstarted {
			return nil // it has not found its peers yet
		}
		r.Read, r.Leader = rawRead(obs, m)
		r.Learner, r.Applied, r.Committed, r.Members, r.Alarms = m.Learner, m.Applied, m.Applied, obs.Members, m.Alarms
		if r.Learner {
			r.Members = nil // etcd refuses to report
		}
		return r
	}
	// The members of another incarnation that run have a leader where they are a
	// majority of those whose data there is.
	running := 0
	for _, o := range obs.Nodes {
		if o.Disk.Token != n.Disk.Token || o.Disk.State != cluster.DiskData {
			continue
		}
		r.Members = append(r.Members, cluster.Member{ID: o.Disk.MemberID, Name: o.Name, PeerURLs: o.URLs.Peer})
		if o.Reachable && o.Process.State == cluster.ProcessRunning {
			running++
		}
	}
	if running >= cluster.Quorum(len(r.Members)) {
		r.Leader = r.Members[0].ID
	}
	return r
}
