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

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/etcd/snapshot/isolate"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// A testCluster is machines on one: each node has a loopback address of its own,
// and all use the same ports, as on real machines. Daemons run in this process,
// their etcd processes are real.
type testCluster struct {
	t      *testing.T
	prefix string
	store  string
	change []func(c *Config)
	nodes  []*testMember
}

// A testMember is one daemon.
type testMember struct {
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

func newTestCluster(t *testing.T, names string, change ...func(c *Config)) *testCluster {
	t.Helper()
	finder := etcdtest.Finder(t)
	if _, err := finder.Find(version); err != nil {
		t.Skip(err)
	}
	t.Parallel()
	var b [2]byte
	_, _ = rand.Read(b[:])
	v := &testCluster{t: t, prefix: fmt.Sprintf("127.%d.%d.", 80+b[0]%100, b[1]),
		store: filepath.Join(t.TempDir(), "store"), change: change}
	for i, name := range strings.Fields(names) {
		address := v.prefix + strconv.Itoa(10+i)
		r := &testMember{name: name, config: Config{
			ClusterName: "main", BackupStore: "file://" + v.store, DataDir: filepath.Join(t.TempDir(), name), NodeName: name,
			Address: address, EtcdAddress: address, GRPCPort: 8000, Insecure: true, EtcdInsecure: true,
			PeerURLs: []string{"https://__address__:2380"}, ClientURLs: []string{"https://__address__:4001"},
			QuarantineURLs: []string{"https://__address__:8001"},
			// All nodes count, however slow the machine is.
			Policy:            cluster.Policy{BootstrapGrace: 30 * time.Second},
			DiscoveryInterval: time.Second, EtcdDirs: finder.Dirs, UserEnv: map[string]string{
				"ETCD_UNSAFE_NO_FSYNC": "true", "ETCD_FEATURE_GATES": "InitialCorruptCheck=false",
			},
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
	if code, ok := isolate.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout); ok {
		os.Exit(code)
	}
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
	_ = testwait.Try(context.Background(), testwait.Limit, func(context.Context) error { // what is left is returned
		left = nil
		b := make([]byte, 1<<20)
		for _, g := range strings.Split(string(b[:runtime.Stack(b, true)]), "\n\n") {
			if strings.Contains(g, "testchild.init") {
				continue // it starts etcds for all tests
			}
			// Libraries' goroutines name who started them.
			if strings.Contains(g, "etcdadm/pkg/") && !strings.Contains(g, "TestMain") || strings.Contains(g, "memberlist") ||
				strings.Contains(g, "grpc") {
				left = append(left, g)
			}
		}
		if len(left) > 0 {
			return errors.New("they have not ended")
		}
		return nil
	})
	return left
}

// spec writes the spec.
func (v *testCluster) spec(members int) {
	v.t.Helper()
	must(v.t, v.open().PutSpec(v.t.Context(), store.SpecFile{MemberCount: members, EtcdVersion: version}))
}

// open is the store as a person sees it.
func (v *testCluster) open() *store.Store {
	v.t.Helper()
	s, err := store.Open(v.t.Context(), v.store)
	must(v.t, err)
	return s
}

func (v *testCluster) start(list ...*testMember) {
	v.t.Helper()
	for _, r := range list {
		ctx, cancel := context.WithCancel(v.t.Context())
		r.cancel, r.ended = cancel, make(chan error, 1)
		r.config.EtcdLog = &r.out
		go func() { r.ended <- Run(ctx, r.config, slog.New(slog.NewTextHandler(&r.out, nil))) }()
	}
}

// stop ends a daemon in good order, with its etcd.
func (v *testCluster) stop(r *testMember) {
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
	case <-time.After(testwait.Limit):
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
func (v *testCluster) eventually(what string, ok func(ctx context.Context) error) {
	v.t.Helper()
	testwait.For(v.t, what, func(ctx context.Context) error {
		err := ok(ctx)
		if err == nil {
			return nil
		}
		for _, r := range v.nodes {
			select {
			case end := <-r.ended:
				r.cancel = nil
				v.t.Fatalf("daemon %s ended with %v", r.name, end)
			default:
			}
		}
		return err
	})
}

// converged waits for the coordinator to publish that all is well with n
// members.
func (v *testCluster) converged(n int) reconcile.Report {
	v.t.Helper()
	var r reconcile.Report
	v.eventually(fmt.Sprintf("a cluster of %d", n), func(ctx context.Context) error {
		v.decode(ctx, &r)
		if !r.Converged || len(r.Observation.Members) != n || len(r.Holds) > 0 || r.Operation != "" ||
			len(r.Observation.Store.Backups) == 0 {
			return fmt.Errorf("converged %t, %d members, holds %v, doing %q, %d backups", r.Converged,
				len(r.Observation.Members), r.Holds, r.Operation, len(r.Observation.Store.Backups))
		}
		return nil
	})
	return r
}

// named returns the daemon of a node.
func (v *testCluster) named(name cluster.NodeName) *testMember {
	v.t.Helper()
	i := slices.IndexFunc(v.nodes, func(r *testMember) bool { return r.name == string(name) })
	if i < 0 {
		v.t.Fatalf("there is no node %q", string(name))
	}
	return v.nodes[i]
}

func (v *testCluster) decode(ctx context.Context, r *reconcile.Report) {
	*r = reconcile.Report{}
	if b, err := v.open().Status(ctx); err == nil {
		must(v.t, json.Unmarshal(b, r))
	}
}

// members asks the etcd of one node for the quorum's list.
func (v *testCluster) members(r *testMember, o etcdclient.Options) []cluster.Member {
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

func plainClient(r *testMember) etcdclient.Options {
	return etcdclient.Options{Endpoints: []string{"http://" + r.config.Address + ":4001"}}
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
