//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/testing/crashrun"
)

// What a Kubernetes API server relies on: what was written before the backup is
// there, what came later is not, a watch ends and never sees time run
// backwards, a lease still ends, and the revision only grows.
func TestRestore(t *testing.T) {
	t.Parallel()
	c := restoring(t)
	c.Bootstrap(3, v36, "a", "b", "c")
	put(t, c, "kept", "1")
	client, err := c.NewClient(c.Nodes()...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	lease, err := client.Grant(t.Context(), 20)
	if err != nil {
		t.Fatal(err)
	}
	put(t, c, "leased", "1", clientv3.WithLease(lease.ID))
	name := takeBackup(t, c)
	put(t, c, "kept", "2")
	seen := put(t, c, "late", "1")
	watch := client.Watch(t.Context(), "", clientv3.WithPrefix(), clientv3.WithRev(seen+1))

	out := ctl(t, c, "restore-backup", name, "--wait")
	if !strings.Contains(out, "added restore-backup command: timestamp:") {
		t.Errorf("it prints %s", out)
	}
	if v, _ := read(t, c, "kept"); v != "1" {
		t.Errorf("kept is %q", v)
	}
	v, revision := read(t, c, "late")
	if v != "" || revision <= seen {
		t.Errorf("late is %q, the revision %d, it was %d", v, revision, seen)
	}
	compacted(t, c, watch, seen)
	eventually(t, c, "the lease ends", func() error {
		if v, _ := read(t, c, "leased"); v != "" {
			return fmt.Errorf("leased is %q", v)
		}
		return nil
	})
	c.WaitNames(harness.Soon, "a", "b", "c")
	c.Write().WaitMore(harness.Soon, 10)
}

// However old what is restored, the revision goes on above all that was seen.
func TestRestoresOnlyGoForward(t *testing.T) {
	t.Parallel()
	c := restoring(t)
	c.Bootstrap(1, v36, "a")
	var names []string
	seen := int64(0)
	for _, v := range []string{"1", "2"} {
		put(t, c, "k", v)
		names = append(names, takeBackup(t, c))
	}
	for i, n := range []int{0, 1, 0, 0, 1} {
		queue(t, c, names[n], "--skip-backup")
		now := restored(t, c, "k", fmt.Sprint(n+1))
		if now <= seen {
			t.Errorf("restore %d begins with revision %d, %d was seen", i+1, now, seen)
		}
		seen = max(now, put(t, c, "other", fmt.Sprint(i)))
	}
}

// A restore into an etcd of the next minor version.
func TestRestoreIntoAnotherVersion(t *testing.T) {
	t.Parallel()
	for from, to := range map[string]string{v35: v36, v36: v37, v35 + " ": v37} {
		from = strings.TrimSpace(from)
		t.Run(from+" to "+to, func(t *testing.T) {
			t.Parallel()
			c := restoring(t)
			c.Bootstrap(1, from, "a")
			put(t, c, "k", "1")
			name := takeBackup(t, c)
			put(t, c, "k", "2")
			ctl(t, c, "--etcd-version="+to, "restore-backup", name)
			restored(t, c, "k", "1")
			c.Eventually(harness.Soon, "etcd "+to+" runs", func(ctx context.Context) error {
				s, err := c.Node("a").EtcdStatus(ctx)
				if err == nil && s.Version != to {
					err = fmt.Errorf("etcd %s runs", s.Version)
				}
				return err
			})
		})
	}
}

// From three members to one, and back.
func TestRestoreToAnotherSize(t *testing.T) {
	t.Parallel()
	c := restoring(t, quick...)
	c.Bootstrap(3, v36, "a", "b", "c")
	put(t, c, "k", "1")
	name := takeBackup(t, c)
	put(t, c, "k", "2")
	ctl(t, c, "--member-count=1", "restore-backup", name)
	restored(t, c, "k", "1")
	c.WaitVoters(harness.Soon, 1)
	c.Eventually(harness.Soon, "one etcd runs", func(context.Context) error { return running(c, 1) })
	c.SetSpec(3, v36)
	c.WaitNames(harness.Soon, "a", "b", "c")
	restored(t, c, "k", "1")
}

// Every disk is gone. Nothing happens by itself, a request brings it back.
func TestRestoreAfterTotalLoss(t *testing.T) {
	t.Parallel()
	c := restoring(t, quick...)
	c.Bootstrap(3, v36, "a", "b", "c")
	seen := put(t, c, "k", "1")
	name := takeBackup(t, c)
	for _, n := range c.Nodes() {
		n.LoseDisk()
	}
	for _, n := range c.Nodes() {
		n.Start()
	}
	c.WaitHold(harness.Soon, "cluster-lost")
	queue(t, c, name)
	if now := restored(t, c, "k", "1"); now <= seen {
		t.Errorf("the revision is %d, it was %d", now, seen)
	}
	c.WaitNames(harness.Soon, "a", "b", "c")
}

// Two machines of three are gone for good, and the operator says so.
func TestRestoreAfterLostQuorum(t *testing.T) {
	t.Parallel()
	c := restoredAlone(t)
	// They come back after all, with the data of the cluster that was.
	for _, n := range []string{"b", "c"} {
		c.Node(n).Start()
	}
	c.Eventually(harness.Soon, "one etcd runs", func(context.Context) error { return running(c, 1) })
	restored(t, c, "k", "2")
}

// Two machines of three are gone for good, and after the restore the third loses its disk, too: the two
// may run the cluster, until the operator says again that they do not.
func TestRestoreAfterAllIsLostOneByOne(t *testing.T) {
	t.Parallel()
	c := restoredAlone(t)
	name := takeBackup(t, c)
	c.Node("a").LoseDisk()
	c.Node("a").Start()
	c.WaitHold(harness.Soon, "cluster-lost")
	queue(t, c, name, "--lost=b,c")
	restored(t, c, "k", "2")
}

// restoredAlone is a cluster of three of which b and c were killed, restored on a alone: k is 1 in what
// was restored, and 2 since.
func restoredAlone(t *testing.T) *harness.Cluster {
	t.Helper()
	c := restoring(t, quick...)
	c.Bootstrap(3, v36, "a", "b", "c")
	put(t, c, "k", "1")
	name := takeBackup(t, c)
	for _, n := range []string{"b", "c"} {
		c.Node(n).Kill()
	}
	eventually(t, c, "nobody coordinates", func() error {
		if r, err := c.Status(); err != nil || !strings.Contains(fmt.Sprint(r.Holds), "quorum-lost") &&
			!strings.Contains(fmt.Sprint(r.Holds), "no-coordinator") {
			return fmt.Errorf("holds %v, %w", r.Holds, err)
		}
		return nil
	})
	ctl(t, c, "--member-count=1", "restore-backup", name, "--lost=b,c")
	restored(t, c, "k", "1")
	put(t, c, "k", "2")
	return c
}

// What cannot be restored is refused, with the reason, and nothing has happened
// to the cluster.
func TestRestoreRefused(t *testing.T) {
	t.Parallel()
	c := restoring(t)
	c.Bootstrap(1, v36, "a")
	put(t, c, "k", "1")
	name := takeBackup(t, c)
	put(t, c, "k", "2")
	before := c.ClusterIDs()
	data := filepath.Join(c.Store, name, "etcd.backup.gz")
	b, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(data, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, ask := range map[string]func() error{
		"snapshot is damaged": func() error {
			_, err := c.Ctl("restore-backup", name, "--wait", "--skip-backup")
			return err
		},
		// A command of the existing tool, which does not check whether there is one.
		"the store has no backup 2026-01-01T00:00:00Z-000001": func() error {
			now := time.Now().UTC()
			dir := filepath.Join(c.Store, "control", now.Format(time.RFC3339)+"-000000")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "_command.json"),
				fmt.Appendf(nil, `{"timestamp": "%d",  "restoreBackup":{"clusterSpec":{"memberCount":1,"etcdVersion":"3.6.16"},"backup":"2026-01-01T00:00:00Z-000001"}}`, now.UnixNano()), 0o600)
		},
	} {
		if err := ask(); err != nil && !strings.Contains(err.Error(), what) {
			t.Error(err)
		}
		eventually(t, c, "it is refused: "+what, func() error {
			records, err := filepath.Glob(filepath.Join(c.Store, "control/closed/*"))
			for _, r := range records {
				if b, _ := os.ReadFile(r); strings.Contains(string(b), what) {
					return nil
				}
			}
			return fmt.Errorf("refused: %v, %w", records, err)
		})
		restored(t, c, "k", "2")
	}
	eventually(t, c, "what was staged is gone", func() error {
		if left, _ := filepath.Glob(filepath.Join(c.Node("a").Dir, "restore/*")); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	if now := c.ClusterIDs(); len(now) != len(before) {
		t.Errorf("the clusters are %v, they were %v", now, before)
	}
}

// Backups of the existing tool have nothing but data and a marker, which it has
// written in two ways.
func TestRestoreOfTheExistingToolsBackups(t *testing.T) {
	t.Parallel()
	for form, marker := range map[string]string{
		"protojson": `{"etcdVersion":"3.6.16",  "timestamp":"1795132800",  "clusterSpec":{"memberCount":1,  "etcdVersion":"3.6.16"}}`,
		"jsonpb": "{\n  \"etcd_version\": \"3.6.16\",\n  \"timestamp\": 1795132800,\n  \"cluster_spec\": {\n    " +
			"\"member_count\": 1\n  }\n}",
	} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			c := restoring(t)
			c.Bootstrap(1, v36, "a")
			put(t, c, "k", "1")
			name := takeBackup(t, c)
			put(t, c, "k", "2")
			own, err := filepath.Glob(filepath.Join(c.Store, name, "_etcdadm*"))
			if err != nil || len(own) == 0 {
				t.Fatalf("%v, %v", own, err)
			}
			for _, f := range own {
				if err := os.Remove(f); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(c.Store, name, "_etcd_backup.meta"), []byte(marker), 0o600); err != nil {
				t.Fatal(err)
			}
			queue(t, c, name)
			restored(t, c, "k", "1")
		})
	}
}

