package run

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
)

// A realEtcd is a place with a real etcd.
type realEtcd struct {
	place
	data, client string
}

func (r realEtcd) healthy(t *testing.T) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.client+"/health", nil)
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

func newRealEtcd(t *testing.T, bin etcdbin.Binaries, data string) realEtcd {
	t.Helper()
	r := realEtcd{place: place{dir: t.TempDir(), etcd: bin.Etcd, env: filepath.Join(t.TempDir(), "etcd.env")}, data: data,
		client: "http://" + testport.Address(t)}
	peer := "http://" + testport.Address(t)
	env, err := etcdconf.Env(etcdconf.Member{
		Name: "a", Version: bin.Version, Token: "t", State: etcdconf.StateNew, DataDir: data,
		Peers:   []cluster.InitialMember{{Name: "a", PeerURLs: []string{peer}}},
		URLs:    cluster.URLs{Peer: []string{peer}, Client: []string{r.client}},
		Address: "127.0.0.1",
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := initfiles.EnvFile(env)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.env, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRealEtcd is the life of an etcd of each version that is run: ready, its supervisor
// killed, back on the same data, stopped.
func TestRealEtcd(t *testing.T) {
	f := etcdtest.Finder(t)
	for _, version := range etcdtest.Managed() {
		t.Run(version.String(), func(t *testing.T) {
			bin, err := f.Find(version)
			if err != nil {
				t.Fatal(err)
			}
			r := newRealEtcd(t, bin, filepath.Join(t.TempDir(), "data"))
			first := run(t, nil, r.args()...)
			first.awaits(t, "is ready")
			if !r.healthy(t) {
				t.Error("it says that it is ready, and is not healthy")
			}
			first.signal(t, syscall.SIGKILL)
			first.wait(t)
			second := run(t, nil, r.args()...)
			second.awaits(t, "is ready")
			if !r.healthy(t) {
				t.Error("it is not back")
			}
			// Another one that knows nothing of the first does not get the data.
			third := newRealEtcd(t, bin, r.data)
			other := run(t, nil, third.args()...)
			other.awaits(t, "is not ready yet")
			for range 100 {
				if !r.healthy(t) || strings.Contains(other.err.String(), "is ready") {
					t.Fatal("two of them use the same data")
				}
			}
			second.signal(t, syscall.SIGTERM)
			if code := second.wait(t); code != 0 {
				t.Errorf("code %d", code)
			}
			if r.healthy(t) {
				t.Error("something still serves")
			}
			other.signal(t, syscall.SIGTERM)
			if code := other.wait(t); code != 0 {
				t.Errorf("code %d", code)
			}
		})
	}
}
