package apply

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
)

// A node tells what is in the data of its real member, having looked once for each
// set of files; and right before a change it looks again, whatever it has told.
func TestHazardsOfARealMember(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := etcdtest.New(t, "a")
	m.DataDir = nodestate.DataDir(dir, "t1")
	m.Start(t, etcdtest.Binaries(t, "3.5.35"))
	etcdtest.AwaitRead(t, etcdtest.Dial(t, m))
	s := nodestate.State{Assigned: &cluster.Assigned{Token: "t1", Version: etcdversion.Must("3.5.21")}}
	disk := cluster.Disk{State: cluster.DiskData, Token: "t1"}
	var l looker
	now := time.Unix(1000, 0)
	var found []cluster.Hazard
	for len(found) == 0 && t.Context().Err() == nil {
		found = l.of(dir, s, disk, now)
		l.wait()
		now = now.Add(lookAgain)
	}
	from, to := etcdversion.Must("3.5.21"), etcdversion.Must("3.6.16")
	if held := cluster.HazardsFrom(found, from, to); len(held) > 0 {
		t.Errorf("a clean member has %v", held)
	}
	at := l.at
	l.of(dir, s, disk, now.Add(time.Hour))
	if l.wait(); l.at != at {
		t.Error("it looks again at the same files")
	}
	s.Assigned.Token = "t2"
	if got := l.of(dir, s, disk, now); got != nil {
		t.Errorf("of the data of another incarnation it tells %v", got)
	}
	m.Kill()
	local := &Local{o: LocalOptions{DataDir: dir}}
	op := &plan.MemberChangeVersion{ExpectToken: "t1", To: to}
	if err := local.stands(from, op); err != nil {
		t.Errorf("clean data: %v", err)
	}
	zombie(t, m.DataDir)
	wantError(t, local.stands(from, op), "members present")
	wantError(t, local.stands(etcdversion.Must("3.5.35"), op), "members present")
	op.ExpectToken = "t3"
	wantError(t, local.stands(from, op), "unknown")
	if err := local.stands(etcdversion.Must("3.5.35"), op); err != nil {
		t.Errorf("a patch that is new enough: %v", err)
	}
}

func zombie(t *testing.T, data string) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(data, "member", "snap", "db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("members")).Put([]byte("dead"), []byte(`{"peerURLs":["http://127.0.0.1:1"]}`))
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}
