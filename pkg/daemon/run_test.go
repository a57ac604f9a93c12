package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/nodestate"
	"github.com/etcdadm/etcdadm/pkg/reconcile"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// A village is machines on one: each node has a loopback address of its own,
// and all use the same ports, as on real machines. Daemons run in this process,
// their etcd processes are real.
type village struct {
	t      *testing.T
	prefix string
	store  string
	change []func(c *Config)
	nodes  []*resident
}

// A resident is one daemon.
type resident struct {
	name   string
	config Config
	out    syncBuffer
	cancel context.CancelFunc
	ended  chan error
}

// syncBuffer is a buffer for several writers.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newVillage(t *testing.T, names string, change ...func(c *Config)) *village {
	t.Helper()
	list := os.Getenv(etcdbin.DirVariable)
	if list == "" {
		t.Skip(etcdbin.DirVariable + " names no directory with etcd binaries")
	}
	finder := etcdbin.Finder{Dirs: filepath.SplitList(list)}
	if _, err := finder.Find(version); err != nil {
		t.Skip(err)
	}
	t.Parallel()
	var b [2]byte
	_, _ = rand.Read(b[:])
	v := &village{t: t, prefix: fmt.Sprintf("127.%d.%d.", 80+b[0]%100, b[1]), store: filepath.Join(t.TempDir(), "store"), change: change}
	for i, name := range strings.Fields(names) {
		address := v.prefix + strconv.Itoa(10+i)
		r := &resident{name: name, config: Config{
			ClusterName: "main", BackupStore: "file://" + v.store, DataDir: filepath.Join(t.TempDir(), name), NodeName: name,
			Address: address, EtcdAddress: address, GRPCPort: 8000, Insecure: true, EtcdInsecure: true,
			PeerURLs: []string{"https://__address__:2380"}, ClientURLs: []string{"https://__address__:4001"}, QuarantineURLs: []string{"https://__address__:8001"},
			DiscoveryInterval: time.Second, EtcdDirs: filepath.SplitList(list), UserEnv: map[string]string{"ETCD_UNSAFE_NO_FSYNC": "true", "ETCD_FEATURE_GATES": "InitialCorruptCheck=false"},
		}}
		for _, f := range change {
			f(&r.config)
		}
		v.nodes = append(v.nodes, r)
	}
	t.Cleanup(func() {
		for _, r := range v.nodes {
			v.stop(r)
			if t.Failed() {
				out := r.out.String()
				t.Logf("daemon %s said\n%s", r.name, out[max(0, len(out)-6000):])
			}
		}
	})
	return v
}

// TestMain fails if a goroutine of the project is left when all tests have
// ended.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leaks(); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "%d goroutines are left:\n%s\n", len(left), strings.Join(left, "\n\n"))
		code = max(code, 1)
	}
	os.Exit(code)
}

// leaks waits for the goroutines of the project to end, and returns those that
// do not.
func leaks() (left []string) {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		left = nil
		b := make([]byte, 1<<20)
		for _, g := range strings.Split(string(b[:runtime.Stack(b, true)]), "\n\n") {
			// Libraries' goroutines name who started them.
			if strings.Contains(g, "etcdadm/pkg/") && !strings.Contains(g, "TestMain") || strings.Contains(g, "memberlist") || strings.Contains(g, "grpc") {
				left = append(left, g)
			}
		}
		if len(left) == 0 {
			return nil
		}
	}
	return left
}

// spec writes the wish.
func (v *village) spec(members int) {
	v.t.Helper()
	must(v.t, v.open().PutSpec(v.t.Context(), store.SpecFile{MemberCount: members, EtcdVersion: version}))
}

// open is the store as a person sees it.
func (v *village) open() *store.Store {
	v.t.Helper()
	s, err := store.Open(v.t.Context(), v.store)
	must(v.t, err)
	return s
}

func (v *village) start(list ...*resident) {
	v.t.Helper()
	for _, r := range list {
		ctx, cancel := context.WithCancel(v.t.Context())
		r.cancel, r.ended = cancel, make(chan error, 1)
		r.config.EtcdLog = &r.out
		go func() { r.ended <- Run(ctx, r.config, slog.New(slog.NewTextHandler(&r.out, nil))) }()
	}
}

// stop ends a daemon in good order, with its etcd.
func (v *village) stop(r *resident) {
	v.t.Helper()
	if r.cancel == nil {
		return
	}
	r.cancel()
	r.cancel = nil
	select {
	case err := <-r.ended:
		if err != nil {
			v.t.Errorf("daemon %s ended with %v", r.name, err)
		}
	case <-time.After(30 * time.Second):
		v.t.Fatalf("daemon %s does not end", r.name)
	}
	for _, port := range []string{"8000", "2380", "4001"} {
		if c, err := net.DialTimeout("tcp", net.JoinHostPort(r.config.Address, port), time.Second); err == nil {
			_ = c.Close()
			v.t.Errorf("after the end of daemon %s, port %s answers", r.name, port)
		}
	}
}

