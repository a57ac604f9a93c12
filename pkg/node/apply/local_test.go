package apply

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdconf"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

func TestOnlyItsOwnOperationsAreDoneHere(t *testing.T) {
	h := newHost(t)
	other := prepare()
	other.Node = "b"
	h.refused(other, "not for node a")
	h.refused(&plan.AddLearner{Node: "a", PeerURLs: []string{"http://x:1"}, ExpectVoters: 1}, "not for node a")
	h.refused(&plan.MoveLeader{To: "a"}, "not for node a")
	wantError(t, h.do(&plan.MemberPrepare{Node: "a"}), "--token is missing")
}

func TestAStoppedMemberStaysStopped(t *testing.T) {
	h := bootstrapped(t)
	h.must(stop(), stop())
	if h.pid() != 0 || !h.disk().Assigned.Stopped {
		t.Errorf("pid %d, assignment %+v", h.pid(), h.disk().Assigned)
	}
	h.restart()
	if h.pid() != 0 {
		t.Error("the next daemon started it")
	}
}

func TestAStopOfSomethingElseIsStale(t *testing.T) {
	h := bootstrapped(t)
	isStale(t, h.do(&plan.MemberStop{Node: "a", ExpectToken: "t0"}), "expected incarnation t0, found t1")
	isStale(t, h.do(&plan.MemberStop{Node: "a", ExpectToken: "t1", ExpectMemberID: 0xab}), "expected member ab, found 0")
	if h.pid() == 0 || h.disk().Assigned.Stopped {
		t.Error("it was stopped all the same")
	}
}

func TestAStopOfNothingIsDone(t *testing.T) {
	newHost(t).must(stop())
}

func TestDataIsSetAsideAndTheAssignmentWithIt(t *testing.T) {
	h := bootstrapped(t)
	h.must(stop(), setAside(), setAside())
	s := h.disk()
	if s.Assigned != nil || s.Peers != nil || s.MemberToken != "" {
		t.Errorf("the state is %+v", s)
	}
	n := h.observe()
	if n.Disk.State != cluster.DiskEmpty || len(n.SetAside) != 1 || n.SetAside[0].Name != "t1" {
		t.Errorf("disk %+v, set aside %+v", n.Disk, n.SetAside)
	}
	// The node is free for another life.
	op := start(plan.StartJoin)
	op.Token = "t2"
	err := h.Do(t.Context(), plan.Order{
		Operation: op, LeaseVoters: cluster.LeaseVoters{Token: "t2", Term: 1, Names: []cluster.NodeName{"b"}},
	}, nil)
	if err != nil {
		t.Error(err)
	}
}

func TestASetAsideIsRefused(t *testing.T) {
	t.Run("while the process runs", func(t *testing.T) { bootstrapped(t).refused(setAside(), "an etcd process runs") })
	t.Run("of a disk that cannot be understood", func(t *testing.T) {
		h := newHost(t)
		h.put("data/t1/holiday.jpg")
		h.refused(setAside(), "unreadable")
	})
	t.Run("of another incarnation or member", func(t *testing.T) {
		h := bootstrapped(t)
		h.must(stop())
		isStale(t, h.do(&plan.DataSetAside{Node: "a", Token: "t0"}), "expected data of member 0, incarnation t0")
		isStale(t, h.do(&plan.DataSetAside{Node: "a", Token: "t1", ExpectMemberID: 0xab}), "expected data of member ab")
		if h.observe().Disk.State != cluster.DiskData || h.disk().Assigned == nil {
			t.Error("it was moved all the same")
		}
	})
}

func TestASetAsideClearsAnAssignmentWithoutData(t *testing.T) {
	h := bootstrapped(t)
	h.must(stop())
	h.loseData()
	h.must(setAside())
	if h.disk().Assigned != nil {
		t.Error("the assignment is still there")
	}
	h.must(prepare()) // and the node may bootstrap again
}

func TestOldDataIsDiscarded(t *testing.T) {
	var late atomic.Int64
	h := bootstrapped(t, func(o *LocalOptions) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load())) }
	})
	h.must(stop(), setAside())
	old := h.observe().SetAside[0]
	discard := &plan.DataDiscard{Node: "a", Name: "t1", ExpectAt: plan.MomentOf(old.At)}
	again := &plan.DataDiscard{Node: "a", Name: "t1", ExpectAt: plan.MomentOf(old.At.Add(-24 * time.Hour))}
	isStale(t, h.do(again), "expected t1 set aside at "+string(again.ExpectAt))
	// Whoever orders it: what has just been set aside stays.
	h.refused(discard, "it may be deleted from "+old.At.Add(time.Hour).UTC().Format("2006-01-02T15:04"))
	late.Store(int64(59 * time.Minute))
	h.refused(discard, "is kept for at least 1h")
	late.Store(-int64(24 * time.Hour))
	h.refused(discard, "is kept for at least 1h")
	if left := h.observe().SetAside; len(left) != 1 {
		t.Errorf("left are %+v", left)
	}
	late.Store(int64(61 * time.Minute))
	h.must(discard, discard)
	if left := h.observe().SetAside; len(left) != 0 {
		t.Errorf("left are %+v", left)
	}
	for _, name := range []string{"..", "../data", "t1/member", "."} {
		if err := h.do(&plan.DataDiscard{Node: "a", Name: name, ExpectAt: discard.ExpectAt}); err == nil {
			t.Errorf("%s was discarded", name)
		}
	}
	if _, err := os.Stat(filepath.Join(h.o.DataDir, "etcdadm.json")); err != nil {
		t.Error(err)
	}
}

