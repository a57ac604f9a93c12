package apply

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

func change(to etcdversion.Version) *plan.MemberChangeVersion {
	return &plan.MemberChangeVersion{Node: "a", ExpectToken: "t1", ExpectMemberID: 1, ExpectVersion: writes, To: to}
}

// known is a host whose member has reported its id.
func known(t *testing.T, o ...func(*LocalOptions)) *host {
	t.Helper()
	h := bootstrapped(t, o...)
	if err := h.state.Update(func(s *nodestate.State) error {
		s.MemberID, s.ClusterID, s.MemberToken = 1, 1, "t1"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return h
}

// fake installs a shell script as the etcd of a version.
func (h *host) fake(v etcdversion.Version, says, body string) {
	h.t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	place := filepath.Join(h.bins, "etcd-v"+v.String())
	if err := os.MkdirAll(place, 0o755); err != nil {
		h.t.Fatal(err)
	}
	script := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo etcd Version: " + says + "; exit; fi\n" + body + "\n"
	if err := os.WriteFile(filepath.Join(place, "etcd"), []byte(script), 0o755); err != nil {
		h.t.Fatal(err)
	}
}

// A version that dies again and again: the old one runs again, the order fails and
// says why, and so does the node.
func TestAVersionThatDiesIsReverted(t *testing.T) {
	t.Parallel()
	h := known(t)
	wantError(t, h.do(change(dies)), "no luck")
	n := h.observe()
	if n.Assigned.Version != writes || n.Change == nil || !n.Change.Back || !strings.Contains(n.Change.Failed, "no luck") {
		t.Errorf("assigned %+v, change %+v", n.Assigned, n.Change)
	}
	testwait.Until(h.t, "the old version runs", func() bool { return h.observe().Process.State == cluster.ProcessRunning })
	// It can be tried again: what has failed once may be put right.
	first := h.o.Proc.Status().Since
	order := plan.Order{Operation: change(dies), ID: "second"}
	wantError(t, h.Do(t.Context(), order, nil), "no luck")
	testwait.Until(h.t, "the old version runs", func() bool { return h.observe().Process.State == cluster.ProcessRunning })
	since := h.o.Proc.Status().Since
	if since == first {
		t.Error("it was not tried again")
	}
	// The sender hung up before it heard how that ended, and sends it again.
	wantError(t, h.Do(t.Context(), order, nil), "no luck")
	if n := h.observe(); n.Assigned.Version != writes || !n.Change.Back || h.o.Proc.Status().Since != since {
		t.Errorf("after an order that was given again: assigned %+v, change %+v", n.Assigned, n.Change)
	}
}

// The member has run here until it was stopped for its new version: nobody is asked whether it
// runs on another machine, as at other starts, while clients wait. Here one would say so.
func TestAChangeOfVersionDoesNotWaitForOthers(t *testing.T) {
	t.Parallel()
	h := known(t)
	hears := hearsFrom7(t, h.o.URLs.Peer[0])
	if err := h.state.Update(func(s *nodestate.State) error {
		s.MemberID = 7
		s.Voters = []cluster.InitialMember{{Name: "a", PeerURLs: h.o.URLs.Peer}, hears}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	op := change(newer)
	op.ExpectMemberID = 7
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Do(ctx, plan.Order{Operation: op}, nil) }()
	testwait.Until(h.t, "the new version runs", func() bool {
		select {
		case err := <-done:
			t.Fatalf("the order ended: %v", err)
		default:
		}
		n := h.observe()
		return n.Process.State == cluster.ProcessRunning && n.Process.Version == newer
	})
	end()
	<-done
}

// hearsFrom7 is a member, m2, that has had more from member 7, whose peer URL is at, each time that
// it is asked.
func hearsFrom7(t *testing.T, at string) cluster.InitialMember {
	t.Helper()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			fmt.Fprintf(w, "etcd_network_peer_received_bytes_total{From=\"7\"} %d\n", asked.Add(1))
			return
		}
		fmt.Fprintf(w, `[{"id":7,"name":"b","peerURLs":[%q]},{"id":2,"name":"m2","clientURLs":["http://%s"]}]`, at, r.Host)
	}))
	t.Cleanup(s.Close)
	return cluster.InitialMember{Name: "m2", PeerURLs: []string{s.URL}}
}

