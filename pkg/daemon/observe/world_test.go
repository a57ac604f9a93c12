package observe

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A world is what one observation finds. Its methods add to it and return it, so that
// a case of a table is one expression.
type world struct{ in inputs }

// newWorld is a reachable store and no node.
func newWorld() *world {
	return &world{inputs{
		sources: Sources{Cluster: "main", Observer: "a", Since: noon.Add(-time.Hour), Nonce: func() cluster.Token {
			return "nonce"
		}},
		at: noon,
	}}
}

// node answers the observation of once.
func (w *world) node(name cluster.NodeName, change ...func(*cluster.Answer)) *world {
	a := asked{peer: Peer{Name: name, Address: string(name) + ":1"}, sent: noon, got: noon, answer: cluster.Answer{
		Node: cluster.Node{Name: name, Address: string(name) + ":1", Boot: cluster.Token("boot-" + name), Disk: cluster.Disk{
			State: cluster.DiskEmpty,
		}},
		Now: noon,
	}}
	for _, c := range change {
		c(&a.answer)
	}
	w.in.nodes = append(w.in.nodes, a)
	return w
}

// unreachable is a node that does not answer.
func (w *world) unreachable(name cluster.NodeName) *world {
	w.in.nodes = append(w.in.nodes, asked{
		peer: Peer{Name: name, Address: string(name) + ":1"}, sent: noon, got: noon.Add(timeout), err: errors.New("no route"),
	})
	return w
}

// records are the published records of nodes.
func (w *world) records(list ...Record) *world {
	w.in.store.Records = append(w.in.store.Records, list...)
	return w
}

// incarnations are the records of bootstraps, numbered from 1.
func (w *world) incarnations(tokens ...cluster.Token) *world {
	for i, t := range tokens {
		w.in.store.Store.Incarnations = append(w.in.store.Store.Incarnations, cluster.Incarnation{Number: i + 1, Token: t})
	}
	return w
}

// restored is the records of a bootstrap and of a restore after it.
func (w *world) restored(before, token cluster.Token) *world {
	w.incarnations(before, token)
	w.in.store.Store.Incarnations[1].Restored = &cluster.Restored{Request: "r1"}
	return w
}

// probe is a member that was asked directly.
func (w *world) probe(r cluster.Report, err error) *world {
	w.in.probes = append(w.in.probes, probed{member: cluster.Member{ID: r.ID}, report: r, err: err})
	return w
}

func (w *world) merge(prev cluster.Observation) cluster.Observation { return Merge(w.in, prev) }

// runs makes a node one that is assigned to an incarnation, with a member that
// reports.
func runs(token cluster.Token, r *cluster.Report) func(*cluster.Answer) {
	return func(a *cluster.Answer) {
		a.Node.Assigned = &cluster.Assigned{Token: token}
		a.Node.Disk = cluster.Disk{State: cluster.DiskData, Token: token}
		a.Report = r
	}
}

// keeps puts a record of lease voters on a node's disk.
func keeps(token cluster.Token, term cluster.Term, seq uint64, names ...cluster.NodeName) func(*cluster.Answer) {
	return func(a *cluster.Answer) {
		a.Node.LeaseVoters = cluster.LeaseVoters{Token: token, Term: term, Seq: seq, Names: names}
	}
}

func assigned(token cluster.Token) func(*cluster.Answer) { return runs(token, nil) }

func stages(token cluster.Token) func(*cluster.Answer) {
	return func(a *cluster.Answer) { a.Node.Staged = &cluster.Staged{Token: token} }
}

func promised(token cluster.Token) func(*cluster.Answer) {
	return func(a *cluster.Answer) { a.Node.Prepared = &cluster.Prepared{Token: token} }
}

// voters is a member list of a, b, c and so on, with the ids 1, 2, 3.
func voters(n int) []cluster.Member {
	var list []cluster.Member
	for i := range n {
		name := cluster.NodeName(string(rune('a' + i)))
		list = append(list, cluster.Member{
			ID: cluster.MemberID(i + 1), Name: name, ClientURLs: []string{"http://" + string(name)},
		})
	}
	return list
}

// report is what member id of n voters says while it follows a leader in raft
// term 5.
func report(id, leader cluster.MemberID, n int, change ...func(*cluster.Report)) *cluster.Report {
	r := &cluster.Report{ID: id, ClusterID: 77, Leader: leader, RaftTerm: 5, Applied: 100, Revision: 40, DBSize: 9,
		Members: voters(n)}
	for _, c := range change {
		c(r)
	}
	return r
}

func nodeOf(t *testing.T, obs cluster.Observation, name cluster.NodeName) cluster.Node {
	t.Helper()
	i := slices.IndexFunc(obs.Nodes, func(n cluster.Node) bool { return n.Name == name })
	if i < 0 {
		t.Fatalf("no node %s in %v", name, nodeNames(obs))
	}
	return obs.Nodes[i]
}

func memberOf(t *testing.T, obs cluster.Observation, id cluster.MemberID) cluster.Member {
	t.Helper()
	i := slices.IndexFunc(obs.Members, func(m cluster.Member) bool { return m.ID == id })
	if i < 0 {
		t.Fatalf("no member %s in %+v", id, obs.Members)
	}
	return obs.Members[i]
}

func nodeNames(obs cluster.Observation) string {
	var names []string
	for _, n := range obs.Nodes {
		names = append(names, string(n.Name))
	}
	return strings.Join(names, " ")
}

// healthyNames lists the healthy members.
func healthyNames(obs cluster.Observation) string {
	var names []string
	for _, m := range obs.Members {
		if m.Healthy {
			names = append(names, string(m.Name))
		}
	}
	return strings.Join(names, " ")
}

func gapSources(obs cluster.Observation) string {
	var list []string
	for _, g := range obs.Gaps {
		list = append(list, g.Source)
	}
	return strings.Join(list, ", ")
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s is %+v, want %+v", what, got, want)
	}
}
