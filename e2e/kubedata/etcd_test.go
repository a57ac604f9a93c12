package kubedata

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/drill"
	"github.com/etcdadm/etcdadm/pkg/etcdbin"
	"github.com/etcdadm/etcdadm/pkg/etcdversion"
)

// etcd's own tool restores the file, and an etcd serves what the summary says.
func TestEtcdServesIt(t *testing.T) {
	list := os.Getenv(etcdbin.DirVariable)
	if list == "" {
		t.Skip(etcdbin.DirVariable + " names no directory with etcd binaries")
	}
	path, s := made(t, Options{Bytes: 8 << 20, Seed: 5})
	for _, version := range []string{"3.5.35", "3.6.16", "3.7.3"} {
		r, err := drill.Trial{
			File: path, Version: etcdversion.Must(version), TempDir: t.TempDir(),
			Finder: etcdbin.Finder{Dirs: filepath.SplitList(list)},
		}.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Etcd.String() != version || r.Keys != int64(s.Keys) || int64(r.Revision) != s.Revision || !r.HashCompared {
			t.Errorf("%s has %+v, the summary is %+v", version, r, s)
		}
	}
}
