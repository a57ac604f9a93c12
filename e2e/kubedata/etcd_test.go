package kubedata

import (
	"testing"

	"github.com/etcdadm/etcdadm/pkg/backup/drill"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

// etcd's own tool restores the file, and an etcd serves what the summary says.
func TestEtcdServesIt(t *testing.T) {
	finder := etcdtest.Finder(t)
	path, s := made(t, Options{Bytes: 8 << 20, Seed: 5})
	for _, version := range etcdtest.Versions {
		r, err := drill.Trial{
			File: path, Version: etcdversion.Must(version), TempDir: t.TempDir(),
			Finder: finder,
		}.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Etcd.String() != version || r.Keys != int64(s.Keys) || int64(r.Revision) != s.Revision || !r.HashCompared {
			t.Errorf("%s has %+v, the summary is %+v", version, r, s)
		}
	}
}
