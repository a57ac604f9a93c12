//go:build e2e

package machine

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

const v3521 = etcdtest.V3521

// A rollout by new machines, as EKS Distro's versions go: each joins the older cluster,
// is checked, and votes. Then a controller removes the old ones.
func TestNewMachinesOfTheNextMinorVersion(t *testing.T) {
	t.Parallel()
	for _, version := range []string{etcdtest.V3612, v36} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			rollout(t, v3521, version)
		})
	}
}

// rollout replaces two machines of an old version by new ones. A machine that names no
// version gets that of the cluster.
func rollout(t *testing.T, old, version string) {
	t.Helper()
	hosts := newHosts(func(name string) *host { return newHost(t, name, old) }, 4)
	hosts[1].version, hosts[1].binaries = "", etcdDir(t, old)
	found(hosts[:2]...)
	if got := hosts[1].serves(); got != old {
		t.Errorf("without a version, etcd %s joined", got)
	}
	hosts[0].put("kept", "x")
	for _, h := range hosts[2:] {
		h.version, h.binaries = version, etcdDir(t, version)
		h.copyCA(hosts[0])
		r := h.run("join", hosts[0].clientURL())
		if r.code != 0 || !strings.Contains(r.stderr, "EtcdPatch") {
			t.Fatalf("it does not join with a warning: %s", r)
		}
	}
	for _, h := range hosts[:2] {
		hosts[2].removeMember(h.name)
		h.kill()
	}
	hosts[2].wantVoters("c", "d")
	if got := hosts[3].serves(); got != version {
		t.Errorf("etcd %s runs", got)
	}
	wantKeys(map[string]string{"kept": "x"}, hosts[2:]...)
}

// A member that only the database knows would come back with 3.6: the upgrade in
// place is refused before anything is installed. Etcdctl of 3.4 has left it there: it
// restores what was taken from one member for another, and keeps the first one's entry.
func TestZombieHoldsTheUpgrade(t *testing.T) {
	t.Parallel()
	h := newHost(t, "a", v3521)
	h.ok("init")
	h.put("kept", "x")
	h.kill()
	restoreWith34(t, h)
	h.version, h.binaries = v36, etcdDir(t, v36)
	h.fails(3, []string{"version-hazard", "only the database has", "--accept-version-risk"}, "init")
	h.fails(3, []string{"members", "present", "only the database has"}, "upgrade", "check", "--to="+v36)
	h.ok("init", "--version="+v3521, "--binaries-dir="+etcdDir(t, v3521))
}

// restoreWith34 puts the data of a host in place of itself, as that of another cluster.
func restoreWith34(t *testing.T, h *host) {
	t.Helper()
	before := h.path("data") + ".before"
	if err := os.Rename(h.path("data"), before); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(etcdDir(t, "3.4.25"), "etcdctl"), "snapshot", "restore",
		filepath.Join(before, "member", "snap", "db"), "--skip-hash-check", "--name="+h.name, "--data-dir="+h.path("data"),
		"--initial-cluster="+h.name+"="+h.peerURL(), "--initial-cluster-token=restored",
		"--initial-advertise-peer-urls="+h.peerURL()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// Requests of the v2 store in the log of 3.5 would end 3.6 with a panic. The same command
// has the member take a raft snapshot first.
func TestALogWithRequestsOfTheV2Store(t *testing.T) {
	t.Parallel()
	h := newHost(t, "a", v35)
	h.ok("init", "--etcd-flag=enable-v2=true")
	h.put("kept", "x")
	for _, method := range []string{http.MethodPut, http.MethodDelete} {
		h.v2(method, "/gone", "value=x")
	}
	h.version, h.binaries = v36, etcdDir(t, v36)
	h.fails(3, []string{"v2-log", "present", "take a raft snapshot"}, "upgrade", "check", "--to="+v36)
	if r := h.run("init"); r.code != 0 || !strings.Contains(r.stderr, "take a raft snapshot") {
		t.Fatalf("no raft snapshot is forced: %s", r)
	}
	if got := h.serves(); got != v36 {
		t.Errorf("etcd %s runs", got)
	}
	wantKeys(map[string]string{"kept": "x"}, h)
}

// v2 sends a request of the v2 API.
func (h *host) v2(method, key, form string) {
	h.t.Helper()
	c := h.http("etcdctl-etcd-client")
	defer c.CloseIdleConnections()
	eventually(h.t, commandTime, method+" "+key, func() error {
		req, err := http.NewRequestWithContext(h.t.Context(), method, h.clientURL()+"/v2/keys"+key, strings.NewReader(form))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r, err := c.Do(req)
		if err != nil {
			return err
		}
		if err = r.Body.Close(); r.StatusCode >= 300 {
			err = errors.New(r.Status)
		}
		return err
	})
}
