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

// Right before a change a node checks the data of its real member again, whatever it has reported.
func TestHazardsOfARealMemberBeforeAChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := etcdtest.New(t, "a")
	m.DataDir = nodestate.DataDir(dir, "t1")
	m.Start(t, etcdtest.Binaries(t, "3.5.35"))
	etcdtest.AwaitRead(t, etcdtest.Dial(t, m))
	m.Kill()
	from, to := etcdversion.Must("3.5.21"), etcdversion.Must("3.6.16")
	local := NewLocal(LocalOptions{DataDir: dir, Now: time.Now})
	stands := func(from etcdversion.Version, op *plan.MemberChangeVersion) error {
		local.lastCheck.forget()
		return local.checkHazards(t.Context(), from, op)
	}
	op := &plan.MemberChangeVersion{ExpectToken: "t1", To: to}
	if err := stands(from, op); err != nil {
		t.Errorf("clean data: %v", err)
	}
	zombie(t, m.DataDir)
	wantError(t, stands(from, op), "members present")
	wantError(t, stands(etcdversion.Must("3.5.35"), op), "members present")
	op.AcceptRisk, op.AcceptHazards = "tried", []cluster.HazardKind{cluster.HazardV2Content}
	wantError(t, stands(from, op), "members present") // more than was accepted
	op.AcceptHazards = append(op.AcceptHazards, cluster.HazardMembers)
	if err := stands(from, op); err != nil {
		t.Errorf("what was accepted: %v", err)
	}
	op.AcceptRisk, op.AcceptHazards = "", nil
	op.ExpectToken = "t3"
	wantError(t, stands(from, op), "unknown")
	if err := stands(etcdversion.Must("3.5.35"), op); err != nil {
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
