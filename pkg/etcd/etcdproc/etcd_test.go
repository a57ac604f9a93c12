package etcdproc

import (
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

func TestRealEtcdThatIsKilledServesAgain(t *testing.T) {
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
	s, out := supervise(t, Options{})
	start(t, s, Config{Path: bin.Etcd, Env: env})
	healthy := func() bool {
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
