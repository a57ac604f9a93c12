package etcdrelease

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func defaults() machine.Config { return machine.Defaults() }

// realEtcd returns the directories of real binaries, oldest first.
func realEtcd(t *testing.T) (versions []etcdversion.Version, dirs []string) {
	t.Helper()
	find := etcdtest.Finder(t)
	for _, v := range etcdtest.Managed() {
		b, err := find.Find(v)
		if err != nil {
			t.Fatal(err)
		}
		if b.Etcdctl != "" && b.Etcdutl != "" {
			versions, dirs = append(versions, v), append(dirs, b.Dir)
		}
	}
	if len(versions) == 0 {
		t.Fatal(etcdbin.DirVariable + " has no whole release")
	}
	return versions, dirs
}

// Each version is installed over the one before while that one runs, and the
// last from an archive of a site.
func TestRealEtcdIsReplacedWhileItRuns(t *testing.T) {
	versions, dirs := realEtcd(t)
	dir := t.TempDir()
	for i, v := range versions {
		o := local(t, v.String())
		o.Sources.Dir = dirs[i]
		if i == len(versions)-1 {
			s := newSite(t)
			s.publish(v.String(), realRelease(t, v, dirs[i]))
			o = s.from(t, v.String())
		}
		if done := mustInstall(t, o, dir); !done.Changed || done.Version != v {
			t.Errorf("installed %+v", done)
		}
		if mustInstall(t, o, dir).Changed {
			t.Error("the second time it changed something")
		}
		startEtcd(t, dir)
	}
}

func realRelease(t *testing.T, v etcdversion.Version, dir string) []byte {
	t.Helper()
	top := "etcd-v" + v.String() + "-linux-" + arch + "/"
	var files []file
	for _, name := range tools {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file{name: top + name, body: b})
	}
	return packed(t, tarOf(t, files...))
}

// startEtcd runs dir/etcd until the test ends.
func startEtcd(t *testing.T, dir string) {
	t.Helper()
	data := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, dir+"/etcd", "--data-dir", data+"/d",
		"--listen-client-urls", "unix://"+data+"/c:0", "--advertise-client-urls", "http://127.0.0.1:0",
		"--listen-peer-urls", "http://127.0.0.1:0")
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		select {
		case err := <-ended:
			t.Errorf("etcd has ended: %v", err)
		default:
			cancel()
			<-ended
		}
	})
	testwait.For(t, "etcd to begin", func(context.Context) error {
		_, err := os.Stat(data + "/d/member/wal")
		return err
	})
}
