package apply

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// keepAside makes a file where data is set aside, until the function it returns is called:
// nothing can be moved there.
func (h *host) keepAside() (release func()) {
	h.t.Helper()
	path := filepath.Join(h.o.DataDir, "data-trashcan")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		h.t.Fatal(err)
	}
	return func() {
		h.t.Helper()
		if err := os.Remove(path); err != nil {
			h.t.Fatal(err)
		}
	}
}

// Data that cannot be moved stays, and so does the assignment: without it, the node would
// look like a new one.
func TestDataThatCannotBeMovedIsNotForgotten(t *testing.T) {
	h := bootstrapped(t)
	h.must(stop())
	release := h.keepAside()
	if err := h.do(setAside()); err == nil {
		t.Error("it is set aside where nothing can be moved to")
	}
	if n := h.observe(); n.Assigned == nil || n.Disk.State != cluster.DiskData || n.Disk.Token != "t1" {
		t.Errorf("the node is %+v", n)
	}
	release()
	h.must(setAside())
	if n := h.observe(); n.Assigned != nil || n.Disk.State != cluster.DiskEmpty || len(n.SetAside) != 1 {
		t.Errorf("afterwards the node is %+v", n)
	}
}

// A switch that ends between its steps has promised nothing, starts nothing by itself, and is
// finished by the same order.
func TestASwitchThatCannotMoveTheDataPromisesNothing(t *testing.T) {
	h := bootstrapped(t, staging(&restorer{}))
	h.must(stageOp())
	h.ready()
	release := h.keepAside()
	if err := h.do(switchOp()); err == nil {
		t.Error("it has switched where the data cannot be moved")
	}
	n := h.observe()
	if n.Prepared != nil || n.Staged == nil || n.Disk.Token != "t1" || n.LeaseVoters.Token != "t1" {
		t.Errorf("the node is %+v", n)
	}
	if n.Assigned == nil || !n.Assigned.Stopped || n.Process.State != cluster.ProcessStopped {
		t.Errorf("it runs the old incarnation: %+v, %+v", n.Assigned, n.Process)
	}
	h.restart()
	if n := h.observe(); n.Process.State != cluster.ProcessStopped {
		t.Errorf("its daemon starts the old incarnation again: %+v", n.Process)
	}
	release()
	h.must(switchOp())
	if n := h.observe(); n.Prepared == nil || n.Prepared.Token != "t2" || n.LeaseVoters.Token != "t2" {
		t.Errorf("afterwards the node is %+v", n)
	}
}

// What cannot be written down is not begun: the member runs on.
func TestASwitchThatCannotBeRecordedStopsNothing(t *testing.T) {
	h := bootstrapped(t, staging(&restorer{}))
	h.must(stageOp())
	h.ready()
	pid := h.pid()
	if err := h.state.Close(); err != nil { // as good as a disk that fails
		t.Fatal(err)
	}
	for _, op := range []plan.Operation{switchOp(), &plan.RestoreDiscard{Node: "a", Token: "t2"}} {
		if err := h.do(op); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: error %v", plan.Line(op), err)
		}
	}
	if s := h.disk(); h.pid() != pid || s.Assigned.Stopped || s.Staged == nil || s.Prepared != nil {
		t.Errorf("process %d, before %d; the state is %+v", h.pid(), pid, s)
	}
	if has, err := nodestate.Staged(h.o.DataDir, "t2"); err != nil || !has {
		t.Errorf("what it has staged is there: %t, %v", has, err)
	}
}

// A node that has restored data was a member of what the restore ended: it promises no other
// bootstrap, and stages nothing over what it has to start with.
func TestARestoredNodePromisesNothingElse(t *testing.T) {
	h := bootstrapped(t, staging(&restorer{}))
	h.must(stageOp())
	h.ready()
	h.must(switchOp())
	other := prepare()
	other.Token = "t3"
	h.refused(other, "a has restored b1 as incarnation t2")
	h.refused(stageOp(), "already switched to incarnation t2")
}

// An etcd that has ended may have left a database that says how far the cluster has come. Where
// that cannot be read, the old version is not started on it.
func TestNobodyGoesBackOnADatabaseThatCannotBeRead(t *testing.T) {
	older := etcdversion.Must("3.5.35")
	h := known(t)
	h.fake(older, "3.5.35", scripts[writes])
	db := datadir.At(nodestate.DataDir(h.o.DataDir, "t1")).Database()
	if err := os.MkdirAll(filepath.Dir(db), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(db, []byte(strings.Repeat("no database ", 4096)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.state.Update(func(s *nodestate.State) error {
		s.Change = &cluster.VersionChange{Token: "t1", From: older, To: dies}
		s.Assigned.Version = dies
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	h.restart()
	testwait.Until(h.t, "it says that there is no way back", func() bool {
		c := h.disk().Change
		return c != nil && !c.Back && strings.Contains(c.Failed, "the version of its data is unknown")
	})
	if v := h.disk().Assigned.Version; v != dies {
		t.Errorf("it is assigned %s", v)
	}
}

// Nobody is to look for a member under a name that means nothing.
func TestAMemberIsNotRecordedWhereNobodyFindsIt(t *testing.T) {
	st := newStage()
	op := &plan.MemberUpdate{ID: 2, PeerURLs: []string{"http://b.invalid:2380"}, ExpectPeerURLs: []string{"http://b:2380"}}
	if err := st.do(t, op); err == nil || !strings.Contains(err.Error(), "cannot use http://b.invalid:2380") {
		t.Errorf("error %v", err)
	}
	for _, line := range st.protocol {
		if strings.HasPrefix(line, "update") {
			t.Errorf("it said %q", line)
		}
	}
	st = newStage()
	op.PeerURLs = []string{"http://127.0.0.1:2380"}
	if err := st.do(t, op); err != nil || !strings.Contains(strings.Join(st.protocol, "\n"), "update 2") {
		t.Errorf("an address: %v, %q", err, st.protocol)
	}
}

// A report counts for the member that was asked for: at its URL another may answer.
func TestAReportOfAnotherMemberIsNone(t *testing.T) {
	st := newStage()
	connect := func(urls []string) (Etcd, error) { return fakeEtcd{st, urls}, st.etcdErr }
	if r, err := reportOf(t.Context(), connect, []string{"http://b:4001"}, 2); err != nil || r.ID != 2 {
		t.Errorf("member 2: %+v, %v", r, err)
	}
	if _, err := reportOf(t.Context(), connect, []string{"http://b:4001"}, 3); err == nil ||
		!strings.Contains(err.Error(), "answers member 2, not 3") {
		t.Errorf("member 3: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := reportOf(ended, connect, []string{"http://b:4001"}, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("a question that was broken off: %v", err)
	}
}
