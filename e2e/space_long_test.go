//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/e2e/harness"
)

// free returns how many bytes can be written below dir.
func free(t *testing.T, dir string) int64 {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		t.Fatal(err)
	}
	return int64(s.Bavail) * s.Bsize
}

// A spare has room when its member begins, and somebody else fills the disk before the
// data has come. It is not tried again and again: the hold says what it lacks. It joins
// when the room is there again.
func TestALearnerRunsOutOfSpace(t *testing.T) {
	if err := harness.DiskError(); err != nil {
		t.Skipf("no small disk can be made: %v", err)
	}
	// A learner that gets 70 MB on a busy machine needs time: a third that is given up
	// rests for long.
	c := start(t, "--learner-timeout=30s", "--replace-grace=5s")
	small := c.Node("c")
	c.NewDisk(small, 900) // the first try leaves its data
	c.Bootstrap(2, v36, "a", "b")
	client, err := c.Node("a").Client()
	if err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 1<<20)
	for i := range 60 {
		for j := range value {
			value[j] = byte(rand.Uint32()) // a file system may keep zeros in no room
		}
		c.Eventually(harness.Soon, "a large key is written", func(ctx context.Context) error {
			_, err := client.Put(ctx, fmt.Sprint("large/", i), string(value))
			return err
		})
	}
	w := c.Write()
	begun, open := small.GateEtcd(v36)
	small.Start()
	small.WaitSaid(harness.Soon, 0, "msg=running")
	c.SetSpec(3, v36)
	c.Eventually(harness.Soon, "the member on c begins", func(context.Context) error {
		_, err := os.Stat(begun)
		return err
	})
	ballast := filepath.Join(filepath.Dir(small.Dir), "ballast")
	fill(t, ballast, free(t, small.Dir)-(30<<20))
	if err := os.WriteFile(open, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	said := func() error {
		r, err := c.Status()
		if err != nil {
			return err
		}
		for _, h := range r.Holds {
			if (h.Reason == "no-spare" || h.Reason == "disk-full") && strings.Contains(h.Text, "c ") &&
				strings.Contains(h.Text, " free") {
				return nil
			}
		}
		return fmt.Errorf("the holds are %v", r.Holds)
	}
	added := func() (n int) {
		history, err := c.History()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range history {
			if strings.Contains(e.Line, "member add-learner") && strings.Contains(e.Line, small.Address) {
				n++
			}
		}
		return n
	}
	c.Eventually(harness.Soon, "a hold names c", func(context.Context) error { return said() })
	tried := added()
	c.Eventually(harness.Soon, "the learner is given up", func(context.Context) error {
		members, err := c.Members(t.Context())
		if err == nil && len(members) != 2 {
			err = fmt.Errorf("%d members", len(members))
		}
		return err
	})
	w.WaitMore(harness.Soon, 1000)
	// What it has set aside makes room for one more try, in which nothing is lacking at first.
	c.Eventually(harness.Soon, "a hold names c again", func(context.Context) error { return said() })
	if now := added(); now > tried+1 || now > 3 {
		t.Errorf("c was made a learner %d times, and %d times until the hold", now, tried)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	c.WaitNames(2*harness.Soon, "a", "b", "c")
	w.WaitMore(harness.Soon, 10)
}

// fill makes a file of that many bytes, which take room.
func fill(t *testing.T, path string, bytes int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, bytes); err != nil {
		t.Fatal(err)
	}
}

// memory is how much a daemon may have more than at rest, whatever is in the store.
const memory = 256 << 20

// A store is filled with large and with many objects, everywhere where a daemon looks.
// Daemons that may have only so much memory stay, and so do their etcds; what is theirs
// is read all the same.
func TestAHostileStoreAgainstLittleMemory(t *testing.T) {
	c := start(t, quick...)
	c.Bootstrap(3, v36, "a", "b", "c")
	w := c.Write()
	pids := map[string]int{}
	for _, n := range c.Nodes() {
		data := vmData(t, n.PID())
		limit := unix.Rlimit{Cur: data + memory, Max: data + memory}
		if err := unix.Prlimit(n.PID(), unix.RLIMIT_DATA, &limit, nil); err != nil {
			t.Fatal(err)
		}
		pids[n.Name] = n.EtcdPID()
	}
	large := []byte(`{"name":"` + strings.Repeat("x", 4<<20) + `"}`)
	for _, kind := range []string{"requests", "nodes", "closed", "incarnations", "orders", "spec", "other"} {
		for i := range 40 {
			plant(t, filepath.Join(c.Store, "control", kind, fmt.Sprint("hostile-", 100+i)), large)
		}
		for i := range 2000 {
			plant(t, filepath.Join(c.Store, "control", kind, fmt.Sprint("many-", i)), []byte("{}"))
		}
	}
	for i := range 2000 {
		plant(t, filepath.Join(c.Store, fmt.Sprintf("2026-01-01T00:00:00Z-%06d", i), "_etcd_backup.meta"), []byte("{}"))
	}
	plant(t, filepath.Join(c.Store, "2026-01-02T00:00:00Z-000001", "_etcd_backup.meta"), large)
	w.WaitMore(harness.Soon, 500)
	for _, n := range c.Nodes() {
		if pid := n.EtcdPID(); pid != pids[n.Name] {
			t.Errorf("the etcd of %s was process %d and is %d", n.Name, pids[n.Name], pid)
		}
	}
	c.SetSpec(1, v36)
	c.WaitVoters(2*harness.Soon, 1)
	c.SetSpec(3, v36)
	c.WaitVoters(2*harness.Soon, 3)
	if _, err := c.Ctl("take-backup", "--wait"); err != nil {
		t.Error(err)
	}
	w.WaitMore(harness.Soon, 10)
	for _, n := range c.Nodes() {
		if !n.Running() {
			t.Errorf("the daemon %s has ended", n.Name)
		}
	}
}

func plant(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// vmData returns how much memory of its own a process has asked for, in bytes: what
// RLIMIT_DATA counts.
func vmData(t *testing.T, pid int) uint64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kb uint64
		if n, _ := fmt.Sscanf(line, "VmData: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	t.Fatal("VmData is not reported")
	return 0
}
