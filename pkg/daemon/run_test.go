package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/internal/shell"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func TestADaemonBootstrapsAClusterOfOfOneAndEnds(t *testing.T) {
	port := testport.Free(t)
	v := newTestCluster(t, "a", func(c *Config) { c.MetricsPort = port })
	v.start(v.nodes[0])
	url := "http://" + net.JoinHostPort(v.nodes[0].config.Address, strconv.Itoa(port))
	v.eventually("the metrics port", func(ctx context.Context) error { return status(ctx, url+"/healthz", http.StatusOK) })
	v.spec(1) // the spec comes later than the daemon
	r := v.converged(1)
	if r.Coordinator != "a" || r.Term == 0 || r.Observation.Members[0].Name != "a" {
		t.Errorf("the status is %+v", r)
	}
	v.eventually("readiness", func(ctx context.Context) error { return status(ctx, url+"/readyz", http.StatusOK) })
	_, page := get(t, url+"/metrics")
	wantLines(t, page, "etcdadm_coordinator 1", "etcdadm_etcd_running 1",
		`etcdadm_operations_total{kind="incarnation create",result="done"} 1`)

	if list, err := v.open().Backups(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("a new cluster has the backups %+v, %v", list, err)
	}
	s := v.open()
	if _, err := s.Created(t.Context()); err != nil {
		t.Errorf("the marker: %v", err)
	}
	if inc, err := s.Incarnation(t.Context(), 1); err != nil || inc.By != "a" || inc.Token != r.Observation.Token {
		t.Errorf("the record is %+v, %v", inc, err)
	}
	if view, err := s.Poll(t.Context()); err != nil || len(view.Nodes) != 1 ||
		view.Nodes[0].Cluster != v.nodes[0].config.ClusterName {
		t.Errorf("the nodes are %+v, %v", view.Nodes, err)
	}
	must(t, s.PutNode(t.Context(), store.NodeRecord{Name: "z", Address: "127.0.0.1:1", Boot: "boot", Cluster: "another"}))
	v.eventually("word of the node of another cluster", func(context.Context) error {
		if !strings.Contains(v.nodes[0].out.String(), "is that of another cluster") {
			return errors.New("none")
		}
		return nil
	})
	v.eventually("the history", func(ctx context.Context) error {
		h, err := s.History(ctx)
		if err == nil && len(h) < 5 {
			err = fmt.Errorf("the history is %+v", h)
		}
		return err
	})
	if out := v.nodes[0].out.String(); !strings.Contains(out, "etcd: {") || !strings.Contains(out, "msg=running node=a") {
		t.Error("it lacks lines of etcd, or its own")
	}
	v.stop(v.nodes[0])
	if st, err := nodestate.Read(v.nodes[0].config.DataDir); err != nil || st.Assigned == nil || st.Assigned.Stopped ||
		!st.Grant.Released {
		t.Errorf("on the disk is %+v, %v", st, err)
	}
}

