package backup_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

var _ backup.Snapshotter = clientv3.Maintenance(nil)

// A backup of a running etcd is restored by etcd's own tool, which checks the
// digest too.
func TestRealEtcd(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		client, ctx := etcdtest.Serve(t, bin), t.Context()
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
			fetch := backup.FetchOptions{Keys: pair.keys}
			if o.Signer != nil {
				fetch.Trusted = trusted // to trust a signer is to require one
			}
			o.Source, o.Store, o.Info = client, s, backup.Info{EtcdVersion: bin.Version}
			b, err := backup.Take(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			file, err := os.Create(filepath.Join(dir, "snapshot.db"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := backup.Fetch(ctx, s, b.Name, file, fetch)
			if err != nil || got.Content.Size < 1_000_000 {
				t.Fatalf("fetched %d bytes, %v", got.Content.Size, err)
			}
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
			restores(t, bin.Etcdutl, file.Name())
		}
	})
}

// restores checks that etcd's own tool takes a snapshot for whole, and restores it.
func restores(t *testing.T, tool, file string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), tool, "snapshot", "restore", file,
		"--data-dir="+t.TempDir()+"/data").CombinedOutput()
	if err != nil {
		t.Fatalf("restore: %v\n%s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), tool, "snapshot", "status", file).CombinedOutput()
	// A hash, the revision, the number of keys and the size. Revision 1 is that
	// of an empty store.
	if field := strings.Split(string(out), ", "); err != nil || len(field) < 4 || field[1] != "201" {
		t.Errorf("status: %v\n%s", err, out)
	}
}

// A snapshot whose source dies leaves nothing.
func TestRealEtcdThatDies(t *testing.T) {
	client, ctx := etcdtest.Serve(t, etcdtest.Binaries(t, etcdtest.Versions[0])), t.Context()
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
