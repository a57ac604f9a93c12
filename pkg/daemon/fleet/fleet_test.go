package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc/election"
	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// home is daemon a of a cluster, as its own loop reaches it: without a port.
type home struct{ *daemon }

func (h home) Observe(ctx context.Context) cluster.Answer {
	r, _ := h.daemon.Observe(ctx, rpc.Caller{})
	return cluster.Answer{Node: r.Node, Report: r.Report, Now: r.Now}
}

func (h home) Execute(ctx context.Context, e plan.Order) error {
	return h.daemon.Execute(ctx, rpc.Caller{}, e)
}

func (h home) Lease(ctx context.Context, req lease.Request) (lease.Reply, error) {
	return h.voter.Lease(ctx, req)
}

// fleetOf is the fleet of daemon a. Its own address is wrong, so that nothing
// that it asks itself can go over the network.
func (w *testCluster) fleetOf(change ...func(*Options)) *Fleet {
	w.t.Helper()
	pool := rpc.NewPool(rpc.PoolOptions{Self: "a"})
	o := Options{
		Cluster: "main", Name: "a", Boot: "boot-a", Self: home{w.nodes["a"]}, Pool: pool, Now: time.Now,
		View: NewStoreView(nil, time.Second, time.Now),
		Peers: func() []observe.Peer {
			return []observe.Peer{{Name: "a", Address: "127.0.0.1:1"}, {Name: "b", Address: w.nodes["b"].address}, {
				Name: "c", Address: w.nodes["c"].address,
			}}
		},
	}
	for _, f := range change {
		f(&o)
	}
	f := New(o)
	w.t.Cleanup(func() {
		f.Lease().Close()
		if err := pool.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return f
}

// complete observes until every node answers in its time.
func complete(t *testing.T, f *Fleet) (obs cluster.Observation) {
	t.Helper()
	testwait.For(t, "an observation of every node", func(context.Context) error {
		if obs = f.Observe(t.Context(), cluster.Observation{}); gaps(obs) != "store" {
			return fmt.Errorf("gaps %s, nodes %v", gaps(obs), nodeNames(obs))
		}
		return nil
	})
	return obs
}

// does carries out an operation under the lease, which a busy machine may lose before
// the order is sent.
func does(t *testing.T, f *Fleet, obs cluster.Observation, op plan.Operation) {
	t.Helper()
	testwait.For(t, "the operation", func(context.Context) error {
		if err := f.Lease().Acquire(t.Context(), obs.LeaseVoters); err != nil {
			return err
		}
		return f.Coordinator().Do(within(t, time.Minute), cluster.Spec{}, obs, op)
	})
}

func TestADaemonAsksItselfWithoutTheNetwork(t *testing.T) {
	w := newTestCluster(t, nil)
	f := w.fleetOf()
	obs := complete(t, f)
	if !isReachable(obs, "a") || !isReachable(obs, "c") || obs.Observer != "a" || obs.Nonce == "" {
		t.Errorf("gaps %s, nodes %v", gaps(obs), nodeNames(obs))
	}
	does(t, f, obs, &plan.MemberStop{Node: "a", ExpectToken: "t1", ExpectMemberID: 1})
	if got := w.ran(); got != "a: member stop" {
		t.Errorf("it ran %s", got)
	}
	if g := w.holder(); g.Holder != "a" || g.Boot != "boot-a" {
		t.Errorf("the lease is %+v", g)
	}
}

func TestAnOperationGoesToItsNodeUnderTheProvenTerm(t *testing.T) {
	w := quarantined(t)
	f := w.fleetOf()
	obs := complete(t, f)
	does(t, f, obs, liftB)
	if got := w.ran(); got != "b: quarantine lift" {
		t.Errorf("it ran %s", got)
	}
	// A later term has been seen there: the old one is over.
	must(t, w.nodes["b"].voter.Witness(t.Context(), 9, "c"))
	err := f.execute(within(t, time.Minute), stopFor("b"), 1, "")
	if rpc.KindOf(err) != rpc.Stale {
		t.Errorf("error %v of kind %s", err, rpc.KindOf(err))
	}
}

func stopFor(n cluster.NodeName) plan.Operation {
	return &plan.MemberStop{Node: n, ExpectToken: "t1", ExpectMemberID: 2}
}

// frozen is a machine whose disk does not answer before it is released.
type frozen struct {
	home
	release chan struct{}
}

func (f frozen) Observe(context.Context) cluster.Answer {
	<-f.release
	return cluster.Answer{Now: time.Now()}
}

func TestADiskThatHangsMakesTheOwnNodeUnreachableAndStopsNoObservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		self := frozen{release: make(chan struct{})}
		f := New(Options{
			Cluster: "main", Name: "a", Self: self, Now: time.Now, View: NewStoreView(nil, time.Second, time.Now),
			Peers: func() []observe.Peer { return []observe.Peer{{Name: "a"}} },
		})
		began := time.Now()
		first := f.Observe(t.Context(), cluster.Observation{})
		if took := time.Since(began); took > 5*time.Second || gaps(first) != "node a, store" {
			t.Errorf("after %s the gaps are %s", took, gaps(first))
		}
		began = time.Now()
		again := f.Observe(t.Context(), first)
		if took := time.Since(began); took != 0 || !strings.Contains(again.Gaps[0].Text, "its disk may hang") {
			t.Errorf("after %s the gaps are %+v", took, again.Gaps)
		}
		close(self.release)
		synctest.Wait()
		if obs := f.Observe(t.Context(), again); gaps(obs) != "store" {
			t.Errorf("when it answers again the gaps are %s", gaps(obs))
		}
	})
}

