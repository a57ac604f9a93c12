package apply

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// restorer makes data directories of nothing, as it is ordered to.
type restorer struct {
	calls atomic.Int32
	// step is called with the number of the call, from 1.
	step func(ctx context.Context, call int32, o RestoreOptions) error
}

func (r *restorer) Restore(ctx context.Context, o RestoreOptions) error {
	if r.step != nil {
		if err := r.step(ctx, r.calls.Add(1), o); err != nil {
			return err
		}
	}
	wal := filepath.Join(o.DataDir, "member", "wal")
	if err := os.MkdirAll(wal, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(wal, "0.wal"), []byte("restored"), 0o600)
}

func staging(r *restorer) func(*LocalOptions) {
	return func(o *LocalOptions) { o.Restorer = r }
}

func stageOp() *plan.RestoreStage {
	return &plan.RestoreStage{
		Node: "a", Request: "r1", Backup: "b1", Token: "t2", Version: writes, Revision: 2_000_000_000,
		Voters: initialMembers("a", "b"),
	}
}

func switchOp() *plan.RestoreSwitch {
	return &plan.RestoreSwitch{Node: "a", Token: "t2", ExpectToken: "t1"}
}

func startRestored() *plan.MemberStart {
	return &plan.MemberStart{Node: "a", Token: "t2", Mode: plan.StartNew, Version: writes, Peers: initialMembers("a", "b")}
}

// ready waits until what is staged is ready.
func (h *host) ready() {
	h.t.Helper()
	testwait.Until(h.t, "it is ready", func() bool { s := h.observe().Staged; return s != nil && s.Ready })
}

func TestRestoreBesideWhatRuns(t *testing.T) {
	h := bootstrapped(t, staging(&restorer{step: func(_ context.Context, _ int32, o RestoreOptions) error {
		if o.Name != "a" || !reflect.DeepEqual(o.PeerURLs, []string{"http://127.0.0.1:1"}) || o.Staged.Backup != "b1" ||
			o.Bin.Version != writes {
			t.Errorf("it is to restore %+v", o)
		}
		o.Progress(3, 9)
		return nil
	}}))
	pid := h.pid()
	h.must(stageOp())
	h.ready()
	if h.pid() != pid || h.observe().Process.State != cluster.ProcessRunning {
		t.Error("the member that runs was touched")
	}
	if s := h.observe().Staged; s.Done != 3 || s.Total != 9 || s.Request != "r1" || s.Revision != 2_000_000_000 {
		t.Errorf("staged is %+v", s)
	}
	h.must(switchOp(), switchOp())
	n := h.observe()
	if n.Assigned != nil || n.Staged != nil || n.Disk.State != cluster.DiskEmpty || len(n.SetAside) != 1 ||
		n.Revision != 2_000_000_000 {
		t.Errorf("after it, the node is %+v", n)
	}
	if p := n.Prepared; p == nil || p.Token != "t2" || p.Backup != "b1" || n.LeaseVoters.Token != "t2" ||
		len(n.LeaseVoters.Names) != 2 {
		t.Errorf("it has promised %+v as one of %+v", p, n.LeaseVoters)
	}
	first := startRestored()
	h.must(first, first)
	testwait.Until(h.t, "it runs", func() bool { return h.observe().Process.State == cluster.ProcessRunning })
	if n := h.observe(); !n.Assigned.Quarantined || n.Disk.Token != "t2" || n.Prepared != nil {
		t.Errorf("the restored member is %+v", n)
	}
	if got := h.env("ETCD_LISTEN_CLIENT_URLS"); got != "http://0.0.0.0:3" {
		t.Errorf("it listens for clients at %s", got)
	}
	if got := h.env("ETCD_INITIAL_CLUSTER_STATE"); got != "existing" {
		t.Errorf("it starts as %s", got)
	}
}

// A node never starts as a restored member without the data: it would begin an
// empty cluster.
func TestARestoredMemberNeverStartsEmpty(t *testing.T) {
	h := bootstrapped(t, staging(&restorer{}))
	h.must(stageOp())
	h.ready()
	h.must(switchOp())
	if err := os.RemoveAll(nodestate.RestoreDir(h.o.DataDir, "t2")); err != nil {
		t.Fatal(err)
	}
	h.refused(startRestored(), "the restored data is gone")
}

