package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc/election"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/node/apply"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/testing/testport"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
)

var (
	liftB = &plan.QuarantineLift{Node: "b"}
	stopC = &plan.MemberStop{Node: "c", ExpectToken: "t1", ExpectMemberID: 3}
)

// quarantined is a cluster in which something is to be done: b is closed.
func quarantined(t *testing.T) *testCluster {
	t.Helper()
	w := newTestCluster(t, nil)
	w.change("b", func(d *daemon) { d.node.Assigned.Quarantined = true })
	return w
}

func TestACommandActsUnderALeaseOfItsOwn(t *testing.T) {
	w := quarantined(t)
	c := w.connect()
	must(t, c.Do(within(t, time.Minute), liftB))
	if got := w.ran(); got != "b: quarantine lift" {
		t.Errorf("it ran %s", got)
	}
	if g := w.holder(); !g.Released {
		t.Errorf("the lease is still there: %+v", g)
	}
	must(t, c.Do(within(t, time.Minute), liftB))
	if got := w.ran(); got != "b: quarantine lift" {
		t.Errorf("what was done already was done again: %s", got)
	}
}

// A caller that waits for the daemons learns that they have answered before the operation begins, and not where
// none does.
func TestACommandSaysThatTheDaemonsHaveAnswered(t *testing.T) {
	w := quarantined(t)
	answered := 0
	c := w.connect(func(o *ConnectOptions) {
		o.Answered = func() {
			if answered++; answered == 1 && w.ran() != "" {
				t.Errorf("it ran before: %s", w.ran())
			}
		}
	})
	must(t, c.Do(within(t, time.Minute), liftB))
	if answered == 0 {
		t.Error("the daemons have not answered")
	}
	gone := t.TempDir()
	s, err := store.Open(t.Context(), gone)
	must(t, err)
	must(t, s.PutNode(t.Context(), store.NodeRecord{Name: "b", Address: testport.Address(t), Boot: "boot-b"}))
	none := w.connect(func(o *ConnectOptions) {
		o.Nodes, o.BackupStore = nil, gone
		o.Answered = func() { t.Error("nobody has answered") }
	})
	if err := none.Do(within(t, time.Minute), liftB); err == nil {
		t.Error("it was done without a daemon")
	}
}

func TestWhatIsUnsafeIsRefusedAtOnce(t *testing.T) {
	w := newTestCluster(t, nil)
	c := w.connect()
	testwait.InTime(t, "what is refused at once", 5*time.Second, func() {
		var stale *plan.StaleError
		if err := c.Do(within(t, time.Minute), &plan.MemberStop{Node: "c", ExpectToken: "t0"}); !errors.As(err, &stale) {
			t.Errorf("error %v", err)
		}
		var unsafe *plan.UnsafeError
		if err := c.Do(within(t, time.Minute), &plan.DataSetAside{Node: "c", Token: "t1", ExpectMemberID: 3}); !errors.As(
			err, &unsafe) {
			t.Errorf("error %v", err)
		}
	})
	if w.ran() != "" || w.holder().Term != 0 {
		t.Errorf("it ran %q under the lease %+v", w.ran(), w.holder())
	}
}

// Other data under the name than expected is not what was deleted before; no data
// under it is.
func TestOtherDataOfTheNameIsStale(t *testing.T) {
	w := newTestCluster(t, nil)
	at := time.Now().Add(-30 * 24 * time.Hour)
	w.change("b", func(d *daemon) { d.node.SetAside = []cluster.SetAside{{Name: "old", At: at}} })
	c := w.connect()
	var stale *plan.StaleError
	other := &plan.DataDiscard{Node: "b", Name: "old", ExpectAt: plan.MomentOf(at.Add(-time.Hour))}
	if err := c.Do(within(t, time.Minute), other); !errors.As(err, &stale) || stale.Got != string(plan.MomentOf(at)) {
		t.Errorf("error %v", err)
	}
	must(t, c.Do(within(t, time.Minute), &plan.DataDiscard{Node: "b", Name: "gone", ExpectAt: plan.MomentOf(at)}))
	if w.ran() != "" {
		t.Errorf("it ran %q", w.ran())
	}
}

