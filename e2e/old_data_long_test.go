//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/e2e/harness"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

// writeOld writes a key of etcd 2 once it serves.
func writeOld(t *testing.T, c *harness.Cluster, m *etcdtest.Member, key, value string) {
	t.Helper()
	c.Eventually(harness.Soon, "a key of etcd 2", func(ctx context.Context) error {
		body := strings.NewReader(url.Values{"value": {value}}.Encode())
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, m.ClientURL+"/v2/keys"+key, body)
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		return r.Body.Close()
	})
}

// A daemon that finds the data of an etcd 2 where its own should be starts nothing and
// overwrites nothing. The line that it says makes a backup, and the backup a cluster.
func TestDataOfEtcd2(t *testing.T) {
	t.Parallel()
	c := start(t, quick...)
	n := c.Node("a")
	m := etcdtest.New(t, "a")
	m.Flags, m.DataDir = nil, n.Dir
	m.Start(t, etcdtest.Binaries(t, "2.3.8"))
	writeOld(t, c, m, "/registry/pods/a", "x")
	m.Stop(t)
	c.SetSpec(1, v36)
	n.Start()
	hold := c.WaitHold(harness.Soon, "cluster-lost")
	line := "etcdadm migrate --data-dir=" + n.Dir + " --backup-store=STORE"
	if !strings.Contains(hold, line) {
		t.Fatalf("the hold is %q", hold)
	}
	if logs, err := filepath.Glob(filepath.Join(n.Dir, "member", "wal", "*.wal")); err != nil || len(logs) == 0 {
		t.Errorf("the old log has gone: %v", err)
	}
	if _, err := os.Stat(filepath.Join(n.Dir, "data")); err == nil {
		t.Error("there is a new data directory beside the old data")
	}
	line = strings.Replace(line, "STORE", c.StoreURL(), 1)
	out, err := c.Program("etcdadm", append(strings.Fields(line)[1:], "--etcd-version=2.3.8", "-o", "json")...)
	if err != nil {
		t.Fatal(out, err)
	}
	var made struct{ Backup string }
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &made); err != nil {
		t.Fatal(out, err)
	}
	n.Kill()
	byThePageOfOldData(t, c, n.Dir)
	if err := os.Rename(filepath.Join(n.Dir, "member"), filepath.Join(t.TempDir(), "member")); err != nil {
		t.Fatal(err)
	}
	n.Start()
	if out, err := c.Ctl("restore-backup", made.Backup); err != nil {
		t.Fatal(out, err)
	}
	c.WaitVoters(harness.Soon, 1)
	client, err := c.NewClient(n)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c.Eventually(harness.Soon, "the key of etcd 2", func(ctx context.Context) error {
		r, err := client.Get(ctx, "/registry/pods/a")
		if err == nil && (r.Count != 1 || string(r.Kvs[0].Value) != "x") {
			t.Fatalf("there is %v", r.Kvs)
		}
		return err
	})
}

// byThePageOfOldData makes a backup of the data of a stopped etcd 2.3.8, and restores it, by the lines of the
// page, and reads what etcd has then.
func byThePageOfOldData(t *testing.T, c *harness.Cluster, data string) {
	t.Helper()
	const page, heading = "docs/etcd2.md", "# Data of etcd 2 and of early etcd 3"
	block := strings.ReplaceAll(harness.Block(t, "..", page, heading, 0, 1), "\\\n", " ")
	lines := strings.Split(strings.TrimSpace(block), "\n")
	m := etcdtest.New(t, "restored")
	opt, restored, bin := t.TempDir(), filepath.Join(t.TempDir(), "etcd"), etcdtest.Binaries(t, v36)
	from := etcdtest.Binaries(t, "2.3.8")
	for name, of := range map[string]string{"old/etcd-v2.3.8": from.Etcd, "etcd-v" + v36: bin.Etcd} {
		link := filepath.Join(opt, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(filepath.Dir(of), link)); err != nil {
			t.Fatal(err)
		}
	}
	texts := []string{"/var/etcd/data", data, "file:///mnt/etcd-store/main", "file://" + t.TempDir(), "=/opt", "=" + opt,
		"/var/lib/etcd", restored, "https://10.0.0.1:2380", m.PeerURL}
	env := append(os.Environ(), "PATH="+c.Bin+":"+os.Getenv("PATH"), "ETCDADM_ETCD_DIR="+c.EtcdDirs)
	out, err := shell(t, env, strings.NewReplacer(texts...).Replace(lines[0]))
	name := regexp.MustCompile(`20[0-9T:-]+Z-[0-9]+`).FindString(out)
	if err != nil || name == "" {
		t.Fatal(out, err)
	}
	texts = append(texts, "BACKUP", name)
	if _, err := shell(t, env, strings.NewReplacer(texts...).Replace(lines[1])); err != nil {
		t.Fatal(err)
	}
	m.DataDir = restored
	m.Start(t, bin)
	c.Eventually(harness.Soon, "the key of etcd 2", func(context.Context) error {
		out, err := shell(t, env, bin.Etcdctl+" --endpoints="+m.ClientURL+" get --print-value-only /registry/pods/a")
		if err == nil && strings.TrimSpace(out) != "x" {
			t.Fatalf("there is %q", out)
		}
		return err
	})
	m.Stop(t)
}
