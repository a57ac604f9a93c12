package etcdproc

import (
	"bufio"
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// realEtcd returns the configuration of a member, and the URL at which it takes clients.
func realEtcd(t testing.TB) (cfg Config, client string) {
	t.Helper()
	bin := etcdtest.Binaries(t, etcdtest.Versions[len(etcdtest.Versions)-1])
	peer, client := "http://"+testport.Address(t), "http://"+testport.Address(t)
	env, err := etcdconf.Env(etcdconf.Member{
		Name: "a", Version: bin.Version, Token: "t", State: etcdconf.StateNew,
		DataDir: filepath.Join(t.TempDir(), "data"),
		Peers:   []cluster.InitialMember{{Name: "a", PeerURLs: []string{peer}}},
		URLs:    cluster.URLs{Peer: []string{peer}, Client: []string{client}},
		Address: "127.0.0.1",
	})
	if err != nil {
		t.Fatal(err)
	}
	return Config{Path: bin.Etcd, Env: env, ClientPorts: etcdconf.ClientPorts(env)}, client
}

// serves reports whether etcd is healthy by its own word.
func serves(t testing.TB, client string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, client+"/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// watch begins to watch a key, and goes on until the test ends or etcd does.
func watch(t testing.TB, client string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, client+"/v3/watch",
		strings.NewReader(`{"create_request": {"key": "YQ=="}}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); !strings.Contains(line, `"created":true`) {
		t.Fatalf("the watch begins with %q, %v", line, err)
	}
}

// etcd waits for clients that watch, and needs not.
func BenchmarkStopWhileClientsWatch(b *testing.B) {
	for name, ports := range map[string]func([]uint16) []uint16{
		"waiting for them": func([]uint16) []uint16 { return nil },
		"cutting them off": func(ports []uint16) []uint16 { return ports },
	} {
		b.Run(name, func(b *testing.B) {
			cfg, client := realEtcd(b)
			cfg.ClientPorts = ports(cfg.ClientPorts)
			s, err := New(b.Context(), Options{Dir: b.TempDir(), StopTimeout: testwait.Limit})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = s.Close(context.Background()) })
			for range b.N {
				b.StopTimer()
				if err := s.Start(b.Context(), cfg); err != nil {
					b.Fatal(err)
				}
				testwait.Until(b, "etcd to serve", func() bool { return serves(b, client) })
				watch(b, client)
				b.StartTimer()
				if err := s.Stop(b.Context()); err != nil {
					b.Fatal(err)
				}
				if how := s.Status().LastExit; !strings.HasPrefix(how, "signal: terminated") {
					b.Errorf("etcd ended with %s", how)
				}
			}
		})
	}
}

func TestRealEtcdThatIsKilledServesAgain(t *testing.T) {
	cfg, client := realEtcd(t)
	s, out := supervise(t, Options{})
	start(t, s, cfg)
	healthy := func() bool { return serves(t, client) }
	// It serves before it takes signals, and says this after it does.
	takesSignals := func(processes int) {
		t.Helper()
		testwait.Until(t, "etcd to take signals", func() bool {
			return strings.Count(strings.Join(out.all(), "\n"), `"notifying init daemon"`) == processes
		})
	}
	testwait.Until(t, "etcd to serve", healthy)
	takesSignals(1)

	old := s.Status().PID
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "a new process", func() bool { pid := s.Status().PID; return pid != 0 && pid != old })
	testwait.Until(t, "etcd to serve again", healthy)
	takesSignals(2)

	if err := s.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if st := s.Status(); !strings.HasPrefix(st.LastExit, "signal: terminated") &&
		!strings.HasPrefix(st.LastExit, "exit status 0") {
		t.Errorf("etcd did not end in good order: %s", st.LastExit)
	}
	if healthy() {
		t.Error("something still serves after Stop")
	}
	if !strings.Contains(strings.Join(out.all(), "\n"), "received signal") {
		t.Error("etcd's log does not show the signal")
	}
}
