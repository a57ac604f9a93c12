package apply

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

// evicted is a cluster of which node d was a member until a moment ago: its
// process runs, and its data is of the present incarnation.
func evicted() *stage {
	st := newStage()
	d := &st.obs.Nodes[3]
	d.Assigned = &cluster.Assigned{Token: "t1", Version: writes}
	d.Disk = cluster.Disk{State: cluster.DiskData, Token: "t1", MemberID: 9}
	d.Process.State = cluster.ProcessRunning
	return st
}

var (
	stopD  = &plan.MemberStop{Node: "d", ExpectToken: "t1", ExpectMemberID: 9}
	asideD = &plan.DataSetAside{Node: "d", Token: "t1", ExpectMemberID: 9}
)

func TestWhoIsTakenForEvictedIsObservedUpInTheQuorum(t *testing.T) {
	st := evicted()
	if err := st.do(t, stopD); err != nil {
		t.Fatal(err)
	}
	st.said(t, "close", "send in term 1: member stop")

	// The list has changed since the observation: perhaps d is a member again.
	st = evicted()
	st.members = append(st.members, cluster.Member{ID: 9, Name: "d", Learner: true})
	isStale(t, st.do(t, stopD), "9 learner")
	st.said(t, "close")

	st = evicted()
	st.obs.Nodes[3].Process.State = cluster.ProcessStopped
	st.members = st.members[:2]
	isStale(t, st.do(t, asideD), "expected members 1 voter")
	st.said(t, "close")

	// Nobody answers: nothing is moved on a belief.
	st = evicted()
	st.etcdErr = errors.New("no endpoint")
	if err := st.do(t, stopD); !errors.Is(err, st.etcdErr) {
		t.Errorf("error %v", err)
	}
	st.said(t)
}

func TestDataOfAnEndedIncarnationNeedsNoQuorum(t *testing.T) {
	st := evicted()
	st.etcdErr = errors.New("no endpoint")
	st.obs.Nodes[3].Disk.Token = "t0"
	op := *stopD
	op.ExpectToken = "t0"
	if err := st.do(t, &op); err != nil {
		t.Fatal(err)
	}
	st.said(t, "send in term 1: member stop")
}

// unproven is a stage whose lease voters are not known: there is no term.
type unproven struct{ *stage }

func (u unproven) Confirm(ctx context.Context) (context.Context, context.CancelFunc, cluster.Term, error) {
	ctx, cancel := context.WithCancel(ctx)
	return ctx, cancel, 0, nil
}

func TestWithoutATermOnlyABootstrapGoesOn(t *testing.T) {
	initialMember := []cluster.InitialMember{{Name: "d", PeerURLs: []string{"http://d:2380"}}}
	bootstrap := func() *stage {
		st := newStage()
		n := st.obs.Nodes[3]
		n.Address = "10.0.0.4:8000"
		n.Prepared = &cluster.Prepared{Token: "t1", Version: writes, Voters: initialMember}
		st.obs = cluster.Observation{
			At: noon, Nodes: []cluster.Node{n}, Store: cluster.Store{Reachable: true, BackupsKnown: true, SpecMissing: true},
		}
		return st
	}
	for _, tc := range []struct {
		op   plan.Operation
		goes bool
	}{
		{&plan.MemberPrepare{Node: "d", Token: "t1", Version: writes, Voters: initialMember}, true},
		{&plan.IncarnationCreate{Number: 1, Token: "t1", Version: writes, Voters: initialMember}, true},
		{&plan.SpecWrite{MemberCount: 1, EtcdVersion: writes}, false},
		{&plan.DataDiscard{Node: "d", Name: "old", ExpectAt: "2026-01-01T00:00:00Z"}, false},
		{mark, false},
	} {
		st := bootstrap()
		c := st.coordinator()
		c.Fence = unproven{st}
		err := c.Do(t.Context(), cluster.Spec{}, st.obs, tc.op)
		if tc.goes && (err != nil || len(st.protocol) != 1) || !tc.goes &&
			(!errors.Is(err, ErrNoTerm) || len(st.protocol) != 0) {
			t.Errorf("%s: error %v, it did %v", plan.Line(tc.op), err, st.protocol)
		}
		if Bootstraps(tc.op) != tc.goes {
			t.Errorf("%s bootstraps: %t", plan.Line(tc.op), !tc.goes)
		}
	}
	// A lease that remembers the lease voters of what was lost proves nothing any more.
	st := bootstrap()
	st.lost = errors.New("no majority of the lease voters")
	if err := st.do(t, &plan.MemberPrepare{Node: "d", Token: "t1", Version: writes, Voters: initialMember}); err != nil {
		t.Errorf("where nothing is left: %v", err)
	}
	// A running cluster whose lease voters do not answer is left alone.
	st = newStage()
	c := st.coordinator()
	c.Fence = unproven{st}
	op := &plan.RequestClose{Name: "r", Outcome: plan.OutcomeDone}
	if err := c.Do(t.Context(), cluster.Spec{}, st.obs, op); !errors.Is(err, ErrNoTerm) {
		t.Errorf("error %v", err)
	}
	st.said(t)
}

// reader reads the member, as a real backup does.
type reader struct{}

func (reader) Take(ctx context.Context, s etcdclient.Snapshotter, _ BackupOf) (cluster.Backup, error) {
	r, err := s.Snapshot(ctx)
	if err != nil {
		return cluster.Backup{}, err
	}
	return cluster.Backup{}, r.Close()
}

func TestABackupOfAnUnreachableMemberIsGivenUpSoon(t *testing.T) {
	t.Parallel()
	h := bootstrapped(t, func(o *LocalOptions) { o.Backups = reader{} }) // nobody listens on its client URL
	testwait.InTime(t, "a backup of a member that does not answer", 15*time.Second, func() {
		if err := h.do(takeBackup); err == nil {
			t.Error("there is a backup of a member that does not answer")
		}
	})
}

func TestTheListIsComparedByIDAndVote(t *testing.T) {
	a := []cluster.Member{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}}
	b := []cluster.Member{{ID: 2, Name: "b", ClientURLs: []string{"x"}}, {ID: 1}}
	if err := sameList(a, b); err != nil {
		t.Errorf("the same members in another order: %v", err)
	}
	if !slices.Equal([]cluster.MemberID{b[0].ID, b[1].ID}, []cluster.MemberID{2, 1}) {
		t.Error("the list was sorted in place")
	}
	isStale(t, sameList(a, b[:1]), "2 voter; , found 1 voter; 2 voter; ")
}
