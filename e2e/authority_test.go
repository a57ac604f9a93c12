package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
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

// callAs returns connections with a certificate that the daemons' authority
// issues to a node of that name.
func callAs(t *testing.T, c *harness.Cluster, name cluster.NodeName) *rpc.Pool {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pki")
	must(t, c.PKI.Install(dir))
	ca, err := certs.LoadCA(dir, certs.ManagerCA, time.Now())
	must(t, err)
	leaf, err := ca.Issue(certs.ManagerClient(name), time.Now())
	must(t, err)
	p := rpc.NewPool(rpc.PoolOptions{Self: name, NameOf: certs.ServerNode, ClientTLS: func(cluster.NodeName) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{
			leaf.TLS(),
		}}
	}})
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Somebody has a certificate of the daemons' authority, and is no member: no
// term, no lease voters and no incarnation that they make up moves anything.
func TestACertificateIsNoLease(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.Bootstrap(3, v36, "a", "b", "c")
	c.Start("d")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	target := c.Node("b")
	state, err := nodestate.Read(target.Dir)
	must(t, err)
	token, id := state.Assigned.Token, fmt.Sprintf("%x", memberID(t, c, target))
	pid := target.EtcdPID()

	p := callAs(t, c, "stranger")
	to := rpc.Node{Name: "b", Address: target.Endpoint()}
	claims := []cluster.LeaseVoters{
		{}, state.LeaseVoters,
		{Token: token, Term: 1000, Names: []cluster.NodeName{"stranger"}},
		{Token: "another", Term: 1, Names: []cluster.NodeName{"stranger"}},
	}
	for _, term := range []cluster.Term{0, 1, state.Term, state.Term + 1, 1000, lease.MaxTerm, 1<<64 - 1} {
		for _, e := range claims {
			for _, argv := range [][]string{
				{"member", "stop", "--node=b", "--expect-token=" + string(token), "--expect-member-id=" + id},
				{"data", "set-aside", "--node=b", "--token=" + string(token), "--expect-member-id=" + id},
				{"data", "discard", "--node=b", "--name=" + string(token), "--expect-at=2026-01-01T00:00:00Z"},
				{"quarantine", "set", "--node=b"},
				{"restore", "switch", "--node=b", "--token=another", "--expect-token=" + string(token)},
			} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				op, err := plan.Parse(argv)
				must(t, err)
				err = p.Execute(ctx, to, "test", plan.Order{Operation: op, Term: term, Holder: "stranger", LeaseVoters: e})
				cancel()
				if err == nil || rpc.KindOf(err) == rpc.Unreachable {
					t.Errorf("%v in term %d with the lease voters %v: %v", argv, term, e.Names, err)
				}
			}
			reply, err := p.Lease(t.Context(), to, lease.Request{
				Cluster: "test", Token: token, Term: term, Holder: "stranger", Boot: "x", TTL: lease.DefaultTTL, LeaseVoters: e,
			})
			if err != nil || reply.Granted {
				t.Errorf("term %d with the lease voters %v: granted %t, %v", term, e.Names, reply.Granted, err)
			}
		}
	}
	if now := target.EtcdPID(); now != pid {
		t.Errorf("etcd of b was process %d and is %d", pid, now)
	}
	if s, err := nodestate.Read(target.Dir); err != nil || s.Term > state.Term+10 {
		t.Errorf("b has seen term %d, %v", s.Term, err)
	}
	target.WaitSaid(harness.Soon, 0, "order refused", "from=stranger", "member stop")
	c.Eventually(harness.Soon, "the store reports it", func(context.Context) error {
		out, err := c.Ctl("history", "--orders", "-n", "0")
		if err == nil && !strings.Contains(out, "stranger") {
			err = fmt.Errorf("the orders are\n%s", out)
		}
		return err
	})
	// The cluster goes on, and its coordinator is obeyed.
	c.SetSpec(4, v36)
	c.SetSpec(1, v36)
	c.WaitVoters(harness.Soon, 1)
	w.WaitMore(harness.Soon, 10)
}

