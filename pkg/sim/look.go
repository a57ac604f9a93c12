package sim

import (
	"slices"
	"strconv"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcdversion"
)

var (
	versions = []etcdversion.Version{version}
	silence  = []cluster.Gap{{Source: "store", Text: "timeout"}}
)

// look returns what the daemon on o sees, with what prev remembers of nodes
// that do not answer now.
func (w *world) look(o *node, prev *cluster.Observation) cluster.Observation {
	w.nonces++
	obs := cluster.Observation{
		Cluster: "sim", At: w.now, Observer: o.name, Since: o.since, Nonce: cluster.Token("n" + strconv.Itoa(w.nonces)),
		Nodes: make([]cluster.Node, 0, len(w.nodes)),
	}
	for i, n := range w.nodes {
		obs.Nodes = append(obs.Nodes, w.seen(o, n, i, prev))
	}
	w.lookAtStore(&obs, prev)
	w.lookAtElectors(&obs)
	w.lookAtMembers(o, &obs, prev)
	for _, f := range w.failures {
		if f.retry.After(w.now) {
			obs.Failures = append(obs.Failures, cluster.Failure{Line: f.line, Text: f.text, Retry: f.retry})
		}
	}
	return obs
}

func (w *world) seen(o, n *node, i int, prev *cluster.Observation) cluster.Node {
	if !w.connected(o, n) {
		if prev != nil && i < len(prev.Nodes) {
			said := prev.Nodes[i]
			said.Reachable = false
			return said
		}
		return cluster.Node{Name: n.name, Address: "10.0.0." + strconv.Itoa(i+1) + ":3996"}
	}
	c := cluster.Node{
		Name: n.name, Address: "10.0.0." + strconv.Itoa(i+1) + ":3996", Reachable: true, LastSeen: w.now, Boot: n.boot, Published: true,
		URLs: n.urls, Prepared: n.prepared, Assigned: n.assigned, Electors: n.electors,
		Disk: cluster.Disk{State: cluster.DiskEmpty}, Process: cluster.Process{State: n.process},
		Storage: w.storage(n), Versions: versions, SetAside: n.setAside, Staged: n.staged,
	}
	if n.disk.data {
		c.Disk = cluster.Disk{State: cluster.DiskData, Token: n.disk.token}
		if n.disk.known {
			c.Disk.MemberID = n.disk.id
		}
	}
	return c
}

func (w *world) lookAtStore(obs, prev *cluster.Observation) {
	if !w.store.down {
		obs.Store = cluster.Store{
			Reachable: true, BackupsKnown: true, SpecMissing: w.store.specMissing, Created: w.store.created,
			Incarnations: w.store.incarnations, Backups: w.store.backups, Requests: w.store.requests,
		}
		obs.Store.Source = w.wanted()
		return
	}
	obs.Gaps = silence
	if prev != nil {
		obs.Store = prev.Store
		obs.Store.Reachable = false
	}
}

// lookAtElectors finds the newest record of a node that has a member, or a
// promise to a founding that has its record.
func (w *world) lookAtElectors(obs *cluster.Observation) {
	var token cluster.Token
	if rec := obs.Present(); rec != nil {
		token = rec.Token
	}
	for i := range obs.Nodes {
		n, best := &obs.Nodes[i], &obs.Electors
		e := &n.Electors
		if len(e.Names) == 0 || n.Assigned == nil && (n.Prepared == nil || !w.recorded(e.Token) || obs.Ended(e.Token)) {
			continue
		}
		newer := e.Term > best.Term || e.Term == best.Term && e.Seq > best.Seq
		if best.Token == "" || e.Token == token && best.Token != token || e.Token == best.Token && newer {
			*best = *e
		}
	}
}

// A voice is a member that answers.
type voice struct {
	node   *node
	leader cluster.MemberID
}

// lookAtMembers takes the member list from the best informed voice of the
// present incarnation.
func (w *world) lookAtMembers(o *node, obs, prev *cluster.Observation) {
	obs.Token = w.present(o, obs)
	g := w.group(obs.Token)
	if g == nil {
		return
	}
	var best *voice
	var voices [8]voice
	list := voices[:0]
	for _, n := range w.nodes {
		if v, ok := w.voice(o, n, g); ok {
			list = append(list, v)
		}
	}
	for i := range list {
		v := &list[i]
		if m := g.find(v.node.disk.id); m != nil && m.learner || len(v.node.disk.members) == 0 {
			continue // a learner does not tell
		}
		if best == nil || v.leader != 0 && best.leader == 0 || (v.leader != 0) == (best.leader != 0) && v.node.disk.index > best.node.disk.index {
			best = v
		}
	}
	if best == nil {
		return
	}
	obs.Leader = best.leader
	obs.Members = make([]cluster.Member, 0, len(best.node.disk.members))
	for _, m := range best.node.disk.members {
		obs.Members = append(obs.Members, w.describe(m, best.leader, list, obs, prev))
	}
}

// voice reports whether n's member of g answers the daemon on o, and whom it
// says to lead.
func (w *world) voice(o, n *node, g *group) (voice, bool) {
	if !w.connected(o, n) || n.process != cluster.ProcessRunning || !n.disk.data || n.disk.token != g.token || n.assigned == nil {
		return voice{}, false
	}
	v := voice{node: n}
	if g.leader != 0 && g.side == n.side && g.find(n.disk.id) != nil {
		v.leader = g.leader
	}
	return v, true
}

func (w *world) describe(m member, leader cluster.MemberID, voices []voice, obs, prev *cluster.Observation) cluster.Member {
	at := obs.At
	c := cluster.Member{ID: m.id, Name: m.name, PeerURLs: m.host.urls.Peer, Learner: m.learner}
	if m.client {
		c.ClientURLs = m.host.urls.Client
	}
	var said *voice
	for i, v := range voices {
		if v.node.disk.id == m.id {
			c.Applied, said = v.node.disk.index, &voices[i]
		}
	}
	w.judge(&c, m, said, leader, obs, prev)
	var old cluster.Member
	if prev != nil {
		for i := range prev.Members {
			if prev.Members[i].ID == m.id {
				old = prev.Members[i]
			}
		}
	}
	if !c.Healthy {
		// A look that sees no leader does not see who is well: it starts no clock.
		c.UnhealthySince = at
		if !old.UnhealthySince.IsZero() && leader != 0 {
			c.UnhealthySince = old.UnhealthySince
		}
	}
	if c.Learner {
		c.LearnerSince = at
		if !old.LearnerSince.IsZero() {
			c.LearnerSince = old.LearnerSince
		}
	}
	return c
}

// present returns the incarnation that the cluster is in, as seen from o: one
// with a quorum that no restore has ended, else the newest recorded, else the electors', else one that a
// node is assigned to.
func (w *world) present(o *node, obs *cluster.Observation) cluster.Token {
	var recorded cluster.Token
	if rec := obs.Present(); rec != nil {
		recorded = rec.Token
	}
	var quorate []cluster.Token
	for _, g := range w.groups {
		if g.leader != 0 && g.side == o.side && !obs.Ended(g.token) {
			quorate = append(quorate, g.token)
		}
	}
	switch {
	case slices.Contains(quorate, recorded):
		return recorded
	case len(quorate) > 0:
		return slices.Min(quorate)
	case recorded != "":
		return recorded
	case obs.Electors.Token != "":
		return obs.Electors.Token
	}
	for i := range obs.Nodes {
		if a := obs.Nodes[i].Assigned; a != nil {
			return a.Token
		}
	}
	return ""
}