// A version that never serves is reverted when its time is over.
func TestAVersionThatDoesNotServeIsReverted(t *testing.T) {
	h := known(t, func(o *LocalOptions) { o.startTimeout = 300 * time.Millisecond })
	wantError(t, h.do(change(newer)), "did not come up")
	if s := h.disk(); s.Assigned.Version != writes || s.Change == nil || !s.Change.Back {
		t.Errorf("assigned %+v, change %+v", s.Assigned, s.Change)
	}
}

// A daemon that was killed after the record goes on with the new version, and sees
// the change to its end.
func TestABootGoesOnWithTheNewVersion(t *testing.T) {
	h := known(t)
	begun := func(to etcdversion.Version) {
		if err := h.state.Update(func(s *nodestate.State) error {
			s.Change = &cluster.VersionChange{Token: "t1", From: writes, To: to}
			s.Assigned.Version = to
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	begun(newer)
	h.restart()
	if n := h.observe(); n.Process.Version != newer || !n.Change.Pending() {
		t.Errorf("it runs %s, change %+v", n.Process.Version, n.Change)
	}
	// A version that dies, and one that is not there any more.
	for _, v := range []etcdversion.Version{dies, absent} {
		begun(v)
		h.close()
		h.start()
		_ = h.Boot(t.Context()) // its error is in what the node reports
		testwait.Until(h.t, "the old version runs", func() bool {
			s := h.disk()
			return s.Assigned.Version == writes && s.Change.Back && h.observe().Process.State == cluster.ProcessRunning
		})
	}
}

// Once the cluster version has risen, the old version is never started again:
// etcd would refuse, or, where it is older than 3.5, not even refuse.
func TestNobodyGoesBackBehindTheClusterVersion(t *testing.T) {
	older := etcdversion.Must("3.5.35")
	h := known(t)
	h.fake(older, "3.5.35", scripts[writes])
	seen := func(v string) {
		if err := h.state.Update(func(s *nodestate.State) error {
			s.Seen = &nodestate.SeenVersion{Token: "t1", Version: etcdversion.Must(v)}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	seen("3.6.0")
	h.refused(change(older), "the data is of cluster version 3.6")
	// A change of 3.5 to 3.6 that dies after the cluster version has risen.
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
		return c != nil && !c.Back && strings.Contains(c.Failed, "cannot go back: the cluster version is already 3.6")
	})
	if v := h.disk().Assigned.Version; v != dies {
		t.Errorf("it is assigned %s", v)
	}
	// What is put right comes up, and nobody has to order it.
	h.fake(dies, dies.String(), "exec sleep 600")
	testwait.Until(h.t, "the new version runs", func() bool { return h.observe().Process.State == cluster.ProcessRunning })
}

// A state that names older binaries than the data, whoever wrote it, starts
// nothing.
func TestOlderBinariesAreNotStartedOnNewerData(t *testing.T) {
	h := known(t)
	if err := h.state.Update(func(s *nodestate.State) error {
		s.Seen = &nodestate.SeenVersion{Token: "t1", Version: etcdversion.Must("3.7.0")}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	h.close()
	h.start()
	wantError(t, h.Boot(t.Context()), "the data is of cluster version 3.7, and etcd 3.6.16 is older")
	if h.pid() != 0 {
		t.Error("it runs")
	}
}

func TestAChangeOfVersionIsRefused(t *testing.T) {
	h := known(t)
	far, lies := etcdversion.Must("3.4.25"), etcdversion.Must("3.6.9")
	h.fake(far, "3.4.25", scripts[writes])
	h.fake(lies, "3.7.0", scripts[writes])
	stale := change(newer)
	stale.ExpectVersion = cutOff
	isStale(t, h.do(stale), "etcd 3.6.4")
	stale = change(newer)
	stale.ExpectMemberID = 9
	isStale(t, h.do(stale), "member")
	h.refused(change(far), "more than one minor version apart")
	h.refused(change(lies), "is etcd 3.7.0, not 3.6.9")
	wantError(t, h.do(change(absent)), "no etcd 3.6.3 on this machine")
	h.must(change(writes)) // nothing to do
	halt := stop()
	halt.ExpectMemberID = 1
	h.must(halt)
	h.refused(change(newer), "stopped by an operation")
	if s := h.disk(); s.Change != nil || s.Assigned.Version != writes {
		t.Errorf("assigned %+v, change %+v", s.Assigned, s.Change)
	}
}

// A real member changes to the next minor version, and its cluster version rises.
// Nothing leads back then.
func TestARealMemberChangesItsVersion(t *testing.T) {
	t.Parallel()
	old, next := etcdversion.Must("3.5.35"), etcdversion.Must("3.6.16")
	h := realHost(t, old)
	if _, err := h.o.Bin.Find(next); err != nil {
		t.Skip(err)
	}
	voters := []cluster.InitialMember{{Name: "a", PeerURLs: h.o.URLs.Peer}}
	h.must(&plan.MemberPrepare{Node: "a", Token: "t1", Version: old, Voters: voters},
		&plan.MemberStart{Node: "a", Token: "t1", Mode: plan.StartNew, Version: old, Peers: voters})
	n, r := h.reports()
	op := &plan.MemberChangeVersion{
		Node: "a", ExpectToken: "t1", ExpectMemberID: n.Disk.MemberID, ExpectVersion: old, To: next,
	}
	testwait.Until(h.t, "3.5 has a cluster version", func() bool { _, r = h.reports(); return r.Cluster.Minor == 5 })
	h.must(op)
	if s := h.disk(); s.Change != nil || s.Assigned.Version != next {
		t.Errorf("assigned %+v, change %+v", s.Assigned, s.Change)
	}
	testwait.Until(h.t, "the cluster version rises, and is remembered", func() bool {
		_, r = h.reports()
		return r.Version == next && r.Cluster.Minor == 6 && h.disk().DataVersion().Minor == 6
	})
	op.ExpectVersion, op.To = next, old
	h.refused(op, "is older")
	h.downgrades(op)
}

// downgrades has etcd prepare the data of a real member, and changes it to the minor
// version before, and back.
func (h *host) downgrades(op *plan.MemberChangeVersion) {
	h.t.Helper()
	t := h.t
	etcd, err := etcdclient.Open(etcdclient.Options{Endpoints: h.o.URLs.Client})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	low := etcdversion.Must("3.5.0")
	for range 2 { // the second time it is done
		if err := etcd.EnableDowngrade(t.Context(), low); err != nil {
			t.Fatal(err)
		}
	}
	testwait.Until(h.t, "the data is of 3.5, and that is remembered", func() bool {
		_, r := h.reports()
		return r.Downgrade == low && r.Storage == low && h.disk().DataVersion() == low
	})
	if err := etcd.EnableDowngrade(t.Context(), low); err != nil {
		t.Errorf("enabled once more: %v", err)
	}
	late := *op // from before the downgrade
	if late.To = etcdversion.Must("3.7.3"); slices.Contains(h.o.Bin.Versions(), late.To) {
		h.refused(&late, "does not follow it")
	}
	h.must(op)
	testwait.Until(h.t, "3.5 runs", func() bool { _, r := h.reports(); return r.Version == op.To && r.Cluster == low })
	op.ExpectVersion, op.To = op.To, op.ExpectVersion
	h.must(op)
	for range 2 { // where none is enabled it is success
		if err := etcd.CancelDowngrade(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	testwait.Until(h.t, "the cluster version rises again", func() bool {
		_, r := h.reports()
		return r.Version == op.To && r.Downgrade.IsZero() && h.disk().DataVersion().Minor == 6
	})
}

// A record that lands after its order has failed is reverted: the old version runs
// on, and the change can be ordered again.
func TestAChangeThatIsRecordedLateIsReverted(t *testing.T) {
	landing, thaw := make(chan struct{}), make(chan struct{})
	hangs := true
	h := known(t, func(o *LocalOptions) {
		o.record = func(f *nodestate.File, change nodestate.Transition) error {
			if !hangs {
				return f.Update(change)
			}
			go func() {
				_ = f.Update(func(s *nodestate.State) error {
					close(landing)
					<-thaw
					return change(s)
				})
			}()
			<-landing
			return &nodestate.SlowError{}
		}
	})
	pid := h.pid()
	wantError(t, h.do(change(newer)), "the disk has not taken a write")
	hangs = false
	close(thaw)
	h.late.mu.Lock()
	done := h.late.done
	h.late.mu.Unlock()
	<-done
	testwait.Until(h.t, "the record is gone", func() bool {
		s := h.disk()
		return s.Change == nil && s.Assigned.Version == writes
	})
	if h.pid() != pid {
		t.Error("the process is another one")
	}
}

// Of two voters, the one with the new version does not serve, and so neither does the
// other: it answers, and the two would be a majority, so it is the version's fault.
func TestAVersionThatHangsIsRevertedWhereItsVoteIsNeeded(t *testing.T) {
	f := newFakeTrio(t, func(o *LocalOptions) { o.startTimeout = 300 * time.Millisecond })
	f.found()
	if err := f.state.Update(func(s *nodestate.State) error {
		s.MemberID, s.ClusterID, s.MemberToken = 1, 1, "t1"
		for _, name := range []cluster.NodeName{"a", "b"} {
			s.Voters = append(s.Voters, cluster.InitialMember{Name: name, PeerURLs: []string{f.peers[name].url}})
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	f.set(func(p *fakePeer) { p.hangs = make(chan struct{}) }, "b")
	wantError(t, f.do(change(newer)), "did not come up")
	if s := f.disk(); s.Assigned.Version != writes || s.Change == nil || !s.Change.Back {
		t.Errorf("assigned %+v, change %+v", s.Assigned, s.Change)
	}
}

// Where too few others answer, it is no wonder that the new version does not serve.
func TestAVersionThatLacksItsPeersIsGivenTime(t *testing.T) {
	f := newFakeTrio(t)
	f.found()
	s := f.disk()
	s.Voters = []cluster.InitialMember{{Name: "a", PeerURLs: []string{f.peers["a"].url}}}
	if f.observer.LacksMajority(t.Context(), s) {
		t.Error("one that is alone is excused")
	}
	s.Voters = append(s.Voters, cluster.InitialMember{Name: "b", PeerURLs: []string{"http://127.0.0.1:1"}})
	if !f.observer.LacksMajority(t.Context(), s) {
		t.Error("one whose only peer is down is not excused")
	}
}

// A real member that was born on 3.5 runs 3.6, and takes a raft snapshot by order:
// 3.7 can read its log then, and its revision is what it was.
func TestARealMemberForcesASnapshot(t *testing.T) {
	t.Parallel()
	v35, v36, v37 := etcdversion.Must("3.5.35"), etcdversion.Must("3.6.16"), etcdversion.Must("3.7.3")
	h := realHost(t, v35)
	for _, v := range []etcdversion.Version{v36, v37} {
		if _, err := h.o.Bin.Find(v); err != nil {
			t.Skip(err)
		}
	}
	voters := []cluster.InitialMember{{Name: "a", PeerURLs: h.o.URLs.Peer}}
	h.must(&plan.MemberPrepare{Node: "a", Token: "t1", Version: v35, Voters: voters},
		&plan.MemberStart{Node: "a", Token: "t1", Mode: plan.StartNew, Version: v35, Peers: voters})
	n, r := h.reports()
	force := &plan.MemberForceSnapshot{Node: "a", ExpectToken: "t1", ExpectMemberID: n.Disk.MemberID}
	testwait.Until(h.t, "3.5 has a cluster version", func() bool { _, r = h.reports(); return r.Cluster.Minor == 5 })
	h.must(force) // before 3.6 its log has nothing that has to go
	up := &plan.MemberChangeVersion{
		Node: "a", ExpectToken: "t1", ExpectMemberID: n.Disk.MemberID, ExpectVersion: v35, To: v36,
	}
	h.must(up)
	testwait.Until(h.t, "the node reports old entries in the log", func() bool {
		n, r = h.reports()
		return n.OldLog.State == cluster.HazardPresent
	})
	revision := r.Revision
	stale := *force
	stale.ExpectMemberID++
	isStale(t, h.do(&stale), "member")
	h.must(force, force)
	if n, r = h.reports(); n.OldLog.State != cluster.HazardAbsent || r.Revision != revision {
		t.Errorf("its log: %s; the revision is %d and was %d", n.OldLog, r.Revision, revision)
	}
	up.ExpectVersion, up.To = v36, v37
	h.must(up)
	h.refused(force, "do not all run the minor version of etcd 3.7.3, or nothing needs it")
	if n, r = h.reports(); n.OldLog.State != "" || r.Version != v37 {
		t.Errorf("it runs %s, and reports of its log: %s", r.Version, n.OldLog)
	}
}