func TestThreeDaemonsBootstrapAClusterTogetherAndComeBackWithoutTheStore(t *testing.T) {
	v := newTestCluster(t, "a b c", func(c *Config) { c.EtcdLogFile = true })
	v.spec(3)
	v.start(v.nodes...)
	r := v.converged(3)
	for _, node := range v.nodes {
		file := filepath.Join(node.config.DataDir, etcdLogName)
		b, err := os.ReadFile(file)
		if out := node.out.String(); !strings.Contains(out, file) || strings.Contains(out, `etcd: {"level":"info"`) ||
			!strings.Contains(string(b), `{"level":"info"`) {
			t.Errorf("etcd's log has %d bytes, %v; the daemon's is\n%s", len(b), err, out)
		}
	}
	for _, node := range v.nodes {
		if list := v.members(node, plainClient(node)); len(list) != 3 {
			t.Errorf("%s knows the members %+v", node.name, list)
		}
	}
	if e := r.Observation.LeaseVoters; len(e.Names) != 3 {
		t.Errorf("the lease voters are %+v", e)
	}

	// The coordinator ends, and another takes over.
	v.stop(v.named(r.Coordinator))
	v.eventually("another coordinator", func(ctx context.Context) error {
		var now reconcile.Report
		v.decode(ctx, &now)
		if now.Coordinator == r.Coordinator || now.Term <= r.Term {
			return fmt.Errorf("%s coordinates in term %d", now.Coordinator, now.Term)
		}
		return nil
	})

	// All end, and come back while the store is away.
	for _, node := range v.nodes {
		v.stop(node)
	}
	must(t, os.Rename(v.store, v.store+".away"))
	must(t, os.WriteFile(v.store, nil, 0o644))
	v.start(v.nodes...)
	for _, node := range v.nodes {
		if list := v.members(node, plainClient(node)); len(list) != 3 {
			t.Errorf("without the store, %s knows the members %+v", node.name, list)
		}
	}
	must(t, os.Remove(v.store))
	must(t, os.Rename(v.store+".away", v.store))
	back := time.Now()
	v.eventually("the status to be written again", func(ctx context.Context) error {
		var now reconcile.Report
		v.decode(ctx, &now)
		if now.At.Before(back) {
			return fmt.Errorf("the status is of %s", now.At)
		}
		return nil
	})
}

func TestADaemonWithTLSEverywhere(t *testing.T) {
	pki := t.TempDir()
	for _, name := range []string{certs.ManagerCA, certs.ClientsCA, certs.PeersCA} {
		ca, err := certs.NewCA(certs.CASpec{CommonName: name, Lifetime: time.Hour}, time.Now())
		must(t, err)
		must(t, ca.Write(pki, name))
	}
	v := newTestCluster(t, "a b", func(c *Config) { c.Insecure, c.EtcdInsecure, c.PKIDir = false, false, pki })
	v.spec(1)
	v.start(v.nodes...)
	r := v.converged(1)
	v.eventually("both nodes in the status", func(ctx context.Context) error {
		v.decode(ctx, &r)
		nodes := r.Observation.Nodes
		if len(nodes) != 2 || !nodes[1].Reachable || nodes[0].CertNotAfter.IsZero() {
			return fmt.Errorf("the nodes are %+v", nodes)
		}
		return nil
	})
	var renewer certs.Renewer
	id, err := renewer.Add(certs.Source{
		Name: "test", Dir: pki, CA: certs.ClientsCA, Pair: certs.Pair{Request: certs.EtcdClient("kube-apiserver")},
	}, time.Now())
	must(t, err)
	host := v.named(r.Observation.Members[0].Name) // whoever was ready first
	o := etcdclient.Options{Endpoints: []string{"https://" + host.config.Address + ":4001"}, TLS: id.ClientTLS("")}
	if list := v.members(host, o); len(list) != 1 {
		t.Errorf("members are %+v", list)
	}
	o.TLS = nil
	c, err := etcdclient.Open(o)
	must(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := c.Members(ctx); err == nil {
		t.Error("a client without a certificate got in")
	}
}

func TestADaemonThatCannotStartSaysWhy(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = busy.Close() })
	busyPort := busy.Addr().(*net.TCPAddr).Port
	locked := t.TempDir()
	other, err := nodestate.Open(locked, nodestate.Self{Name: "x"})
	must(t, err)
	t.Cleanup(func() { _ = other.Close() })
	for _, tc := range []struct {
		name   string
		change func(c *Config)
		want   string
	}{
		{"the data directory is in use", func(c *Config) { c.DataDir = locked }, "read the data directory"},
		{"the data directory is a file", func(c *Config) { c.DataDir = filepath.Join(locked, "etcdadm.lock") },
			"read the data directory"},
		{"a template that is unknown", func(c *Config) { c.PeerURLs = []string{"https://__rack__:1"} }, "--peer-urls"},
		{"no CA", func(c *Config) { c.Insecure, c.PKIDir = false, t.TempDir() }, "load the certificates"},
		{"no CA for etcd", func(c *Config) { c.EtcdInsecure, c.PKIDir = false, t.TempDir() }, "load the certificates"},
		{"no such store", func(c *Config) { c.BackupStore = "ftp://x" }, "open the store"},
		{"the port is taken", func(c *Config) { c.GRPCPort = busyPort }, "is another daemon running here"},
		{"a seed that is none", func(c *Config) { c.Seeds = []string{"b=:"} }, "open the port"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := Config{
				ClusterName: "main", BackupStore: t.TempDir(), DataDir: t.TempDir(), NodeName: "a", Address: "127.0.0.1",
				Insecure: true, EtcdInsecure: true, PeerURLs: []string{"https://__address__:1"}, ClientURLs: []string{
					"https://__address__:2",
				},
				QuarantineURLs: []string{"https://__address__:3"}, DiscoveryInterval: time.Second,
			}
			tc.change(&c)
			ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
			defer cancel()
			err := Run(ctx, c, slog.New(slog.DiscardHandler))
			wantError(t, err, tc.want)
			if errors.Is(err, context.DeadlineExceeded) {
				t.Error("it did not end by itself")
			}
			// Nothing is held: another daemon can have the directory.
			if c.DataDir != locked && !strings.HasPrefix(c.DataDir, locked) {
				f, err := nodestate.Open(c.DataDir, nodestate.Self{Name: "a"})
				must(t, err)
				must(t, f.Close())
			}
		})
	}
}

