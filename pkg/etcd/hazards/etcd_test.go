package hazards

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// want compares what is found with what is to be present; all else must be proved
// absent.
func want(t *testing.T, m *etcdtest.Member, present ...cluster.HazardKind) []cluster.Hazard {
	t.Helper()
	var found []cluster.Hazard
	// A member that runs may not have written yet what it has said.
	testwait.For(t, "the hazards", func(context.Context) (err error) {
		found = Examine(datadir.At(m.DataDir))
		for _, h := range cluster.NoHazards() {
			kind, state := h.Kind, h.State
			if slices.Contains(present, kind) {
				state = cluster.HazardPresent
			}
			if got := cluster.HazardOf(found, kind); got.State != state {
				err = errors.Join(err, fmt.Errorf("%s, want %s", got, state))
			}
		}
		return err
	})
	return found
}

func write(t *testing.T, c *clientv3.Client, n int) {
	t.Helper()
	for i := range n {
		if _, err := c.Put(t.Context(), fmt.Sprintf("key %d", i), "value"); err != nil {
			t.Fatal(err)
		}
	}
}

// serve starts a member and waits until it serves.
func serve(t *testing.T, m *etcdtest.Member, bin etcdbin.Binaries, flags ...string) *clientv3.Client {
	t.Helper()
	m.Start(t, bin, flags...)
	c := etcdtest.Dial(t, m)
	etcdtest.AwaitRead(t, c)
	return c
}

// A member is clean while it runs, while it writes, and after it has been killed,
// before and behind its first raft snapshot.
func TestCleanMember(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		m := etcdtest.New(t, "a")
		c := serve(t, m, bin, "--snapshot-count=100")
		old := []cluster.HazardKind{cluster.HazardOldLog}
		if bin.Version.AtLeast(3, 6) {
			old = nil
		}
		write(t, c, 10)
		want(t, m, old...)
		var observing sync.WaitGroup
		observing.Go(func() {
			for range 20 {
				for _, h := range Examine(datadir.At(m.DataDir)) {
					if h.State == cluster.HazardUnknown || h.State == cluster.HazardPresent && h.Kind != cluster.HazardOldLog {
						t.Errorf("while it writes: %s", h)
					}
				}
			}
		})
		write(t, c, 1500)
		observing.Wait()
		want(t, m)
		m.Kill()
		want(t, m)
	})
}

