package apply

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// compared reports whether etcd was started to compare itself with its peers, once it has
// been started.
func (h *host) compared() bool {
	h.t.Helper()
	h.env("ETCD_NAME")
	b, err := os.ReadFile(filepath.Join(h.bins, "env"))
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.Contains(string(b), "InitialCorruptCheck=true")
}

// closed has the host's member run, closed to clients, with two others that serve.
func (f *fakeTrio) closed() {
	f.t.Helper()
	f.found()
	var voters []cluster.InitialMember
	for _, n := range []cluster.NodeName{"a", "b", "c"} {
		voters = append(voters, cluster.InitialMember{Name: n, PeerURLs: []string{f.peers[n].url}})
	}
	if err := f.state.Update(func(s *nodestate.State) error { s.Voters = voters; return nil }); err != nil {
		f.t.Fatal(err)
	}
	f.must(&plan.QuarantineSet{Node: "a"})
}

// TestTheFirstMemberOfARestoreIsOpenedAtOnce: the coordinator has compared all of them, and
// clients wait. etcd does not read its data once more before it serves, nor does the node.
func TestTheFirstMemberOfARestoreIsOpenedAtOnce(t *testing.T) {
	f := newFakeTrio(t, func(o *LocalOptions) { o.closedCompare = time.Hour })
	f.closed()
	f.comparer.end(t.Context()) // it may have begun before it was written down that a is closed
	f.set(func(p *fakePeer) { p.asked = nil }, "a")
	f.forget()
	f.must(&plan.QuarantineLift{Node: "a", ExpectRevision: 9})
	if f.compared() {
		t.Error("clients wait until etcd has compared what the coordinator has just compared")
	}
	if f.disk().Assigned.Quarantined {
		t.Error("it is closed")
	}
	testwait.Until(t, "the process to run uncompared", func() bool { return f.observe().Comparing })
	if asked := f.asked("a"); len(asked) > 0 {
		t.Errorf("its database is read for revisions %d", asked)
	}
}

// TestALiftThatNobodyHasComparedForIsComparedByEtcd: where clients are served by others.
func TestALiftThatNobodyHasComparedForIsComparedByEtcd(t *testing.T) {
	f := newFakeTrio(t, func(o *LocalOptions) { o.closedCompare = time.Hour })
	f.closed()
	f.forget()
	f.must(&plan.QuarantineLift{Node: "a"})
	if !f.compared() {
		t.Error("etcd does not compare it")
	}
	testwait.Until(t, "the node to compare it", func() bool { return !f.observe().Comparing })
}

// TestAClosedMemberIsLeftToTheCoordinatorForAWhile and then compared by its node: where
// members differ, the coordinator opens none.
func TestAClosedMemberIsLeftToTheCoordinatorForAWhile(t *testing.T) {
	const while = 500 * time.Millisecond
	f := newFakeTrio(t, func(o *LocalOptions) { o.closedCompare = while })
	f.closed()
	testwait.Until(t, "a comparison", func() bool { return !f.observe().Comparing })
	f.set(wrong, "a")
	began := time.Now()
	if err := syscall.Kill(f.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the difference to be found", func() bool { return f.observe().Differs != "" })
	if took := time.Since(began); took < while {
		t.Errorf("it was compared within %s", took)
	}
	f.fenced("b and c")
}

// TestAMemberThatCannotBeOpenedGoesOn, with the clients that it has or has not.
func TestAMemberThatCannotBeOpenedGoesOn(t *testing.T) {
	f := newFakeTrio(t)
	f.closed()
	pid := f.pid()
	if err := os.Rename(f.bins, f.bins+".gone"); err != nil {
		t.Fatal(err)
	}
	wantError(t, f.do(&plan.QuarantineLift{Node: "a", ExpectRevision: 9}), "no etcd")
	if now := f.pid(); now != pid {
		t.Errorf("process %d runs, and not %d", now, pid)
	}
	if err := os.Rename(f.bins+".gone", f.bins); err != nil {
		t.Fatal(err)
	}
	f.must(&plan.QuarantineLift{Node: "a", ExpectRevision: 9})
	pid = f.pid()
	// It is open, and that could not be recorded.
	if err := f.state.Update(nodestate.Quarantine(true)); err != nil {
		t.Fatal(err)
	}
	f.must(&plan.QuarantineLift{Node: "a", ExpectRevision: 9})
	if now := f.pid(); now != pid {
		t.Errorf("the clients of process %d are cut off for process %d", pid, now)
	}
}
