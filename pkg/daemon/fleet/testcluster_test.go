package fleet

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc/election"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A daemon is a node with a real port and a real vote; its etcd is made up.
type daemon struct {
	name    cluster.NodeName
	address string
	voter   *election.Voter

	mu     sync.Mutex
	node   cluster.Node
	report *cluster.Report
	known  *cluster.Known
	ran    []string
	asked  int
	// fail is how operations end, nil for done; deaf makes them change nothing.
	fail error
	deaf bool
}

// A testCluster is a running cluster of three daemons, reached over loopback.
type testCluster struct {
	t     *testing.T
	nodes map[cluster.NodeName]*daemon
	// still, if not nil, is when the clocks of the lease voters stood still.
	still atomic.Pointer[time.Time]
}

func (w *testCluster) now() time.Time {
	if t := w.still.Load(); t != nil {
		return *t
	}
	return time.Now()
}

func newTestCluster(t *testing.T, serverTLS func(cluster.NodeName) *tls.Config) *testCluster {
	t.Helper()
	w := &testCluster{t: t, nodes: map[cluster.NodeName]*daemon{}}
	var members []cluster.Member
	for i, n := range abc {
		members = append(members, cluster.Member{
			ID: cluster.MemberID(i + 1), Name: n, PeerURLs: []string{"http://" + string(n)}, ClientURLs: []string{
				"http://127.0.0.1:1",
			},
		})
	}
	for i, n := range abc {
		v := election.NewVoter(election.VoterOptions{
			Cluster: "main", Self: n, Persist: func(lease.Durable) error { return nil }, Now: w.now,
		})
		must(t, v.Prepare(t.Context(), "t1", abc))
		d := &daemon{name: n, voter: v}
		d.node = cluster.Node{
			Name: n, Boot: cluster.Token("boot-" + n), LeaseVoters: record(),
			URLs: cluster.URLs{Peer: members[i].PeerURLs, Client: members[i].ClientURLs, Quarantine: []string{
				"http://127.0.0.1:2",
			}},
			Disk:     cluster.Disk{State: cluster.DiskData, Token: "t1", MemberID: members[i].ID},
			Assigned: &cluster.Assigned{Token: "t1", Version: etcdversion.Must("3.6.16")},
			Process:  cluster.Process{State: cluster.ProcessRunning},
		}
		d.report = &cluster.Report{ID: members[i].ID, Leader: 1, RaftTerm: 3, Applied: 9, Revision: 5, Members: members}
		var conf *tls.Config
		if serverTLS != nil {
			conf = serverTLS(n)
		}
		d.serve(t, conf)
		w.nodes[n] = d
	}
	return w
}

func (d *daemon) serve(t *testing.T, conf *tls.Config) {
	t.Helper()
	s, err := rpc.NewServer(rpc.ServerOptions{Name: d.name, Cluster: "main", Handler: d, TLS: conf,
		Identify: func(s tls.ConnectionState) (rpc.Caller, error) {
			o, err := certs.PeerOwner(s)
			return rpc.Caller{Name: o.Name, Role: rpc.Role(o.Role)}, err
		}})
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	d.address = l.Addr().String()
	d.node.Address = d.address
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		s.Stop(ctx)
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}

// change lets f change a daemon.
func (w *testCluster) change(name cluster.NodeName, f func(d *daemon)) {
	d := w.nodes[name]
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d)
}

// addresses are those of all daemons.
func (w *testCluster) addresses() []string {
	var list []string
	for _, n := range abc {
		list = append(list, w.nodes[n].address)
	}
	return list
}

// ran lists what the daemons were ordered to do.
func (w *testCluster) ran() string {
	var list []string
	for _, n := range abc {
		w.change(n, func(d *daemon) { list = append(list, d.ran...) })
	}
	return strings.Join(list, "; ")
}

// holder returns who had the lease last, by what the daemons have on disk. It
// is given back when a majority knows: one that was asked late may hear of the
// lease after its end.
func (w *testCluster) holder() lease.Grant {
	w.t.Helper()
	var last lease.Grant
	released := 0
	for _, n := range abc {
		d, err := w.nodes[n].voter.Durable(w.t.Context())
		must(w.t, err)
		if d.Grant.Released {
			released++
		}
		if d.Grant.Term >= last.Term {
			last = d.Grant
		}
	}
	last.Released = released >= 2
	return last
}

func (d *daemon) Observe(context.Context, rpc.Caller) (cluster.Answer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	n := d.node
	if n.Assigned != nil {
		a := *n.Assigned
		n.Assigned = &a
	}
	return cluster.Answer{Node: n, Report: d.report, Now: time.Now(), Known: d.known}, nil
}

// Execute knows two operations: to open a member to clients, and to stop it.
func (d *daemon) Execute(ctx context.Context, _ rpc.Caller, e plan.Order) error {
	if err := d.voter.Witness(ctx, e.Term, e.Holder); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ran = append(d.ran, string(d.name)+": "+plan.KindOf(e.Operation).Path)
	if d.fail != nil || d.deaf {
		return d.fail
	}
	switch e.Operation.(type) {
	case *plan.QuarantineLift:
		d.node.Assigned.Quarantined = false
	case *plan.MemberStop:
		d.node.Assigned.Stopped, d.node.Process.State, d.report = true, cluster.ProcessStopped, nil
	}
	return nil
}

func (d *daemon) Standing(ctx context.Context, _ rpc.Caller) (lease.Standing, error) {
	return d.voter.Standing(ctx)
}

func (d *daemon) Lease(ctx context.Context, from rpc.Caller, req lease.Request) (lease.Reply, error) {
	req.Entitled = from.Role == rpc.RoleOperator
	return d.voter.Lease(ctx, req)
}

// connect is a person's command on the cluster.
func (w *testCluster) connect(change ...func(*ConnectOptions)) *Client {
	w.t.Helper()
	o := ConnectOptions{Cluster: "main", Nodes: w.addresses(), Insecure: true, EtcdInsecure: true}
	for _, f := range change {
		f(&o)
	}
	c, err := Connect(w.t.Context(), o)
	must(w.t, err)
	w.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			w.t.Errorf("close: %v", err)
		}
	})
	return c
}

// within bounds a call by a time in which it must have given up.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func nodeNames(obs cluster.Observation) names {
	var list names
	for _, n := range obs.Nodes {
		list = append(list, n.Name)
	}
	return list
}

func gaps(obs cluster.Observation) string {
	var list []string
	for _, g := range obs.Gaps {
		list = append(list, g.Source)
	}
	return strings.Join(list, ", ")
}

func isReachable(obs cluster.Observation, name cluster.NodeName) bool {
	return slices.ContainsFunc(obs.Nodes, func(n cluster.Node) bool { return n.Name == name && n.Reachable })
}

// publish has all nodes' records in s, as their daemons write them.
func (w *testCluster) publish(s *store.Store) {
	w.t.Helper()
	for n, d := range w.nodes {
		must(w.t, s.PutNode(w.t.Context(), store.NodeRecord{Name: n, Address: d.address, Boot: cluster.Token("boot-" + n)}))
	}
}