// givesUp has a command give up when its time is over, with an error that is right. On a
// busy machine it does not get that far in a short time.
func givesUp(t *testing.T, c *Client, op plan.Operation, right func(error) bool) {
	t.Helper()
	var err error
	for limit := time.Second; limit < time.Minute; limit *= 2 {
		err = c.Do(within(t, limit), op)
		if err == nil {
			break
		}
		if errors.Is(err, context.DeadlineExceeded) && right(err) {
			return
		}
	}
	t.Errorf("error %v", err)
}

func TestQuorumIsWaitedFor(t *testing.T) {
	w := newTestCluster(t, nil)
	w.change("b", func(d *daemon) { d.report = nil })
	c := w.connect()
	givesUp(t, c, stopC, func(err error) bool {
		var unsafe *plan.UnsafeError
		return errors.As(err, &unsafe) && strings.Contains(err.Error(), "gave up waiting")
	})
	back := time.AfterFunc(300*time.Millisecond, func() {
		w.change("b", func(d *daemon) {
			d.report = &cluster.Report{ID: 2, Leader: 1, RaftTerm: 3}
		})
	})
	defer back.Stop()
	must(t, c.Do(within(t, time.Minute), stopC))
	if got := w.ran(); got != "c: member stop" {
		t.Errorf("it ran %s", got)
	}
}

func TestACoordinatorIsNotPushedAside(t *testing.T) {
	w := quarantined(t)
	now := time.Now()
	w.still.Store(&now) // the coordinator may be late to renew its lease
	coordinator := w.coordinate()
	defer coordinator()
	c := w.connect()
	var err error
	testwait.InTime(t, "the refusal", 5*time.Second, func() { err = c.Do(within(t, time.Minute), liftB) })
	var refused *LeaseError
	var held *lease.HeldError
	if !errors.As(err, &refused) || !errors.As(err, &held) || held.Holder != "a" {
		t.Fatalf("error %v", err)
	}
	if refused.Kind() != "refused" || !strings.Contains(refused.Hint(), "pause") ||
		!strings.Contains(err.Error(), "a coordinates") {
		t.Errorf("kind %s, hint %q, error %v", refused.Kind(), refused.Hint(), err)
	}
	if w.ran() != "" {
		t.Errorf("it ran %q", w.ran())
	}
}

// coordinate has a hold the lease until the returned function is called.
func (w *testCluster) coordinate() func() {
	w.t.Helper()
	l := newLease(election.New(election.Options{Cluster: "main", Self: "a", Boot: "boot", Voters: direct{w}}), time.Now,
		nil, nil)
	must(w.t, l.Acquire(w.t.Context(), record()))
	return func() {
		l.Release(w.t.Context())
		l.Close()
	}
}

type direct struct{ *testCluster }

func (d direct) Lease(ctx context.Context, node cluster.NodeName, req lease.Request) (lease.Reply, error) {
	return d.nodes[node].voter.Lease(ctx, req)
}

func TestACoordinatorThatIsAskedToPauseIsWaitedFor(t *testing.T) {
	w := quarantined(t)
	dir := t.TempDir()
	s, err := store.Open(t.Context(), dir)
	must(t, err)
	w.publish(s)
	_, err = s.PutRequest(t.Context(), cluster.Request{
		Kind: cluster.RequestPause, At: time.Now(), By: "eve", Reason: "repair",
	})
	must(t, err)
	release := w.coordinate()
	yields := time.AfterFunc(500*time.Millisecond, release) // it sees the request, and gives the lease back
	defer yields.Stop()
	c := w.connect(func(o *ConnectOptions) { o.BackupStore = dir })
	must(t, c.Do(within(t, time.Minute), liftB))
	if got := w.ran(); got != "b: quarantine lift" {
		t.Errorf("it ran %s", got)
	}
}

