package nodestate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

// What etcd itself writes is seen as data of the member that etcd says it is.
func TestDiskOfRealEtcd(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		dir := t.TempDir()
		want := runEtcd(t, bin, DataDir(dir, "tok-1"))
		for range 2 {
			got := Disk(dir, State{})
			if got != (cluster.Disk{State: cluster.DiskData, Token: "tok-1", MemberID: want}) {
				t.Errorf("got %+v, want member %s", got, want)
			}
		}
		// What the disk says counts more than what the node remembers.
		got := Disk(dir, State{MemberID: want + 1, MemberToken: "tok-1"})
		if got.MemberID != want {
			t.Errorf("got member %s, want %s", got.MemberID, want)
		}
		if err := os.Truncate(walOf(t, dir), 20); err != nil {
			t.Fatal(err)
		}
		if got := Disk(dir, State{}); got.State != cluster.DiskData || got.MemberID != 0 {
			t.Errorf("with a torn log: %+v", got)
		}
	})
}

func walOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(DataDir(dir, "tok-1"), "member", "wal", "*.wal"))
	if err != nil || len(files) != 1 {
		t.Fatalf("logs %q, %v", files, err)
	}
	return files[0]
}

// runEtcd runs a new single member on path, asks it for its id and kills it.
func runEtcd(t *testing.T, bin etcdbin.Binaries, path string) cluster.MemberID {
	t.Helper()
	m := etcdtest.New(t, "a")
	m.DataDir, m.Flags = path, nil
	m.Start(t, bin)
	defer m.Kill()
	c := etcdtest.Dial(t, m)
	etcdtest.AwaitRead(t, c)
	s, err := c.Status(t.Context(), m.ClientURL)
	if err != nil {
		t.Fatal(err)
	}
	return cluster.MemberID(s.Header.MemberId)
}

// An etcd that has served has begun.
func TestBegunOfRealEtcd(t *testing.T) {
	etcdtest.Each(t, func(t *testing.T, bin etcdbin.Binaries) {
		dir := t.TempDir()
		runEtcd(t, bin, DataDir(dir, "tok-1"))
		data := DataDir(dir, "tok-1")
		if begun, err := Begun(data); err != nil || !begun {
			t.Errorf("begun: %v, %v", begun, err)
		}
	})
}

func TestWithoutDataNothingHasBegun(t *testing.T) {
	if begun, err := Begun(t.TempDir()); err != nil || begun {
		t.Errorf("without data it has begun: %v, %v", begun, err)
	}
}
