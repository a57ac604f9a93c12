package apply

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// Operations for a node, valid on a new stage.
var (
	stopC   = &plan.MemberStop{Node: "c", ExpectToken: "t1", ExpectMemberID: 3}
	backupB = &plan.BackupTake{Node: "b", Reason: "interval"}
)

func TestANodeIsReportedTheTermThatWasProven(t *testing.T) {
	st := newStage()
	if err := st.do(t, stopC); err != nil {
		t.Fatal(err)
	}
	st.said(t, "send in term 1: member stop")
}

func TestANodesErrorIsReturnedAtOnce(t *testing.T) {
	st := newStage()
	broken := errors.New("disk full")
	st.execute = func(context.Context, cluster.Term) error { return broken }
	if err := st.do(t, stopC); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	st.said(t, "send in term 1: member stop")
}

func TestALongOperationIsSentAgainUnderANewProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		node := time.Now().Add(7 * time.Second) // when the node has done it
		st.execute = func(ctx context.Context, _ cluster.Term) error {
			select {
			case <-time.After(time.Until(node)):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := st.do(t, stopC); err != nil {
			t.Fatal(err)
		}
		st.said(t, "send in term 1: member stop", "send again in term 2: member stop", "send again in term 3: member stop")
	})
}

// lateContext is one whose deadline is over, and whose timer has not run yet.
type lateContext struct{ context.Context }

func (c lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

func TestAnOrderThatIsBrokenOffAtTheEndOfTheProofIsSentAgain(t *testing.T) {
	st := newStage()
	st.confirms = func(ctx context.Context) context.Context { return lateContext{ctx} }
	st.execute = func(context.Context, cluster.Term) error {
		if st.confirmed == 1 {
			return errors.New("the stream was terminated")
		}
		return nil
	}
	if err := st.do(t, stopC); err != nil {
		t.Fatal(err)
	}
	st.said(t, "send in term 1: member stop", "send again in term 2: member stop")
	// A backup is not.
	st = newStage()
	broken := errors.New("the stream was terminated")
	st.confirms = func(ctx context.Context) context.Context { return lateContext{ctx} }
	st.execute = func(context.Context, cluster.Term) error { return broken }
	if err := st.do(t, backupB); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	st.said(t, "send in term 1: backup take")
}

func TestSendingEndsWhenTheLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		st.execute = func(ctx context.Context, _ cluster.Term) error {
			<-ctx.Done()
			st.lost = errors.New("c has the lease")
			return ctx.Err()
		}
		if err := st.do(t, stopC); !errors.Is(err, st.lost) {
			t.Errorf("error %v", err)
		}
		st.said(t, "send in term 1: member stop")
	})
}

func TestSendingEndsAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		st.execute = func(ctx context.Context, _ cluster.Term) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		if err := st.do(t, stopC); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took != quickDeadline {
			t.Errorf("it took %s, want %s", took, quickDeadline)
		}
		if n := len(st.protocol); n != 7 {
			t.Errorf("it was sent %d times in 20 s, with proofs of 3 s", n)
		}
	})
}

func TestSendingEndsWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		st.execute = func(ctx context.Context, _ cluster.Term) error { <-ctx.Done(); return ctx.Err() }
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		err := st.coordinator().Do(ctx, cluster.Spec{}, st.obs, stopC)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		st.said(t, "send in term 1: member stop")
	})
}

func TestABackupIsSentOnceAndMayOutliveTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		st.execute = func(ctx context.Context, _ cluster.Term) error {
			select {
			case <-time.After(10 * time.Minute):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := st.do(t, backupB); err != nil {
			t.Fatal(err)
		}
		st.said(t, "send in term 1: backup take")

		st = newStage()
		st.execute = func(ctx context.Context, _ cluster.Term) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		if err := st.do(t, backupB); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		st.said(t, "send in term 1: backup take")
		if took := time.Since(began); took != backupDeadline {
			t.Errorf("it took %s, want %s", took, backupDeadline)
		}
	})
}

// A node may obey late: by then the other voters have to serve still. Whether they do is
// not a matter of how long the member that is being changed lets one wait.
func TestAChangeOfVersionIsSentAgainOnlyWhileTheOthersServe(t *testing.T) {
	const b, c = "http://b:4001", "http://c:4001"
	old, to := etcdversion.Must("3.6.16"), etcdversion.Must("3.6.17")
	changed := map[string]etcdversion.Version{c: to}
	for name, tt := range map[string]struct {
		meanwhile func(*stage)
		sent      int // three times, unless it is refused
	}{
		"another one serves no more":           {func(st *stage) { st.late = []string{b} }, 1},
		"another one serves no more, it began": {func(st *stage) { st.late, st.versions = []string{b}, changed }, 3},
		"the member is starting again":         {func(st *stage) { st.unreachable = []string{c} }, 3},
		"both":                                 {func(st *stage) { st.unreachable, st.late = []string{c}, []string{b} }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newStage()
				st.proof = lease.DefaultTTL - lease.Margin(lease.DefaultTTL) // as short as in production
				st.obs.Nodes[2].Versions = []etcdversion.Version{old, to}
				for i := range st.obs.Members {
					st.obs.Members[i].Version = old
				}
				sent := 0
				st.execute = func(ctx context.Context, _ cluster.Term) error {
					if ctx.Err() != nil {
						t.Fatal("it is sent when the proof is over")
					}
					if sent++; sent == 3 {
						return nil
					}
					tt.meanwhile(st)
					<-ctx.Done()
					return ctx.Err()
				}
				err := st.do(t, &plan.MemberChangeVersion{
					Node: "c", ExpectToken: "t1", ExpectMemberID: 3, ExpectVersion: old, To: to,
				})
				if unsafe := new(plan.UnsafeError); sent != tt.sent || (tt.sent == 3) != (err == nil) ||
					err != nil && !errors.As(err, &unsafe) {
					t.Errorf("it was sent %d times, want %d, and ended with %v", sent, tt.sent, err)
				}
			})
		})
	}
}