// Who starts a daemon before there are CAs is shown how they come to be on a machine.
func TestMissingCAsHaveAHint(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"/nowhere/pki", "/nowhere/my pki"} {
		for _, etcdOnly := range []bool{false, true} {
			err := Run(t.Context(), Config{
				ClusterName: "main", BackupStore: t.TempDir(), DataDir: t.TempDir(), NodeName: "a", Address: "127.0.0.1",
				PKIDir: dir, Insecure: etcdOnly,
				PeerURLs: []string{"https://__address__:1"}, ClientURLs: []string{"https://__address__:2"},
				QuarantineURLs: []string{"https://__address__:3"}, DiscoveryInterval: time.Second,
			}, slog.New(slog.DiscardHandler))
			want := "on the first machine of a cluster make the CAs, once: etcdadm auto pki --pki-dir=" + shell.Quote(dir) +
				"\non each further machine copy " + dir + " from the first one"
			if got := rpc.HintOf(err); got != want {
				t.Errorf("%v has the hint\n%s, want\n%s", err, got, want)
			}
		}
	}
	usual := &noCAError{dir: cluster.AutoPKI}
	if got := usual.Hint(); !strings.Contains(got, "once: etcdadm auto pki\n") {
		t.Errorf("the hint for auto's own directory is %s", got)
	}
}

func TestADaemonWithoutANameMakesOneUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := Config{
		ClusterName: "main", BackupStore: t.TempDir(), DataDir: dir, Address: "127.0.0.1", Insecure: true, EtcdInsecure: true,
		PeerURLs: []string{"https://__address__:1"}, ClientURLs: []string{"https://__address__:2"}, QuarantineURLs: []string{
			"https://__address__:3",
		},
		DiscoveryInterval: time.Second,
	}
	var out syncBuffer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, c, slog.New(slog.NewTextHandler(&out, nil))) }()
	testwait.For(t, "the daemon", func(context.Context) error {
		if !strings.Contains(out.String(), "msg=running") {
			return fmt.Errorf("it says\n%s", out.String())
		}
		return nil
	})
	cancel()
	must(t, <-ended)
	id, err := nodestate.MyID(dir)
	must(t, err)
	if !strings.Contains(out.String(), "msg=running node="+id) {
		t.Errorf("its name is %s, and it says\n%s", id, out.String())
	}
}