func TestTheSizeOfOldDataIsMeasuredOnce(t *testing.T) {
	h := newHost(t)
	h.put("data-trashcan/t0/member/snap/db")
	first := h.observe().SetAside
	if err := os.WriteFile(filepath.Join(h.o.DataDir, "data-trashcan/t0/more"), make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	if second := h.observe().SetAside; len(first) != 1 || len(second) != 1 || first[0].Bytes != second[0].Bytes {
		t.Errorf("first %+v, then %+v", first, second)
	}
}

func TestQuarantineMovesTheMemberToOtherURLs(t *testing.T) {
	h := bootstrapped(t)
	set, lift := &plan.QuarantineSet{Node: "a"}, &plan.QuarantineLift{Node: "a"}
	pid := h.pid()
	h.must(lift)
	if h.pid() != pid {
		t.Error("a member that is open was restarted to be opened")
	}
	h.forget()
	h.endsClientsOf(2)
	h.must(set)
	if got := h.env("ETCD_LISTEN_CLIENT_URLS"); !strings.HasSuffix(got, ":3") {
		t.Errorf("quarantined, it listens on %s", got)
	}
	h.endsClientsOf(3)
	if !h.disk().Assigned.Quarantined {
		t.Error("the quarantine is not on the disk")
	}
	pid = h.pid()
	h.must(set)
	if h.pid() != pid {
		t.Error("the same again restarted it")
	}
	h.forget()
	h.restart()
	if got := h.env("ETCD_LISTEN_CLIENT_URLS"); !strings.HasSuffix(got, ":3") {
		t.Errorf("after a restart it listens on %s", got)
	}
	h.forget()
	h.must(lift)
	if got := h.env("ETCD_LISTEN_CLIENT_URLS"); !strings.HasSuffix(got, ":2") {
		t.Errorf("lifted, it listens on %s", got)
	}
}

func TestAQuarantineThatFailsIsNotTakenForDone(t *testing.T) {
	h := bootstrapped(t)
	ctx, cancel := context.WithCancel(t.Context())
	h.o.TLS = failingTLS(func(cluster.URLs) error { cancel(); return errors.New("disk full") })
	h.Local = NewLocal(h.o)
	err := h.Do(ctx, plan.Order{Operation: &plan.QuarantineSet{Node: "a"}}, nil)
	wantError(t, err, "issue etcd's certificates: disk full")
	if h.disk().Assigned.Quarantined {
		t.Error("the disk says that clients are kept away, and they are not")
	}
}

// The program cannot be started for a while, and is then, for the URLs that the record says.
func TestAQuarantineThatCannotBeStartedIsUndone(t *testing.T) {
	h := bootstrapped(t)
	etcd := filepath.Join(h.bins, "etcd-v"+writes.String(), "etcd")
	h.forget()
	if err := os.Rename(etcd, etcd+".kept"); err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock() // see fakes
	err := os.WriteFile(etcd, []byte("no program"), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, h.do(&plan.QuarantineSet{Node: "a"}), "exec format error")
	if err := os.Rename(etcd+".kept", etcd); err != nil {
		t.Fatal(err)
	}
	if got := h.env("ETCD_LISTEN_CLIENT_URLS"); h.disk().Assigned.Quarantined || !strings.HasSuffix(got, ":2") {
		t.Errorf("it listens on %s, and the record says %+v", got, h.disk().Assigned)
	}
}

func TestQuarantineOfAStoppedMemberIsForItsNextStart(t *testing.T) {
	h := bootstrapped(t)
	h.must(stop(), &plan.QuarantineSet{Node: "a"})
	if h.pid() != 0 {
		t.Fatal("it was started")
	}
	h.forget()
	h.must(start(plan.StartRestart))
	if got := h.env("ETCD_LISTEN_CLIENT_URLS"); !strings.HasSuffix(got, ":3") {
		t.Errorf("it listens on %s", got)
	}
}

func TestAnInitialMemberInQuarantineStillBootstraps(t *testing.T) {
	h := newHost(t)
	p, s := prepare(), start(plan.StartNew)
	p.Version, s.Version = dataless, dataless
	h.must(p, s)
	h.forget()
	h.must(&plan.QuarantineSet{Node: "a"})
	if got := h.env("ETCD_INITIAL_CLUSTER_STATE"); got != "new" {
		t.Errorf("its start state is %s, and there is no data yet", got)
	}
}

func TestQuarantineWithoutAMemberIsRefused(t *testing.T) {
	newHost(t).refused(&plan.QuarantineSet{Node: "a"}, "no assignment")
}

// failingTLS fails to issue certificates.
type failingTLS func(cluster.URLs) error

func (f failingTLS) Ensure(_ cluster.Token, urls cluster.URLs) (*etcdconf.TLS, error) {
	return nil, f(urls)
}
func (f failingTLS) Client() *tls.Config { return nil }

func TestAStartWithoutCertificatesCanBeDoneAgain(t *testing.T) {
	h := newHost(t)
	h.must(prepare())
	h.o.TLS = failingTLS(func(cluster.URLs) error { return errors.New("the CA is gone") })
	h.Local = NewLocal(h.o)
	wantError(t, h.do(start(plan.StartNew)), "issue etcd's certificates: the CA is gone")
	h.o.TLS = nil
	h.Local = NewLocal(h.o)
	h.must(start(plan.StartNew))
	h.hasData()
}

// backupTaker counts backups, and takes as long as block says.
type backupTaker struct {
	taken int
	block func(ctx context.Context) error
	err   error
}

func (b *backupTaker) Take(ctx context.Context, _ etcdclient.Snapshotter, of BackupOf) (cluster.Backup, error) {
	b.taken++
	if of.Version != writes || of.Node != "a" {
		return cluster.Backup{}, fmt.Errorf("wrong version %s of %s", of.Version, of.Node)
	}
	if b.block != nil {
		return cluster.Backup{}, b.block(ctx)
	}
	return cluster.Backup{Name: "b1"}, b.err
}

var takeBackup = &plan.BackupTake{Node: "a", Reason: "interval"}

func TestEachBackupOperationTakesOne(t *testing.T) {
	b := &backupTaker{}
	h := bootstrapped(t, func(o *LocalOptions) { o.Backups = b })
	h.must(takeBackup, takeBackup)
	if b.taken != 2 {
		t.Errorf("%d were taken", b.taken)
	}
	b.err = errors.New("bucket is full")
	if err := h.do(takeBackup); !errors.Is(err, b.err) {
		t.Errorf("error %v", err)
	}
}

func TestABackupIsRefused(t *testing.T) {
	bootstrapped(t).refused(takeBackup, "no backup store")
	newHost(t, func(o *LocalOptions) { o.Backups = &backupTaker{} }).refused(takeBackup, "no member")
}

func TestALongBackupHoldsUpNothing(t *testing.T) {
	began, end, over := make(chan struct{}), make(chan struct{}), errors.New("it is over")
	b := &backupTaker{block: func(ctx context.Context) error {
		close(began)
		<-end
		return errors.Join(over, ctx.Err())
	}}
	h := bootstrapped(t, func(o *LocalOptions) { o.Backups = b })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- h.Do(ctx, plan.Order{Operation: takeBackup}, nil) }()
	<-began
	if n := h.observe(); n.Process.State != cluster.ProcessRunning {
		t.Errorf("the process is %+v", n.Process)
	}
	h.must(stop()) // nor another operation
	cancel()       // whoever ordered it hangs up
	close(end)
	if err := <-done; !errors.Is(err, over) || errors.Is(err, context.Canceled) {
		t.Errorf("the backup ended with %v", err)
	}
}

