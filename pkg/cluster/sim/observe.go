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
// with what it remembers itself, or else what a coordinator has published.
func (w *world) observe(o *node) cluster.Observation {
	w.nonces++
	nonce := cluster.Token("n" + strconv.Itoa(w.nonces))
	at := o.wall(w.now)
	heard := make([]observe.Heard, len(w.nodes))
	for i, n := range w.nodes {
		heard[i] = w.hear(o, n, i)
	}
	obs := observe.Of(observe.Sources{
		Cluster: "sim", Observer: o.name, Since: o.since, Nonce: func() cluster.Token { return nonce },
	}, at, w.readStore(o), heard, nil, w.remembers(o, at))
	o.memory = &obs
	for _, term := range observe.Terms(obs) {
		o.candidate.Learn(cluster.LeaseVoters{}, term)
	}
	for _, f := range o.failures {
		obs.Failures = append(obs.Failures, cluster.Failure{Line: f.line, Text: f.text, Retry: f.retry})
	}
	return obs
}

// remembers is what o knows of the past.
func (w *world) remembers(o *node, at time.Time) cluster.Observation {
	switch {
	case o.memory == nil && w.published != nil && !w.unreadable(o):
		o.of = w.published.term
		return observe.Remembered(w.published.obs, w.published.term, at)
	case o.memory == nil:
		o.of = 0
		return cluster.Observation{}
	}
	before := *o.memory
	// Between two steps the daemon has observed all the time, and seen the same.
	if before.At.Before(at) && !o.clock.stood {
		before.At = at.Add(-time.Second)
	}
	o.clock.stood = false
	return before
}

// inherit has the times of obs count in the lease that by has won, as its loop does.
func (w *world) inherit(by *node, obs *cluster.Observation) {
	if by.of != by.candidate.Succeeds() {
		*obs = observe.BeginTimes(*obs)
		by.memory = obs
	}
	by.of, _, _ = by.candidate.Held(by.mono(w.now))
}

// hear asks the daemon on n.
func (w *world) hear(o, n *node, i int) observe.Heard {
	h := observe.Heard{Peer: observe.Peer{Name: n.name, Address: addresses[i]}}
	if !w.reaches(o, n) {
		h.Err = errUnreachable
		return h
	}
	c := cluster.Node{
		Boot: n.boot, URLs: n.urls, Prepared: n.prepared, Assigned: n.assigned, LeaseVoters: n.leaseVoters(),
		Lease: n.lease(),
		Disk:  cluster.Disk{State: cluster.DiskEmpty}, Process: cluster.Process{State: n.process},
		Change: n.changing(), Hazards: w.hazards(n), OldLog: w.oldLog(n),
		Comparing: w.config.Versions && n.process == cluster.ProcessRunning && n.checks < 2,
		Storage:   w.storage(n), Versions: n.shown(), SetAside: n.setAside, Staged: n.staged, Links: w.links(n),
		Revision:   n.mark,
		Neighbours: cluster.Neighbours{Listened: true}, // there is no daemon of another kind
	}
	if n.disk.data {
		c.Disk = cluster.Disk{State: cluster.DiskData, Token: n.disk.token}
		if n.disk.known {
			c.Disk.MemberID = n.disk.id
		}
	}
	h.Answer = cluster.Answer{Node: c, Report: w.report(n), Now: n.wall(w.now)}
	return h
}

// lease is the last coordinator's lease that n granted or learned of.
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
	if n.process != cluster.ProcessRunning || n.etcd.stalls || !n.disk.data || n.assigned == nil {
		return nil
	}
	for i, g := range w.groups {
		if g.token != n.disk.token {
			continue
		}
		r := &cluster.Report{ID: n.disk.id, ClusterID: cluster.ClusterID(i + 1), RaftTerm: 1, Applied: n.disk.index,
			Committed: n.disk.index, Read: cluster.ReadServed, Revision: g.base + cluster.Revision(n.disk.index)}
		if n.hangs() && w.now.Sub(n.hung) >= n.unseen {
			r.Read = cluster.ReadLate // there is always something to write
		}
		m := g.find(n.disk.id)
		if m != nil && w.follows(g, m) || g.leader != 0 && m != nil && n.hangs() && w.hearsOf(g, n) {
			r.Leader, r.Committed = g.leader, g.commit
		}
		n.reportVersion(r)
		if r.Learner = m != nil && m.learner; !r.Learner { // a learner does not report
			r.Members = reported(n.disk.members)
		}
		return r
	}
	return nil
}

// reported is the member list as etcd reports it.
func reported(list []member) []cluster.Member {
	members := make([]cluster.Member, len(list))
	for i, m := range list {
		members[i] = cluster.Member{ID: m.id, Name: m.name, PeerURLs: m.host.urls.Peer, Learner: m.learner}
		if m.client {
			members[i].ClientURLs = m.host.urls.Client
		}
	}
	return members
}

// readStore is what o's store says, or said when it was last read.
func (w *world) readStore(o *node) observe.StoreAnswer {
	defer w.at(o)()
	a := observe.StoreAnswer{Records: w.records(o)}
	if w.unreadable(o) {
		a.Err = errUnreachable
		if o.read != nil {
			a.Store = *o.read
		}
		return a
	}
	if o.stale != nil && o.own == nil {
		w.store = o.stale
	}
	w.store = w.answered(o)
	a.Store = cluster.Store{
		BackupsKnown: true, SpecMissing: w.store.specMissing, Created: w.store.created, Revision: w.store.mark,
		Incarnations: w.store.incarnations, Backups: w.store.backups, Requests: w.store.requests, Source: w.wanted(),
	}
	o.read = &a.Store
	return a
}

// unreadable reports whether o cannot read its store.
func (w *world) unreadable(o *node) bool {
	return w.storeOf(o).down || !w.quiet && w.step < o.cut
}

// records are the nodes that have published themselves in the store of o.
func (w *world) records(o *node) []observe.Record {
	list := make([]observe.Record, 0, len(w.nodes))
	for i, n := range w.nodes {
		if w.storeOf(n) == w.storeOf(o) {
			list = append(list, observe.Record{Name: n.name, Address: addresses[i], Boot: n.boot})
		}
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
