package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A stranger is a whole node, with certificates for calling and for serving,
// that confirms whatever it claims itself.
type stranger struct {
	mu    sync.Mutex
	claim lease.Standing
}

var errStranger = errors.New("a stranger does nothing")

func (s *stranger) Observe(context.Context, rpc.Caller) (cluster.Answer, error) {
	return cluster.Answer{}, errStranger
}

func (s *stranger) Execute(context.Context, rpc.Caller, plan.Order) error {
	return errStranger
}

func (s *stranger) Lease(context.Context, rpc.Caller, lease.Request) (lease.Reply, error) {
	return lease.Reply{}, errStranger
}

func (s *stranger) Standing(context.Context, rpc.Caller) (lease.Standing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claim, nil
}

// says makes the stranger its own lease voter in a term.
func (s *stranger) says(term cluster.Term, record cluster.LeaseVoters) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claim = lease.Standing{Term: term, Holder: "stranger", Remaining: time.Second, Seen: term, LeaseVoters: record}
}

// serve has the stranger listen where all nodes find it.
func (s *stranger) serve(t *testing.T, c *harness.Cluster) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pki")
	must(t, c.PKI.Install(dir))
	ca, err := certs.LoadCA(dir, certs.ManagerCA, time.Now())
	must(t, err)
	leaf, err := ca.Issue(certs.ManagerServer("stranger"), time.Now())
	must(t, err)
	server, err := rpc.NewServer(rpc.ServerOptions{
		Name: "stranger", Cluster: "test", Handler: s,
		TLS: &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{leaf.TLS()},
			ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
		},
		Identify: func(tls.ConnectionState) (rpc.Caller, error) {
			return rpc.Caller{Name: "somebody", Role: rpc.RoleNode, Authenticated: true}, nil
		},
	})
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		server.Stop(ctx)
		wg.Wait()
	})
	control, err := store.Open(t.Context(), c.StoreURL())
	must(t, err)
	must(t, control.PutNode(t.Context(), store.NodeRecord{
		Name: "stranger", Address: l.Addr().String(), Boot: "x", At: time.Now(),
	}))
	must(t, control.Close(t.Context()))
}

// Nodes that know no lease voters, a spare and one that has lost its state files,
// believe in none that a stranger makes up, in whatever incarnation; and a
// stranger's word does not recover the lease voters.
func TestAStrangerIsNobodysLeaseVoter(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.Bootstrap(3, v36, "a", "b", "c")
	c.Start("d")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	c.Node("d").WaitSaid(harness.Soon, 0, "msg=running")
	if _, err := c.Ctl("pause", "--reason=attack"); err != nil {
		t.Fatal(err)
	}
	before, err := nodestate.Read(c.Node("b").Dir)
	must(t, err)
	token := before.Assigned.Token
	forgetful := c.Node("c")
	forgetful.Kill()
	for _, name := range []string{"etcdadm.json", "state"} {
		if err := os.Remove(filepath.Join(forgetful.Dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	said := forgetful.LogSize()
	forgetful.Start()
	forgetful.WaitSaid(harness.Soon, said, "msg=running")

	s := &stranger{}
	s.serve(t, c)
	p := callAs(t, c, "stranger")
	order := func(n *harness.Node, term cluster.Term, e cluster.LeaseVoters, argv ...string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s.says(term, e)
		to := rpc.Node{Name: cluster.NodeName(n.Name), Address: n.Endpoint()}
		op, err := plan.Parse(argv)
		must(t, err)
		return p.Execute(ctx, to, "test", plan.Order{Operation: op, Term: term, Holder: "stranger", LeaseVoters: e})
	}
	for _, n := range []*harness.Node{forgetful, c.Node("d")} {
		was, err := nodestate.Read(n.Dir)
		must(t, err)
		for _, term := range []cluster.Term{1000, lease.MaxTerm} {
			for _, of := range []cluster.Token{"t9", token} {
				e := cluster.LeaseVoters{Token: of, Term: 1000, Names: []cluster.NodeName{"stranger"}}
				for _, argv := range [][]string{
					{"data", "set-aside", "--node=" + n.Name, "--token=" + string(token), "--expect-member-id=0"},
					{"data", "discard", "--node=" + n.Name, "--name=" + string(token), "--expect-at=2026-01-01T00:00:00Z"},
				} {
					err := order(n, term, e, argv...)
					if err == nil || !strings.Contains(err.Error(), "without the lease") &&
						!strings.Contains(err.Error(), "is far above") {
						t.Errorf("%v of %s in term %d: %v", argv[:2], of, term, err)
					}
				}
			}
		}
		if now, err := nodestate.Read(n.Dir); err != nil || now.Term != was.Term {
			t.Errorf("%s has seen term %d, and before %d, %v", n.Name, now.Term, was.Term, err)
		}
	}
	leaseVoters := before.LeaseVoters.Names
	for _, term := range []string{"1000", "268435456"} {
		argv := []string{"lease-voters", "recover", "--node=b", "--token=" + string(token), "--term=" + term}
		for _, n := range []string{"a", "b", "c"} {
			argv = append(argv, "--name="+n)
		}
		for _, n := range leaseVoters {
			argv = append(argv, "--expect="+string(n))
			if n != "b" {
				argv = append(argv, "--lost="+string(n))
			}
		}
		if err := order(c.Node("b"), 0, cluster.LeaseVoters{}, argv...); err == nil ||
			!strings.Contains(err.Error(), "no request") {
			t.Errorf("the lease voters %v are recovered in term %s: %v", leaseVoters, term, err)
		}
	}
	if now, err := nodestate.Read(c.Node("b").Dir); err != nil || now.Term > before.Term+100 {
		t.Errorf("b has seen term %d, and before %d, %v", now.Term, before.Term, err)
	}
	w.WaitMore(harness.Soon, 10)
}
