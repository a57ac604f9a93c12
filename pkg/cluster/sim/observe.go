package sim

import (
	"strconv"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

var versions = []etcdversion.Version{version}

// observed returns what the daemon on o sees: what observe makes of the raw answers,
// with what prev remembers of nodes that do not answer now.
func (w *world) observe(o *node, prev *cluster.Observation) cluster.Observation {
	w.nonces++
	nonce := cluster.Token("n" + strconv.Itoa(w.nonces))
	before := cluster.Observation{}
	if prev != nil {
		before = *prev
		// Between two steps the daemon has looked all the time, and seen the same.
		if before.At.Before(w.now) && o == w.lastActor {
			before.At = w.now.Add(-time.Second)
		}
	}
	heard := make([]observe.Heard, len(w.nodes))
	for i, n := range w.nodes {
		heard[i] = w.hear(o, n, i)
	}
	obs := observe.Of(observe.Sources{
		Cluster: "sim", Observer: o.name, Since: o.since, Nonce: func() cluster.Token { return nonce },
	}, w.now, w.readStore(prev), heard, nil, before)
	for _, f := range w.failures {
		if f.retry.After(w.now) {
			obs.Failures = append(obs.Failures, cluster.Failure{Line: f.line, Text: f.text, Retry: f.retry})
		}
	}
	return obs
}

// hear asks the daemon on n.
func (w *world) hear(o, n *node, i int) observe.Heard {
	h := observe.Heard{Peer: observe.Peer{Name: n.name, Address: addresses[i]}}
	if !w.connected(o, n) {
		h.Err = errUnreachable
		return h
	}
	c := cluster.Node{
		Boot: n.boot, URLs: n.urls, Prepared: n.prepared, Assigned: n.assigned, LeaseVoters: n.leaseVoters(), Lease: n.lease(),
		Disk: cluster.Disk{State: cluster.DiskEmpty}, Process: cluster.Process{State: n.process},
		Storage: w.storage(n), Versions: versions, SetAside: n.setAside, Staged: n.staged,
	}
	if n.disk.data {
		c.Disk = cluster.Disk{State: cluster.DiskData, Token: n.disk.token}
		if n.disk.known {
			c.Disk.MemberID = n.disk.id
		}
	}
	h.Answer = observe.Answer{Node: c, Report: w.report(n), Now: w.now}
	return h
}

// lease is the last coordinator's lease that n granted or was told of.
func (n *node) lease() cluster.Lease {
	d := n.grantor.Durable
	l := cluster.Lease{Term: d.Term}
	if d.Term == d.Grant.Term {
		l.Holder, l.Released = d.Grant.Holder, d.Grant.Released
	}
	return l
}

// report is what the member on n says of itself, nil where none answers.
func (w *world) report(n *node) *cluster.Report {
	if n.process != cluster.ProcessRunning || !n.disk.data || n.assigned == nil {
		return nil
	}
	for i, g := range w.groups {
		if g.token != n.disk.token {
			continue
		}
		r := &cluster.Report{ID: n.disk.id, ClusterID: cluster.ClusterID(i + 1), RaftTerm: 1, Applied: n.disk.index, Committed: n.disk.index, Read: cluster.ReadServed}
		if n.hangs() {
			r.Read = cluster.ReadLate // there is always something to write
		}
		m := g.find(n.disk.id)
		if g.leader != 0 && g.side == n.side && m != nil {
			r.Leader, r.Committed = g.leader, g.commit
		}
		if r.Learner = m != nil && m.learner; !r.Learner { // a learner does not tell
			r.Members = told(n.disk.members)
		}
		return r
	}
	return nil
}

// told is the member list as etcd tells it.
func told(list []member) []cluster.Member {
	members := make([]cluster.Member, len(list))
	for i, m := range list {
		members[i] = cluster.Member{ID: m.id, Name: m.name, PeerURLs: m.host.urls.Peer, Learner: m.learner}
		if m.client {
			members[i].ClientURLs = m.host.urls.Client
		}
	}
	return members
}

// readStore is what the store says, or said to whoever looked last.
func (w *world) readStore(prev *cluster.Observation) observe.StoreAnswer {
	a := observe.StoreAnswer{Records: w.records()}
	if w.store.down {
		a.Err = errUnreachable
		if prev != nil {
			a.Store = prev.Store
		}
		return a
	}
	a.Store = cluster.Store{
		BackupsKnown: true, SpecMissing: w.store.specMissing, Created: w.store.created,
		Incarnations: w.store.incarnations, Backups: w.store.backups, Requests: w.store.requests, Source: w.wanted(),
	}
	return a
}

// records are the nodes that have published themselves.
func (w *world) records() []observe.Record {
	list := make([]observe.Record, len(w.nodes))
	for i, n := range w.nodes {
		list[i] = observe.Record{Name: n.name, Address: addresses[i], Boot: n.boot}
	}
	return list
}

// addresses are those of the daemons, by node.
var addresses = func() []string {
	list := make([]string, len(names))
	for i := range names {
		list[i] = "10.0.0." + strconv.Itoa(i+1) + ":3996"
	}
	return list
}()
