package apply

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/etcdtest"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// dataOf gives the host's member a database of a cluster version, beside the log that it
// has.
func (h *host) dataOf(version string) {
	h.t.Helper()
	dir := filepath.Join(nodestate.DataDir(h.o.DataDir, "t1"), "member", "snap")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		h.t.Fatal(err)
	}
	db, err := bbolt.Open(filepath.Join(dir, "db"), 0o600, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("cluster"))
		if err != nil {
			return err
		}
		return b.Put([]byte("clusterVersion"), []byte(version))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		h.t.Fatal(err)
	}
}

// Where no member has reported it yet, as in the state file of an older daemon, the data says
// of which version it is.
func TestTheDataSaysThatAnEtcdIsTooOld(t *testing.T) {
	h := known(t)
	h.close()
	h.dataOf("3.7.0")
	h.start()
	wantError(t, h.Boot(t.Context()), "the data is of cluster version 3.7, and etcd 3.6.16 is older")
	if h.pid() != 0 {
		t.Error("it runs")
	}
	h.close()
	h.dataOf("3.6.0")
	h.start()
	if err := h.Boot(t.Context()); err != nil {
		t.Error(err)
	}
	h.close()
	// Restored data names the cluster that its backup is of.
	h.dataOf("3.7.0")
	h.start()
	if err := h.state.Update(func(s *nodestate.State) error {
		s.Assigned.Quarantined = true
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := h.Boot(t.Context()); err != nil {
		t.Errorf("restored data: %v", err)
	}
}

// A change to an older version is refused by it, too.
func TestTheDataHoldsAChangeOfVersion(t *testing.T) {
	h := known(t)
	older := etcdversion.Must("3.5.35")
	h.fake(older, "3.5.35", scripts[writes])
	h.dataOf("3.6.0")
	h.refused(change(older), "the data is of cluster version 3.6")
}

// So is the binary of another version under the right name.
func TestTheDataHoldsTheWrongBinary(t *testing.T) {
	h := known(t)
	h.fake(writes, "3.4.25", scripts[writes])
	h.close()
	h.dataOf("3.6.0")
	h.start()
	_ = h.Boot(t.Context())
	testwait.Until(t, "it says what is wrong", func() bool {
		p := h.observe().Process
		return p.State == cluster.ProcessCrashing && strings.Contains(p.LastExit, "is etcd 3.4.25, and the data is of")
	})
}

// What cannot be read is left to etcd, but not to one that does not check it.
func TestDataWhoseVersionCannotBeRead(t *testing.T) {
	h := known(t)
	h.dataOf("3.6.0")
	db := filepath.Join(nodestate.DataDir(h.o.DataDir, "t1"), "member", "snap", "db")
	if err := os.WriteFile(db, []byte(strings.Repeat("x", 1<<15)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := h.disk()
	if err := h.tooOld(s, writes); err != nil {
		t.Error(err)
	}
	wantError(t, h.tooOld(s, etcdversion.Must("3.4.25")), "is unknown")
}

// A real etcd 3.4 is not started on data of 3.6 that no daemon knows anything of.
func TestARealOlderEtcdIsNotStarted(t *testing.T) {
	t.Parallel()
	runs, older := etcdversion.Must("3.6.16"), etcdversion.Must("3.4.25")
	h := realHost(t, runs)
	etcdtest.Binaries(t, older.String())
	voters := []cluster.InitialMember{{Name: "a", PeerURLs: h.o.URLs.Peer}}
	h.must(&plan.MemberPrepare{Node: "a", Token: "t1", Version: runs, Voters: voters},
		&plan.MemberStart{Node: "a", Token: "t1", Mode: plan.StartNew, Version: runs, Peers: voters})
	testwait.Until(t, "3.6 has a cluster version", func() bool { _, r := h.reports(); return r.Cluster.Minor == 6 })
	h.close()
	assign := func(v etcdversion.Version) error {
		h.start()
		if err := h.state.Update(func(s *nodestate.State) error {
			s.Seen, s.Assigned.Version = nil, v
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return h.Boot(t.Context())
	}
	wantError(t, assign(older), "the data is of cluster version 3.6, and etcd 3.4.25 is older")
	if h.pid() != 0 {
		t.Error("it runs")
	}
	h.close()
	if err := assign(runs); err != nil {
		t.Fatal(err)
	}
	if _, r := h.reports(); r.Version != runs {
		t.Errorf("etcd %s runs", r.Version)
	}
}