// eventually waits for a condition, and fails when a daemon ends by itself.
func (v *village) eventually(what string, ok func(ctx context.Context) error) {
	v.t.Helper()
	deadline := time.Now().Add(45 * time.Second)
	for {
		ctx, cancel := context.WithTimeout(v.t.Context(), 2*time.Second)
		err := ok(ctx)
		cancel()
		if err == nil {
			return
		}
		for _, r := range v.nodes {
			select {
			case end := <-r.ended:
				r.cancel = nil
				v.t.Fatalf("daemon %s ended with %v", r.name, end)
			default:
			}
		}
		if time.Now().After(deadline) {
			v.t.Fatalf("waited 45 s for %s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// converged waits for the coordinator to publish that all is well with n
// members.
func (v *village) converged(n int) reconcile.Report {
	v.t.Helper()
	var r reconcile.Report
	v.eventually(fmt.Sprintf("a cluster of %d", n), func(ctx context.Context) error {
		v.decode(ctx, &r)
		if !r.Converged || len(r.Observation.Members) != n || len(r.Holds) > 0 || r.Operation != "" || len(r.Observation.Store.Backups) == 0 {
			return fmt.Errorf("converged %t, %d members, holds %v, doing %q, %d backups", r.Converged, len(r.Observation.Members), r.Holds, r.Operation, len(r.Observation.Store.Backups))
		}
		return nil
	})
	return r
}

// named returns the daemon of a node.
func (v *village) named(name cluster.NodeName) *resident {
	v.t.Helper()
	i := slices.IndexFunc(v.nodes, func(r *resident) bool { return r.name == string(name) })
	if i < 0 {
		v.t.Fatalf("there is no node %q", string(name))
	}
	return v.nodes[i]
}

func (v *village) decode(ctx context.Context, r *reconcile.Report) {
	*r = reconcile.Report{}
	if b, err := v.open().Status(ctx); err == nil {
		must(v.t, json.Unmarshal(b, r))
	}
}

// members asks the etcd of one node for the quorum's list.
func (v *village) members(r *resident, o etcdclient.Options) []cluster.Member {
	v.t.Helper()
	var list []cluster.Member
	v.eventually("etcd of "+r.name, func(ctx context.Context) error {
		c, err := etcdclient.Open(o)
		if err != nil {
			return err
		}
		defer c.Close()
		list, err = c.Members(ctx)
		return err
	})
	return list
}

func plainClient(r *resident) etcdclient.Options {
	return etcdclient.Options{Endpoints: []string{"http://" + r.config.Address + ":4001"}}
}

func TestADaemonFoundsAClusterOfOneAndEnds(t *testing.T) {
	port := freePort(t)
	v := newVillage(t, "a", func(c *Config) { c.MetricsPort = port })
	v.start(v.nodes[0])
	url := "http://127.0.0.1:" + strconv.Itoa(port)
	v.eventually("the metrics port", func(ctx context.Context) error { return status(ctx, url+"/healthz", http.StatusOK) })
	v.spec(1) // the wish comes later than the daemon
	r := v.converged(1)
	if r.Coordinator != "a" || r.Term == 0 || r.Observation.Members[0].Name != "a" {
		t.Errorf("the status is %+v", r)
	}
	must(t, status(t.Context(), url+"/readyz", http.StatusOK))
	_, page := get(t, url+"/metrics")
	wantLines(t, page, "etcdadm_coordinator 1", "etcdadm_etcd_running 1", `etcdadm_operations_total{kind="incarnation create",result="done"} 1`)

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
	if st, err := nodestate.Read(v.nodes[0].config.DataDir); err != nil || st.Assigned == nil || st.Assigned.Stopped || !st.Grant.Released {
		t.Errorf("on the disk is %+v, %v", st, err)
	}
}

func TestThreeDaemonsFoundAClusterTogetherAndComeBackWithoutTheStore(t *testing.T) {
	v := newVillage(t, "a b c")
	v.spec(3)
	v.start(v.nodes...)
	r := v.converged(3)
	for _, node := range v.nodes {
		if list := v.members(node, plainClient(node)); len(list) != 3 {
			t.Errorf("%s knows the members %+v", node.name, list)
		}
	}
	if e := r.Observation.Electors; len(e.Names) != 3 {
		t.Errorf("the electors are %+v", e)
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
	v := newVillage(t, "a b", func(c *Config) { c.Insecure, c.EtcdInsecure, c.PKIDir = false, false, pki })
	v.spec(1)
	v.start(v.nodes...)
	r := v.converged(1)
	if len(r.Observation.Nodes) != 2 || !r.Observation.Nodes[1].Reachable || r.Observation.Nodes[0].CertNotAfter.IsZero() {
		t.Errorf("the nodes are %+v", r.Observation.Nodes)
	}
	var renewer certs.Renewer
	id, err := renewer.Add(certs.Source{Name: "test", Dir: pki, CA: certs.ClientsCA, Pair: certs.Pair{Request: certs.EtcdClient("kube-apiserver")}}, time.Now())
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
		{"the data directory is a file", func(c *Config) { c.DataDir = filepath.Join(locked, "etcdadm.lock") }, "read the data directory"},
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
				Insecure: true, EtcdInsecure: true, PeerURLs: []string{"https://__address__:1"}, ClientURLs: []string{"https://__address__:2"},
				QuarantineURLs: []string{"https://__address__:3"}, DiscoveryInterval: time.Second,
			}
			tc.change(&c)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
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

func TestADaemonWithoutANameMakesOneUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := Config{
		ClusterName: "main", BackupStore: t.TempDir(), DataDir: dir, Address: "127.0.0.1", Insecure: true, EtcdInsecure: true,
		PeerURLs: []string{"https://__address__:1"}, ClientURLs: []string{"https://__address__:2"}, QuarantineURLs: []string{"https://__address__:3"},
		DiscoveryInterval: time.Second,
	}
	var out syncBuffer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, c, slog.New(slog.NewTextHandler(&out, nil))) }()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(out.String(), "msg=running"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not run: %s", out.String())
		}
	}
	cancel()
	must(t, <-ended)
	id, err := nodestate.MyID(dir)
	must(t, err)
	if !strings.Contains(out.String(), "msg=running node="+id) {
		t.Errorf("its name is %s, and it says\n%s", id, out.String())
	}
}

// status asks a page and compares the code.
func status(ctx context.Context, url string, want int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		return fmt.Errorf("%s says %s", url, resp.Status)
	}
	return nil
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
