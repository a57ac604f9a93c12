package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/credentials"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/discovery"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/existing"
)

// An existingMember is a machine as the existing etcd-manager has it: a stand-in for its
// daemon, and a real etcd.
type existingMember struct {
	etcd   *etcdtest.Member
	daemon *existing.Daemon
}

// startExisting starts a node with the files that are there as the existing tool would.
func (v *testCluster) startExisting(r *testMember) *existingMember {
	v.t.Helper()
	s, err := nodestate.Read(r.config.DataDir)
	must(v.t, err)
	if s.Assigned == nil {
		v.t.Fatalf("%s has nothing to run", r.name)
	}
	e := &existingMember{etcd: &etcdtest.Member{
		Name: r.name, DataDir: nodestate.DataDir(r.config.DataDir, s.Assigned.Token), Flags: []string{"--unsafe-no-fsync"},
		ClientURL: "http://" + r.config.Address + ":4001", PeerURL: "http://" + r.config.Address + ":2380",
	}}
	e.etcd.Start(v.t, etcdtest.Binaries(v.t, version.String()))
	e.daemon = v.existingDaemon(r)
	return e
}

// existingDaemon starts the daemon alone, with the certificates of the node.
func (v *testCluster) existingDaemon(r *testMember) *existing.Daemon {
	v.t.Helper()
	pair := func(name string) tls.Certificate {
		path := filepath.Join(r.config.PKIDir, name+"-"+r.name)
		c, err := tls.LoadX509KeyPair(path+".crt", path+".key")
		must(v.t, err)
		return c
	}
	cas := x509.NewCertPool()
	b, err := os.ReadFile(filepath.Join(r.config.PKIDir, certs.ManagerCA+".crt"))
	must(v.t, err)
	cas.AppendCertsFromPEM(b)
	server, client := pair("etcd-manager-server"), pair("etcd-manager-client")
	d, err := existing.Start(v.t.Context(), existing.Options{
		Server: credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{server}, ClientCAs: cas, ClientAuth: tls.RequireAndVerifyClientCert,
		}),
		Client: func(name string) credentials.TransportCredentials {
			return credentials.NewTLS(&tls.Config{
				Certificates: []tls.Certificate{client}, RootCAs: cas, ServerName: "etcd-manager-server-" + name,
			})
		},
		Name: r.name, Cluster: r.config.ClusterName, Address: r.config.Address + ":8000",
		Discovery: func() map[string]string {
			all := map[string]string{}
			for _, n := range v.nodes {
				all[n.name] = n.config.Address + ":8000"
			}
			return all
		},
		PingEvery: 100 * time.Millisecond, Healthy: time.Second, Round: 200 * time.Millisecond,
	})
	must(v.t, err)
	v.t.Cleanup(d.Stop)
	return d
}

func (e *existingMember) stop() {
	e.daemon.Stop()
	e.etcd.Kill()
}

// handToExisting leaves what the existing tool would have: its own files, with lists of
// different ages, and of the store the spec, the marker and the backups.
func (v *testCluster) handToExisting() {
	v.t.Helper()
	for i, names := range []string{"a", "a b c", "a c"} {
		v.handOver(v.nodes[i], names)
	}
	v.forgetControl()
}

// forgetControl leaves of the store what the existing tool has there.
func (v *testCluster) forgetControl() {
	v.t.Helper()
	for _, dir := range []string{"incarnations", "nodes", "status", "orders", "history"} {
		must(v.t, os.RemoveAll(filepath.Join(v.store, "control", dir)))
	}
}

// handOver leaves a node as the existing tool would have it, and returns its token.
func (v *testCluster) handOver(r *testMember, names string) cluster.Token {
	v.t.Helper()
	s, err := nodestate.Read(r.config.DataDir)
	must(v.t, err)
	must(v.t, os.Remove(filepath.Join(r.config.DataDir, "etcdadm.json")))
	var nodes []existing.Node
	for _, name := range strings.Fields(names) {
		at := v.named(cluster.NodeName(name)).config.Address
		nodes = append(nodes, existing.Node{Name: name, Peer: []string{"http://" + at + ":2380"},
			Client: []string{"http://" + at + ":4001"}})
	}
	old := existing.State{Token: string(s.Assigned.Token), Version: version.String(), Nodes: nodes}
	must(v.t, old.Write(r.config.DataDir))
	return s.Assigned.Token
}

// holding waits until a hold of that reason is published whose text has the words.
func (v *testCluster) holding(reason plan.Reason, words ...string) {
	v.t.Helper()
	v.eventually("the hold "+string(reason), func(ctx context.Context) error {
		var r reconcile.Report
		v.decode(ctx, &r)
		for _, h := range r.Holds {
			if h.Reason == reason && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(h.Text, w) }) {
				return nil
			}
		}
		return fmt.Errorf("holds %v", r.Holds)
	})
}

// A writer writes keys until it is asked to stop, and knows which were acknowledged.
type writer struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	acked  []string
}

func (v *testCluster) write() *writer {
	v.t.Helper()
	var endpoints []string
	for _, r := range v.nodes {
		endpoints = append(endpoints, "http://"+r.config.Address+":4001")
	}
	c := etcdtest.Open(v.t, clientv3.Config{Endpoints: endpoints})
	ctx, cancel := context.WithCancel(v.t.Context())
	w := &writer{cancel: cancel}
	w.wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			key := fmt.Sprintf("key-%d", i)
			short, done := context.WithTimeout(ctx, time.Second)
			if _, err := c.Put(short, key, "x"); err == nil {
				w.acked = append(w.acked, key)
			}
			done()
		}
	})
	v.t.Cleanup(func() { cancel(); w.wg.Wait() })
	return w
}

