package hazards

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

// bornByRestore makes a member's data as etcdctl of 3.4 does of the snapshot of another
// member, which it leaves in the list of the database (etcd issue 20967).
func bornByRestore(t *testing.T, m, of *etcdtest.Member) {
	t.Helper()
	old := etcdtest.Binaries(t, "3.4.25")
	serve(t, of, old)
	file := filepath.Join(t.TempDir(), "snapshot")
	for _, args := range [][]string{
		{"--endpoints=" + of.ClientURL, "snapshot", "save", file},
		{
			"snapshot", "restore", file, "--name=" + m.Name, "--data-dir=" + m.DataDir,
			"--initial-cluster=" + etcdtest.Initial(m), "--initial-advertise-peer-urls=" + m.PeerURL,
		},
	} {
		if out, err := exec.Command(filepath.Join(filepath.Dir(old.Etcd), "etcdctl"), args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	of.Stop(t)
	serve(t, m, old)
	m.Stop(t)
}

// copied returns a member with a copy of the data of one that does not run.
func copied(t *testing.T, m *etcdtest.Member) *etcdtest.Member {
	t.Helper()
	n := *m
	n.DataDir = filepath.Join(t.TempDir(), "copy")
	if out, err := exec.Command("cp", "-r", m.DataDir, n.DataDir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return &n
}

// Etcd's own defect: a cluster that 3.4 restored has the members of the one before in its
// database, forever. 3.5 does not show them, and keeps them up to 3.5.25; with 3.6 they
// come back; a later patch of 3.5 takes them out.
func TestMembersThatAnOldRestoreLeft(t *testing.T) {
	between, repairs := etcdtest.Binaries(t, etcdtest.V3521), etcdtest.Binaries(t, "3.5.35")
	t.Parallel()
	m := etcdtest.New(t, "a")
	bornByRestore(t, m, etcdtest.New(t, "zombie"))
	c := serve(t, m, between)
	list, err := c.MemberList(t.Context())
	if err != nil || len(list.Members) != 1 {
		t.Errorf("3.5 shows %v, %v", list, err)
	}
	m.Stop(t)
	found := want(t, m, cluster.HazardOldLog, cluster.HazardMembers)
	if h := cluster.HazardOf(found, cluster.HazardMembers); !strings.Contains(h.What, "zombie") {
		t.Errorf("it says %s", h)
	}
	n := copied(t, m)
	n.Start(t, etcdtest.Binaries(t, etcdtest.V36))
	awaitMember(t, etcdtest.Dial(t, n), "zombie")
	n.Kill()
	serve(t, m, repairs)
	want(t, m, cluster.HazardOldLog)
}
