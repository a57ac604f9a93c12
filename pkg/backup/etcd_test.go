package backup_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/store"
)

var _ backup.Snapshotter = clientv3.Maintenance(nil)

// installed returns the directories etcd-v<version> in the directories that
// ETCDADM_ETCD_DIR lists, and skips the test if there is none.
func installed(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, dir := range filepath.SplitList(os.Getenv("ETCDADM_ETCD_DIR")) {
		matches, err := filepath.Glob(filepath.Join(dir, "etcd-v*"))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, matches...)
	}
	if len(found) == 0 {
		t.Skip("no etcd: ETCDADM_ETCD_DIR lists no directory with etcd-v<version>/etcd")
	}
	return found
}

// start runs an etcd on sockets in a directory of its own, and returns a client
// once it answers.
func start(t *testing.T, bin string) *clientv3.Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(filepath.Join(bin, "etcd"), "--data-dir=data", "--name=a",
		"--listen-client-urls=unix://client:1", "--advertise-client-urls=http://127.0.0.1:1",
		"--listen-peer-urls=unix://peer:1", "--initial-advertise-peer-urls=http://127.0.0.1:2",
		"--initial-cluster=a=http://127.0.0.1:2")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("etcd said:\n%s", log.String())
		}
		os.RemoveAll(dir)
	})
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + dir + "/client:1"}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		try, stop := context.WithTimeout(ctx, time.Second)
		_, err := client.Put(try, "ready", "yes")
		stop()
		if err == nil {
			return client
		}
		if ctx.Err() != nil {
			t.Fatalf("etcd does not answer: %v", err)
		}
	}
}

// A backup of a running etcd is restored by etcd's own tool, which checks the
// digest too.
func TestRealEtcd(t *testing.T) {
	for _, bin := range installed(t) {
		_, text, _ := strings.Cut(filepath.Base(bin), "etcd-v")
		version, err := etcdversion.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(text, func(t *testing.T) {
			client, ctx := start(t, bin), t.Context()
			for i := range 200 {
				if _, err := client.Put(ctx, fmt.Sprint("key-", i), strings.Repeat("value", 1000)); err != nil {
					t.Fatal(err)
				}
			}
			s, err := store.Open(ctx, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			pair := identity(t)
			sign, trusted := signer(t)
			for _, o := range []backup.TakeOptions{{}, {Compression: backup.Zstd, Recipients: pair.to, Signer: sign}} {
				o.Source, o.Store, o.Info = client, s, backup.Info{EtcdVersion: version}
				b, err := backup.Take(ctx, o)
				if err != nil {
					t.Fatal(err)
				}
				dir := t.TempDir()
				file, err := os.Create(filepath.Join(dir, "snapshot.db"))
				if err != nil {
					t.Fatal(err)
				}
				got, err := backup.Fetch(ctx, s, b.Name, file, backup.FetchOptions{Keys: pair.keys, Trusted: trusted, RequireSignature: o.Signer != nil})
				if err != nil || got.Content.Size < 1_000_000 {
					t.Fatalf("fetched %d bytes, %v", got.Content.Size, err)
				}
				if err := file.Close(); err != nil {
					t.Fatal(err)
				}
				restores(t, filepath.Join(bin, "etcdutl"), file.Name())
			}
		})
	}
}

// restores checks that etcd's own tool takes a snapshot for whole, and restores it.
func restores(t *testing.T, tool, file string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), tool, "snapshot", "restore", file, "--data-dir="+t.TempDir()+"/data").CombinedOutput()
	if err != nil {
		t.Fatalf("restore: %v\n%s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), tool, "snapshot", "status", file).CombinedOutput()
	// A hash, the revision, the number of keys and the size. Revision 1 is that
	// of an empty store.
	if field := strings.Split(string(out), ", "); err != nil || len(field) < 4 || field[1] != "202" {
		t.Errorf("status: %v\n%s", err, out)
	}
}

// A snapshot whose source dies leaves nothing.
func TestRealEtcdThatDies(t *testing.T) {
	client, ctx := start(t, installed(t)[0]), t.Context()
	s, err := store.Open(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := backup.Take(ctx, backup.TakeOptions{Source: client, Store: s, Info: info()}); err == nil {
		t.Errorf("took %+v of nothing", b)
	}
	isEmpty(t, s)
}
