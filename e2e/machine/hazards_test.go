//go:build e2e

package machine

import (
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

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
// place is refused before anything is installed, also from a patch that is new
// enough, and done for who accepts it.
func TestZombieHoldsTheUpgrade(t *testing.T) {
	t.Parallel()
	h := newHost(t, "a", v3521)
	h.ok("init")
	h.put("kept", "x")
	h.kill()
	bury(t, h)
	h.version, h.binaries = v36, etcdDir(t, v36)
	h.fails(3, []string{"version-hazard", "zombie", "--accept-version-risk"}, "init")
	h.fails(3, []string{"members", "present", "zombie"}, "upgrade", "check", "--to="+v36)
	h.ok("init", "--version="+v3521, "--binaries-dir="+etcdDir(t, v3521))
}

func bury(t *testing.T, h *host) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(h.path("data"), "member", "snap", "db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("members")).Put([]byte("dead"),
			[]byte(`{"id":57005,"peerURLs":["http://127.0.0.1:1"],"name":"zombie"}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