// A person has a certificate of their own kind: an operator acts under their own
// name, and one who may only look sees, and moves nothing.
func TestPersonsHaveCertificatesOfTheirOwn(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.Bootstrap(3, v36, "a", "b", "c")
	env := byHand(t, c)
	pki := filepath.Join(c.Dir, "hand-pki")
	dir := t.TempDir()
	for name, role := range map[string]string{"alice": "operator", "bob": "read-only"} {
		if _, err := shell(t, env,
			"etcdadm certs user "+name+" --role="+role+" --pki-dir="+pki+" --out-dir="+dir); err != nil {
			t.Fatal(err)
		}
	}
	with := func(name string) []string {
		f := filepath.Join(dir, name)
		e := append(env, "ETCDADM_PKI_DIR=", "ETCDADM_CERT="+f+".crt", "ETCDADM_KEY="+f+".key", "ETCDADM_CACERT="+f+"-ca.crt")
		if name == "alice" {
			e = append(e, "ETCDADM_ETCD_CERT="+f+"-etcd.crt", "ETCDADM_ETCD_KEY="+f+"-etcd.key",
				"ETCDADM_ETCD_CACERT="+f+"-etcd-ca.crt")
		}
		return e
	}
	if _, err := c.Ctl("pause", "--reason=by hand"); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"etcdadm observe", "etcdadm plan", "etcdadm status"} {
		for _, name := range []string{"alice", "bob"} {
			if _, err := shell(t, with(name), line); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	pid := c.Node("b").EtcdPID()
	if out, err := shell(t, with("bob"), "etcdadm quarantine set --node=b"); err == nil ||
		!strings.Contains(err.Error(), "may not give orders") {
		t.Errorf("bob, who may only look, did it: %s, %v", out, err)
	}
	if now := c.Node("b").EtcdPID(); now != pid {
		t.Error("etcd of b was restarted")
	}
	if _, err := shell(t, with("alice"), "etcdadm quarantine set --node=b"); err != nil {
		t.Error(err)
	}
	if _, err := shell(t, with("alice"), "etcdadm quarantine lift --node=b"); err != nil {
		t.Error(err)
	}
	c.WaitVoters(harness.Soon, 3)
	eventually(t, c, "alice has b lead", func() error {
		_, err := shell(t, with("alice"), "etcdadm member move-leader --to=b")
		return err
	})
	if out, err := c.Ctl("history"); err != nil || !strings.Contains(out, "operator-alice") {
		t.Errorf("the history does not name alice: %s, %v", out, err)
	}
	c.Node("b").WaitSaid(harness.Soon, 0, "order obeyed", "from=operator-alice", "role=operator")
}

// A node that is no lease voter may have the lowest name: it coordinates nothing, and
// keeps nobody from it.
func TestASpareWithTheLowestNameCoordinatesNothing(t *testing.T) {
	t.Parallel()
	c := start(t, "--replace-grace=30s")
	c.Bootstrap(3, v36, "b", "c", "d")
	c.Start("a")
	w := c.Write()
	w.WaitMore(harness.Soon, 10)
	c.Eventually(harness.Soon, "the spare is known", func(context.Context) error {
		r, err := c.Status()
		if err == nil && len(r.Observation.Nodes) != 4 {
			err = fmt.Errorf("%d nodes are known", len(r.Observation.Nodes))
		}
		return err
	})
	c.Node("b").Kill()
	c.WaitNames(harness.Soon, "a", "c", "d")
	var history []store.HistoryEntry
	learner := -1
	eventually(t, c, "the history reports that a became a learner", func() (err error) {
		history, err = c.History()
		if learner = slices.IndexFunc(history, func(e store.HistoryEntry) bool {
			return strings.Contains(e.Line, "member add-learner") && strings.Contains(e.Line, c.Node("a").Address)
		}); learner < 0 {
			err = errors.Join(err, fmt.Errorf("it is %v", history))
		}
		return err
	})
	// As a lease voter it may coordinate, which it becomes later.
	for _, e := range history[:learner+1] {
		if e.By == "a" {
			t.Errorf("a did before it was a member: %s", e.Line)
		}
	}
	if by := history[learner].By; by != "c" && by != "d" {
		t.Errorf("the coordinator was %q", by)
	}
	w.WaitMore(harness.Soon, 10)
}

// Connections from one machine that prove nothing do not keep the daemons from
// each other, nor a person out.
func TestAFloodOfConnectionsStopsNobody(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.Bootstrap(3, v36, "a", "b", "c")
	env := byHand(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, n := range c.Nodes() {
		wg.Go(func() { flood(ctx, n.Endpoint()) })
	}
	if _, err := shell(t, env, "etcdadm observe"); err != nil {
		t.Errorf("a person is kept out: %v", err)
	}
	gone := c.Coordinator()
	gone.Kill() // the others have to find each other again
	c.Eventually(harness.Soon, "another coordinates", func(context.Context) error {
		now, err := c.Status()
		if err == nil && (string(now.Coordinator) == gone.Name || now.Term == 0) {
			err = fmt.Errorf("%s coordinates", now.Coordinator)
		}
		return err
	})
	gone.Start()
	c.WaitVoters(harness.Soon, 3)
}

// flood opens connections from one address that is nobody's, and keeps as many
// open as it can.
func flood(ctx context.Context, to string) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 254, 254, 254)}, Timeout: time.Second}
	var open []net.Conn
	for ctx.Err() == nil {
		if conn, err := d.DialContext(ctx, "tcp4", to); err == nil {
			open = append(open, conn)
		}
		if len(open) > 300 {
			_ = open[0].Close()
			open = open[1:]
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Millisecond):
		}
	}
	for _, conn := range open {
		_ = conn.Close()
	}
}
