package hazards

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

// Whatever happens to the list of members, a healthy history leaves no hazard: a
// member joins as a learner, is promoted, changes its address, and is removed, once
// with all of it in the log and once with raft snapshots in between; a member that
// came by a snapshot is looked at too, and one that was restored.
func TestHistoryOfMembers(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		for _, count := range []string{"10000", "10"} {
			t.Run(count, func(t *testing.T) { history(t, bin, count) })
		}
	})
}

func history(t *testing.T, bin etcdbin.Binaries, count string) {
	a, b := etcdtest.New(t, "a"), etcdtest.New(t, "b")
	c := serve(t, a, bin, "--snapshot-count="+count, "--strict-reconfig-check=false")
	write(t, c, 30)
	added, err := c.MemberAddAsLearner(t.Context(), []string{b.PeerURL})
	if err != nil {
		t.Fatal(err)
	}
	// A second learner is refused, when its change is in the log already, and comes later.
	second := []string{"http://127.0.0.1:2"}
	_, err = c.MemberAddAsLearner(t.Context(), second)
	if err == nil || !strings.Contains(err.Error(), "too many learner") {
		t.Fatalf("a second learner: %v", err)
	}
	b.Start(t, bin, "--initial-cluster="+etcdtest.Initial(a, b), "--initial-cluster-state=existing",
		"--snapshot-count="+count)
	for _, err = c.MemberPromote(t.Context(), added.Member.ID); err != nil; {
		if !strings.Contains(err.Error(), "in sync") {
			t.Fatal(err)
		}
		_, err = c.MemberPromote(t.Context(), added.Member.ID)
	}
	write(t, c, 30)
	clean(t, a, b)
	late, err := c.MemberAddAsLearner(t.Context(), second)
	if err != nil {
		t.Fatal(err)
	}
	write(t, c, 30)
	clean(t, a, b)
	if _, err = c.MemberRemove(t.Context(), late.Member.ID); err != nil {
		t.Fatal(err)
	}
	write(t, c, 30)
	clean(t, a, b)
	if _, err = c.MemberUpdate(t.Context(), added.Member.ID, []string{b.PeerURL, "http://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	write(t, c, 30)
	clean(t, a, b)
	if _, err = c.MemberRemove(t.Context(), added.Member.ID); err != nil {
		t.Fatal(err)
	}
	b.Kill()
	write(t, c, 30)
	clean(t, a)
	restored(t, bin, a)
	a.Kill()
	clean(t, a)
	serve(t, a, bin, "--force-new-cluster")
	clean(t, a)
}

// restored restores a snapshot, and runs a member on it.
func restored(t *testing.T, bin etcdbin.Binaries, from *etcdtest.Member) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "snapshot")
	r := etcdtest.New(t, "r")
	tools := filepath.Dir(bin.Etcd)
	for _, argv := range [][]string{
		{filepath.Join(tools, "etcdctl"), "--endpoints=" + from.ClientURL, "snapshot", "save", file},
		{filepath.Join(tools, "etcdutl"), "snapshot", "restore", file, "--name=r", "--data-dir=" + r.DataDir,
			"--initial-cluster=" + etcdtest.Initial(r), "--initial-advertise-peer-urls=" + r.PeerURL},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	clean(t, r)
	serve(t, r, bin)
	clean(t, r)
	r.Kill()
}

// clean says what of the members' data differs, or cannot be determined.
func clean(t *testing.T, members ...*etcdtest.Member) {
	t.Helper()
	for _, m := range members {
		for _, h := range Examine(datadir.At(m.DataDir)) {
			if h.State == cluster.HazardUnknown || h.State == cluster.HazardPresent && h.Kind != cluster.HazardOldLog {
				t.Errorf("%s: %s", m.Name, h)
			}
		}
	}
}

// A log that ends within a record is what a crash leaves, and what a running etcd
// has not written to its end yet. One that is damaged elsewhere proves nothing.
func TestDamagedLog(t *testing.T) {
	bin := etcdtest.Binaries(t, etcdtest.V36)
	t.Parallel()
	m := etcdtest.New(t, "a")
	write(t, serve(t, m, bin), 100)
	m.Stop(t) // one that is killed may have written less to its database than to its log
	files, err := filepath.Glob(datadir.At(m.DataDir).LogFiles())
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func([]byte) []byte{
		"":                      func(b []byte) []byte { return b },
		"the checksum is wrong": func(b []byte) []byte { b[300] ^= 1; return b },
		"the log ends at":       func(b []byte) []byte { return b[:2000] },
		"there is none":         func([]byte) []byte { return nil },
	} {
		path := filepath.Join(t.TempDir(), "wal")
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if b := damage(slices.Clone(whole)); b != nil {
			if err := os.WriteFile(filepath.Join(path, filepath.Base(files[0])), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, h := range Examine(datadir.Dir{Data: m.DataDir, WAL: path}) {
			if name == "" && h.State != cluster.HazardAbsent ||
				name != "" && (h.State != cluster.HazardUnknown || !strings.Contains(h.What, name)) {
				t.Errorf("%q: %s", name, h)
			}
		}
	}
}