// Each daemon kills itself at its first crash point of a name, in the middle of
// a restore. Started again, they finish it.
func TestCrashInARestore(t *testing.T) {
	t.Parallel()
	bin := crashPrograms(t)
	for _, point := range crashPointsOf(t, restoreCrash.MatchString) {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			o := options(t, quick...)
			o.Bin, o.Restored = bin, true
			c := harness.New(t.Context(), t, o)
			c.SetSpec(2, v36)
			for _, name := range []string{"a", "b"} {
				n := c.Node(name)
				n.MayEnd, n.Env = true, []string{crashrun.Variable + "=" + point}
				n.Start()
			}
			converge(t, c, 2)
			seen := put(t, c, "k", "1")
			var name string
			eventually(t, c, "a backup", func() error {
				if list := backups(t, c); len(list) > 0 {
					name = list[0]
					return nil
				}
				return errors.New("none")
			})
			put(t, c, "late", "1")
			queue(t, c, name, "--skip-backup")
			crashed := 0
			eventually(t, c, "the restore is done after "+point, func() error {
				crashed += restart(t, c)
				if out := ctl(t, c, "list-commands"); strings.Contains(out, name) {
					return errors.New(out)
				}
				if crashed == 0 {
					return errors.New("none has crashed")
				}
				return nil
			})
			converge(t, c, 2)
			if v, now := read(t, c, "late"); v != "" || now <= seen {
				t.Errorf("late is %q at revision %d, %d was seen", v, now, seen)
			}
			writes(t, c, c.Write())
		})
	}
}

// restoreCrash are the points that a restore always comes to.
var restoreCrash = regexp.MustCompile(`^(restore-(stage|switch)|member-start.before-adopt|quarantine|request-close)`)