func TestStagingGoesOnAfterARestart(t *testing.T) {
	begun := make(chan struct{}, 9)
	r := &restorer{step: func(ctx context.Context, call int32, _ RestoreOptions) error {
		begun <- struct{}{}
		if call == 1 {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}}
	h := bootstrapped(t, staging(r))
	h.must(stageOp())
	<-begun
	h.restart()
	h.ready()
	h.restart()
	if s := h.observe().Staged; s == nil || !s.Ready || r.calls.Load() != 2 {
		t.Errorf("after two restarts %+v is staged, in %d tries", s, r.calls.Load())
	}
}

func TestStagingIsTriedAgainUntilItIsRefused(t *testing.T) {
	r := &restorer{step: func(_ context.Context, call int32, _ RestoreOptions) error {
		if call == 1 {
			return errors.New("the store does not answer")
		}
		return &RefusedError{errors.New("snapshot is damaged")}
	}}
	h := bootstrapped(t, staging(r))
	h.must(stageOp())
	testwait.Until(h.t, "it failed", func() bool {
		return h.observe().Staged.Problem == "the store does not answer" && !h.observe().Staged.Refused
	})
	testwait.Until(h.t, "it is refused", func() bool { return h.observe().Staged.Refused })
	if s := h.observe().Staged; s.Problem != "snapshot is damaged" || s.Ready {
		t.Errorf("staged is %+v", s)
	}
	h.refused(switchOp(), "is not ready")
	h.must(&plan.RestoreDiscard{Node: "a", Token: "t2"}, &plan.RestoreDiscard{Node: "a", Token: "t2"})
	if h.observe().Staged != nil {
		t.Error("it is still staged")
	}
	if left, _ := filepath.Glob(filepath.Join(h.o.DataDir, "restore", "*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// Another restore takes the place of the one before, whose files go.
func TestAnotherRestoreReplacesOne(t *testing.T) {
	h := bootstrapped(t, staging(&restorer{}))
	h.must(stageOp())
	h.ready()
	other := stageOp()
	other.Token, other.Backup = "t3", "b3"
	// It was given when nothing was staged, and comes late.
	isStale(t, h.do(other), `incarnation ""`)
	if s := h.observe().Staged; s.Token != "t2" || !s.Ready {
		t.Errorf("after the late order, staged is %+v", s)
	}
	other.Replaces = "t2"
	h.must(other)
	h.ready()
	if s := h.observe().Staged; s.Token != "t3" {
		t.Errorf("staged is %+v", s)
	}
	again := stageOp()
	again.Token, again.Replaces = "t4", "t2"
	isStale(t, h.do(again), `incarnation "t2"`)
	if has, err := nodestate.Staged(h.o.DataDir, "t2"); has || err != nil {
		t.Errorf("the first is still there: %t, %v", has, err)
	}
	isStale(t, h.do(&plan.RestoreSwitch{Node: "a", Token: "t3", ExpectToken: "t9"}), "incarnation t9")
}

// A node that is no voter of the restored cluster only leaves what it runs.
func TestANodeWithoutAPlaceLeaves(t *testing.T) {
	h := bootstrapped(t)
	h.must(switchOp())
	n := h.observe()
	if n.Assigned != nil || n.Prepared != nil || n.Disk.State != cluster.DiskEmpty || len(n.SetAside) != 1 {
		t.Errorf("the node is %+v", n)
	}
	h.must(switchOp())
}

func TestStageRefuses(t *testing.T) {
	h := bootstrapped(t, staging(&restorer{}))
	other := stageOp()
	other.Voters = initialMembers("b")
	h.refused(other, "a is not one of the voters")
	same := stageOp()
	same.Token = "t1"
	h.refused(same, "already switched to incarnation t1")
	without := bootstrapped(t)
	without.refused(stageOp(), "no backup store")
}

func TestMembersAgreeBeforeClientsComeIn(t *testing.T) {
	for name, tt := range map[string]struct {
		revisions map[string]cluster.Revision
		hashes    map[string]uint32
		want      string
	}{
		"all the same": {
			map[string]cluster.Revision{"http://a:8001": 900, "http://b:8001": 901, "http://c:8001": 900}, map[string]uint32{
				"http://a:8001": 7, "http://b:8001": 7, "http://c:8001": 7,
			}, "",
		},
		"one differs": {
			map[string]cluster.Revision{"http://a:8001": 900, "http://b:8001": 900, "http://c:8001": 900}, map[string]uint32{
				"http://a:8001": 7, "http://b:8001": 8, "http://c:8001": 7,
			}, "b has 8",
		},
		"one is not so far on": {
			map[string]cluster.Revision{"http://a:8001": 900, "http://b:8001": 12, "http://c:8001": 900}, nil,
			"one has revision 12",
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := newStage()
			st.revisions, st.hashes = tt.revisions, tt.hashes
			for i := range st.obs.Nodes {
				if a := st.obs.Nodes[i].Assigned; a != nil {
					a.Quarantined = true
				}
			}
			err := st.do(t, &plan.QuarantineLift{Node: "a", ExpectRevision: 900})
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantError(t, err, tt.want)
		})
	}
}