func TestWhatIsDoneByHandIsInTheHistory(t *testing.T) {
	w := quarantined(t)
	dir := t.TempDir()
	s, err := store.Open(t.Context(), dir)
	must(t, err)
	w.publish(s)
	c := w.connect(func(o *ConnectOptions) { o.BackupStore = dir })
	must(t, c.Do(within(t, time.Minute), liftB))
	must(t, c.Do(within(t, time.Minute), liftB)) // done already
	list, err := s.History(t.Context())
	must(t, err)
	if len(list) != 1 || list[0].Line != plan.Line(liftB) || list[0].Why != "by hand" ||
		!strings.HasPrefix(string(list[0].By), "operator-") || list[0].At.IsZero() {
		t.Errorf("the history is %+v", list)
	}
}

func TestANodesRefusalIsTheAnswer(t *testing.T) {
	w := quarantined(t)
	w.change("b", func(d *daemon) { d.fail = &rpc.Error{Kind: rpc.Refused, Text: "no assignment", Hint: "observe again"} })
	err := w.connect().Do(within(t, time.Minute), liftB)
	if rpc.KindOf(err) != rpc.Refused || rpc.HintOf(err) != "observe again" ||
		!strings.Contains(err.Error(), "no assignment") {
		t.Errorf("error %v", err)
	}
	if !w.holder().Released {
		t.Error("the lease is kept after a failure")
	}
}

func TestAnEffectThatDoesNotShowIsSaid(t *testing.T) {
	w := quarantined(t)
	w.change("b", func(d *daemon) { d.deaf = true })
	givesUp(t, w.connect(), liftB, func(err error) bool {
		return strings.Contains(err.Error(), "quarantine lift was carried out, but its effect does not show")
	})
}

func TestABackupIsDoneWhenItsOrderReturns(t *testing.T) {
	w := newTestCluster(t, nil)
	must(t, w.connect().Do(within(t, time.Minute), &plan.BackupTake{Node: "b", Reason: "request"}))
	if got := w.ran(); got != "b: backup take" {
		t.Errorf("it ran %s", got)
	}
}

func TestWhatIsWaitedFor(t *testing.T) {
	lost := &election.LostError{}
	held := &lease.HeldError{Holder: "a", Err: &election.LostError{Holder: "a"}}
	paused := cluster.Observation{Store: cluster.Store{Requests: []cluster.Request{{Kind: cluster.RequestPause}}}}
	promote := &plan.Promote{Name: "d", ExpectVoters: 3}
	for _, tc := range []struct {
		name   string
		err    error
		op     plan.Operation
		obs    cluster.Observation
		waited time.Duration
		want   bool
	}{
		{"a learner that catches up", etcdclient.ErrNotReady, promote, paused, time.Hour, true},
		{"members that connect", etcdclient.ErrUnhealthy, promote, paused, time.Hour, true},
		{"quorum", &plan.UnsafeError{Invariant: "quorum"}, stopC, paused, time.Hour, true},
		{"what passes", &plan.UnsafeError{Invariant: "version", Passes: true}, stopC, paused, time.Hour, true},
		{"no backup", &plan.UnsafeError{Invariant: "backup"}, stopC, paused, 0, false},
		{"a learner's name", &plan.StaleError{}, promote, paused, nameTime - 1, true},
		{"a learner's name, too long", &plan.StaleError{}, promote, paused, nameTime, false},
		{"any other stale belief", &plan.StaleError{}, stopC, paused, 0, false},
		{"a coordinator", &LeaseError{held}, stopC, cluster.Observation{}, 0, false},
		{"a coordinator that was asked to pause", &LeaseError{held}, stopC, paused, yieldTime - 1, true},
		{"a coordinator that does not pause", &LeaseError{held}, stopC, paused, yieldTime, false},
		{"lease voters between two holders", &LeaseError{lost}, stopC, cluster.Observation{}, yieldTime - 1, true},
		{"lease voters, too long", &LeaseError{lost}, stopC, cluster.Observation{}, yieldTime, false},
		{"a precondition", apply.ErrPrecondition, stopC, paused, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := clears(fmt.Errorf("outer: %w", tc.err), tc.op, tc.obs, tc.waited); got != tc.want {
				t.Errorf("waited for: %t", got)
			}
		})
	}
}