func TestObserveAnEmptyNode(t *testing.T) {
	h := newHost(t)
	n, report := h.Observe(t.Context())
	if report != nil || n.Disk.State != cluster.DiskEmpty || n.Assigned != nil ||
		n.Process.State != cluster.ProcessStopped {
		t.Errorf("it is %+v, report %+v", n, report)
	}
	if n.FreeBytes <= 0 || len(n.Versions) < len(scripts) || n.URLs.Client[0] != "http://127.0.0.1:2" {
		t.Errorf("free %d, versions %v, URLs %+v", n.FreeBytes, n.Versions, n.URLs)
	}
}

func TestObservationReportsOfADiskThatCannotBeUnderstood(t *testing.T) {
	h := bootstrapped(t)
	h.must(stop())
	h.loseData()
	h.put("data/t1/holiday.jpg")
	if d := h.observe().Disk; d.State != cluster.DiskUnreadable || !strings.Contains(d.Problem, "holiday.jpg") {
		t.Errorf("the disk is %+v", d)
	}
}

func TestAMemberThatDoesNotAnswerIsNotWaitedFor(t *testing.T) {
	h := bootstrapped(t) // nobody listens on its client URL
	began := time.Now()
	if _, r := h.Observe(t.Context()); r != nil {
		t.Errorf("the report is %+v", r)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the observation took %s", took)
	}
}

func TestAStateFileThatCannotBeWrittenStopsTheOperation(t *testing.T) {
	h := newHost(t)
	if err := h.state.Close(); err != nil { // as good as a disk that fails
		t.Fatal(err)
	}
	if err := h.do(prepare()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("error %v", err)
	}
	if s, err := nodestate.Read(h.o.DataDir); err != nil || s.Prepared != nil {
		t.Errorf("state %+v, %v", s, err)
	}
}