// v2 makes a request to the v2 API.
func v2(t *testing.T, m *etcdtest.Member, method, path string) {
	t.Helper()
	body := url.Values{"value": {"v"}}
	r, err := http.NewRequestWithContext(t.Context(), method, m.ClientURL+"/v2/keys"+path+"?"+body.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode > 299 {
		t.Fatalf("%s %s: %s, %v", method, path, answer.Status, err)
	}
}

// agrees compares with etcd's own check, whose answer is an exit code.
func agrees(t *testing.T, bin etcdbin.Binaries, m *etcdtest.Member) {
	t.Helper()
	out, err := exec.Command(filepath.Join(filepath.Dir(bin.Etcd), "etcdutl"), "check", "v2store", "--data-dir",
		m.DataDir).CombinedOutput()
	found := Examine(datadir.At(m.DataDir))
	mine := cluster.HazardOf(found, cluster.HazardV2Content).State == cluster.HazardPresent ||
		cluster.HazardOf(found, cluster.HazardV2Log).State == cluster.HazardPresent
	if mine != (err != nil) {
		t.Errorf("etcdutl says %v, %s\nhere it is %v", err, out, found)
	}
}

// Keys of the v2 store are in the log first, and in the snapshot then; they are
// gone when they have been deleted and a snapshot was made. etcdutl agrees each
// time, and so does etcd 3.6.
func TestKeysOfTheV2Store(t *testing.T) {
	bin := etcdtest.Binaries(t, "3.5.35")
	t.Parallel()
	m := etcdtest.New(t, "a")
	deleted := false // by the log, all that is there
	step := func(count string, act func(*clientv3.Client), present ...cluster.HazardKind) {
		t.Helper()
		c := serve(t, m, bin, "--enable-v2", "--snapshot-count="+count)
		act(c)
		h := cluster.HazardOf(want(t, m, present...), cluster.HazardV2Content)
		if h.Deleted != deleted {
			t.Errorf("deleted is %v, want %v: %s", h.Deleted, deleted, h)
		}
		m.Kill()
		agrees(t, bin, m)
	}
	nothing := func(*clientv3.Client) {}
	step("1000", nothing, cluster.HazardOldLog)
	step("1000", func(*clientv3.Client) { v2(t, m, "PUT", "/apps/one") }, cluster.HazardOldLog, cluster.HazardV2Log)
	step("10", func(c *clientv3.Client) { write(t, c, 30) }, cluster.HazardV2Content)
	starts36(t, m, "custom content in v2store")
	step("1000", func(*clientv3.Client) { v2(t, m, "DELETE", "/apps/one") },
		cluster.HazardOldLog, cluster.HazardV2Log, cluster.HazardV2Content)
	step("10", func(c *clientv3.Client) { write(t, c, 30) }, cluster.HazardV2Content) // the directory is still there
	deleted = true
	step("1000", func(*clientv3.Client) { v2(t, m, "DELETE", "/apps?dir=true&recursive=true&x=") },
		cluster.HazardOldLog, cluster.HazardV2Log, cluster.HazardV2Content)
	deleted = false
	step("1000", func(*clientv3.Client) { v2(t, m, "PUT", "/apps/two") },
		cluster.HazardOldLog, cluster.HazardV2Log, cluster.HazardV2Content)
	deleted = true
	step("1000", func(*clientv3.Client) { v2(t, m, "DELETE", "/apps?dir=true&recursive=true&x=") },
		cluster.HazardOldLog, cluster.HazardV2Log, cluster.HazardV2Content)
	deleted = false
	step("10", func(c *clientv3.Client) { write(t, c, 30) })
	starts36(t, m, "")
}

// starts36 starts 3.6 on a copy of the data, and compares its last words.
func starts36(t *testing.T, m *etcdtest.Member, words string) {
	t.Helper()
	bin := etcdtest.Binaries(t, etcdtest.V36)
	n := copied(t, m)
	if words == "" {
		serve(t, n, bin)
		n.Kill()
		return
	}
	out, err := exec.Command(bin.Etcd, "--data-dir="+n.DataDir, "--listen-client-urls="+m.ClientURL,
		"--advertise-client-urls="+m.ClientURL, "--listen-peer-urls="+m.PeerURL).CombinedOutput()
	if err == nil || !strings.Contains(string(out), words) {
		t.Errorf("etcd 3.6 ends with %v: %s", err, out)
	}
}

// bury puts a member into the database that neither the log nor the snapshot knows.
func bury(t *testing.T, m *etcdtest.Member) {
	t.Helper()
	db, err := bbolt.Open(datadir.At(m.DataDir).Database(), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("members")).Put([]byte("dead"),
			[]byte(`{"id":57005,"peerURLs":["http://127.0.0.1:1"],"name":"zombie"}`))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// A member that only the database knows is not in 3.5's list, and comes back with
// 3.6. A patch of 3.5 that repairs it when it starts leaves nothing to be found.
func TestZombie(t *testing.T) {
	bin := etcdtest.Binaries(t, "3.5.35")
	t.Parallel()
	m := etcdtest.New(t, "a")
	serve(t, m, bin)
	m.Kill()
	want(t, m, cluster.HazardOldLog)
	bury(t, m)
	found := want(t, m, cluster.HazardOldLog, cluster.HazardMembers)
	if h := cluster.HazardOf(found, cluster.HazardMembers); !strings.Contains(h.What, "zombie") {
		t.Errorf("it says %s", h)
	}
	n := copied(t, m)
	n.Start(t, etcdtest.Binaries(t, etcdtest.V36))
	awaitMember(t, etcdtest.Dial(t, n), "zombie")
	n.Kill()
	serve(t, m, bin)
	for cluster.HazardOf(Examine(datadir.At(m.DataDir)), cluster.HazardMembers).State != cluster.HazardAbsent {
		if t.Context().Err() != nil {
			return
		}
	}
	want(t, m, cluster.HazardOldLog)
}

// awaitMember waits until somebody is in the list, which without a quorum is read
// as it stands.
func awaitMember(t *testing.T, c *clientv3.Client, name string) {
	t.Helper()
	for t.Context().Err() == nil {
		list, err := c.MemberList(t.Context(), clientv3.WithSerializable())
		if err == nil && slices.ContainsFunc(list.Members, func(m *etcdserverpb.Member) bool { return m.Name == name }) {
			return
		}
	}
}