func TestANodeWithoutAnAddressCannotBeReached(t *testing.T) {
	f := newTestCluster(t, nil).fleetOf()
	wantError(t, f.execute(t.Context(), stopFor("z"), 1, ""), "the address of node z is unknown")
	_, err := voters{f}.Lease(t.Context(), "z", lease.Request{})
	wantError(t, err, "the address of node z is unknown")
	// Before the first observation gossip has addresses.
	if _, err := f.address("b"); err != nil {
		t.Error(err)
	}
}

func TestADaemonOfAnotherClusterDoesNotAnswer(t *testing.T) {
	w := newTestCluster(t, nil)
	f := w.fleetOf(func(o *Options) { o.Cluster = "events" })
	if obs := f.Observe(t.Context(), cluster.Observation{}); gaps(obs) != "node b, node c, store" {
		t.Errorf("gaps %s", gaps(obs))
	}
}

func TestAServerThatIsNoNodeIsNotAsked(t *testing.T) {
	dir := t.TempDir()
	ca := newPKI(t, dir)
	var renewer certs.Renewer
	w := newTestCluster(t, func(n cluster.NodeName) *tls.Config {
		id, err := renewer.Add(certs.Source{
			Name: string(n), Dir: dir, CA: certs.ManagerCA, Pair: certs.Pair{
				Request: certs.Request{CommonName: "web", DNSNames: []string{"web"}, Server: true},
			},
		}, time.Now())
		must(t, err)
		return id.ServerTLS()
	})
	files := issueFiles(t, ca, t.TempDir(), "op", certs.ManagerClient("op"))
	for name, o := range map[string]ConnectOptions{
		"with the CA": {PKIDir: dir}, "with files": {Cert: files.Cert, Key: files.Key, CACert: files.CACert},
	} {
		o.Cluster, o.Nodes = "main", w.addresses()
		_, err := Connect(within(t, time.Minute), o)
		if err == nil {
			t.Errorf("%s: it was taken for a node", name)
		}
	}
}

func TestAMemberOfAnUnreachableDaemonIsAskedItself(t *testing.T) {
	m := etcdtest.New(t, "z")
	m.Start(t, etcdtest.Binaries(t, etcdtest.V36))
	url := m.ClientURL
	etcd, err := etcdclient.Open(etcdclient.Options{Endpoints: []string{url}})
	must(t, err)
	defer etcd.Close()
	var r cluster.Report
	for ctx := within(t, time.Minute); r.Leader == 0; {
		if r, err = etcd.Report(ctx); ctx.Err() != nil {
			t.Fatal(err)
		}
	}

	f := newTestCluster(t, nil).fleetOf(func(o *Options) {
		o.Self, o.Peers = nil, func() []observe.Peer { return []observe.Peer{{Name: "z", Address: "127.0.0.1:1"}} }
	})
	prev := cluster.Observation{Token: "t1", Members: []cluster.Member{
		{ID: r.ID, Name: "z", ClientURLs: []string{url}},
		{ID: 5, Name: "y", ClientURLs: []string{"http://127.0.0.1:1"}},
	}}
	testwait.For(t, "an observation in which the member serves a read", func(context.Context) error {
		obs := f.Observe(t.Context(), prev)
		if len(obs.Members) != 1 || !obs.Members[0].Healthy || obs.Token != "t1" || gaps(obs) != "node z, store" {
			return fmt.Errorf("members %+v, gaps %s", obs.Members, gaps(obs))
		}
		return nil
	})
}

// The store is away since the start, and nodes remember that the daemons are paused.
func TestARememberedPauseHoldsUntilTheStoreIsRead(t *testing.T) {
	pause := func(name string, at int64) *cluster.Request {
		return &cluster.Request{Name: name, Kind: cluster.RequestPause, At: time.Unix(at, 0)}
	}
	f := &Fleet{addresses: map[cluster.NodeName]string{}, lease: newTestLease()}
	obs := cluster.Observation{Nodes: []cluster.Node{
		{Name: "a", Reachable: true, Pause: pause("old", 1)}, {Name: "b", Reachable: true, Pause: pause("new", 2)},
		{Name: "c", Pause: pause("learned long ago", 3)}, {Name: "d", Reachable: true},
	}}
	got := f.took(obs)
	if r, ok := got.Store.Pause(); !ok || r.Name != "new" {
		t.Errorf("with a store that was never read: %+v, %t", r, ok)
	}
	obs.Store.Reachable = true
	if r, ok := f.took(obs).Store.Pause(); ok {
		t.Errorf("with a store that says otherwise: %+v", r)
	}
	obs.Store.Reachable = false
	if r, ok := f.took(obs).Store.Pause(); ok {
		t.Errorf("with a store that said otherwise: %+v", r)
	}
}

func newTestLease() *Lease {
	return newLease(election.New(election.Options{Cluster: "main", Self: "a", Boot: "boot"}), time.Now, nil, nil)
}

// A member whose process is gone is no reason to wait: the first observation of a new
// coordinator would take as long as the deadline of that question.
func TestNobodyListensAtAMember(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f := &Fleet{}
	// The test ends it, not a deadline.
	if _, err := f.probe(t.Context(), []string{gone}, ""); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the error is %v", err)
	}
}