// check stops the writer and makes sure that nothing is lost.
func (w *writer) check(v *testCluster) {
	v.t.Helper()
	w.cancel()
	w.wg.Wait()
	c := etcdtest.Open(v.t, clientv3.Config{Endpoints: []string{"http://" + v.nodes[0].config.Address + ":4001"}})
	there := map[string]bool{}
	v.eventually("all keys", func(ctx context.Context) error {
		got, err := c.Get(ctx, "key-", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		for _, kv := range got.Kvs {
			there[string(kv.Key)] = true
		}
		return nil
	})
	for _, key := range w.acked {
		if !there[key] {
			v.t.Errorf("%s was acknowledged and is lost", key)
		}
	}
	if len(w.acked) == 0 {
		v.t.Error("nothing was written")
	}
}

// newExistingCluster returns machines whose daemons have certificates, and know from the
// outside where the others are, as a cloud would say.
func newExistingCluster(t *testing.T) *testCluster {
	t.Helper()
	pki := newPKI(t, certs.ManagerCA)
	v := newTestCluster(t, "a b c", func(c *Config) {
		c.ListenFor, c.Insecure, c.PKIDir = 15*time.Second, false, pki
		c.CertLifetime = 30 * time.Minute
	})
	for _, r := range v.nodes {
		for _, other := range v.nodes {
			r.config.Seeds = append(r.config.Seeds, other.config.Address+":8000")
		}
	}
	return v
}

// inCloud has the nodes know from a cloud where the machines are. It returns two addresses
// of each; daemons listen at the second.
func (v *testCluster) inCloud() {
	var all []discovery.Seed
	for _, r := range v.nodes {
		for _, host := range []string{v.prefix + "1" + strings.TrimPrefix(r.config.Address, v.prefix), r.config.Address} {
			all = append(all, discovery.Seed{Name: cluster.NodeName(r.name), Address: host + ":8000"})
		}
	}
	for _, r := range v.nodes {
		r.config.Seeds = nil
		r.config.Lookup = func(context.Context) ([]discovery.Seed, error) { return all, nil }
	}
}

// TestTakingOverMachineByMachine exchanges the daemons of the existing etcd-manager for
// this one while clients write, and goes back and forth with one of them.
func TestTakingOverMachineByMachine(t *testing.T) {
	v := newExistingCluster(t)
	v.inCloud()
	v.spec(3)
	v.start(v.nodes...)
	v.converged(3)
	for _, r := range v.nodes {
		v.stop(r)
	}
	v.handToExisting()
	old := map[string]*existingMember{}
	for _, r := range v.nodes {
		old[r.name] = v.startExisting(r)
	}
	w := v.write()
	for _, name := range []cluster.NodeName{"c", "b"} {
		r := v.named(name)
		old[r.name].stop()
		v.start(r)
		v.members(r, plainClient(r))
		v.holding(plan.ExistingDaemon, v.named("a").config.Address)
		// Theirs leads on, without those that do not answer it.
		_, failed := old["a"].daemon.Rounds()
		v.eventually("a round of the existing daemon", func(context.Context) error {
			now, stillFails := old["a"].daemon.Rounds()
			if stillFails == failed && now > 0 {
				return nil
			}
			failed = stillFails
			return fmt.Errorf("%d rounds, %d failed", now, stillFails)
		})
	}
	if view, err := v.open().Poll(t.Context()); err != nil || len(view.Incarnations) > 0 {
		t.Fatalf("while it is there: records %v, %v", view.Incarnations, err)
	}
	a := v.named("a")
	old["a"].stop()
	v.holding(plan.TakingOver, "member a")
	v.start(a)
	v.agreed(1)
	// Back, and here again. It is known by the certificate with which it calls, and by the
	// address where it answers.
	v.stop(a)
	back := v.startExisting(a)
	v.holding(plan.ExistingDaemon, a.config.Address+":8000 (heard by b, c), a (heard by b, c): ")
	back.stop()
	v.start(a)
	v.agreed(1)
	w.check(v)
}

// agreed waits until the cluster is coordinated, by lease voters that one record has
// named, and all nodes know them.
func (v *testCluster) agreed(records int) {
	v.t.Helper()
	v.converged(3)
	ctx := v.t.Context()
	view, err := v.open().Poll(ctx)
	must(v.t, err)
	list := view.Incarnations
	if len(list) != records {
		v.t.Fatalf("%d records: %v", len(list), list)
	}
	v.eventually("the marker of a coordinator, and lease voters on all disks", func(ctx context.Context) error {
		if created, err := v.open().Created(ctx); err != nil || created.Before(list[records-1].At) {
			return fmt.Errorf("the marker is of %s, the record of %s, %w", created, list[records-1].At, err)
		}
		for _, r := range v.nodes {
			s, err := nodestate.Read(r.config.DataDir)
			if err != nil || fmt.Sprint(s.LeaseVoters.Names) != "[a b c]" || s.LeaseVoters.Token != list[records-1].Token {
				return fmt.Errorf("%s has %+v, %w", r.name, s.LeaseVoters, err)
			}
		}
		return nil
	})
}
