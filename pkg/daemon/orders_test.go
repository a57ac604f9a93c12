package daemon

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
)

// TestLongOrdersAreCut: anybody with a certificate chooses how long a refused
// order is.
func TestLongOrdersAreCut(t *testing.T) {
	s := newSite(t)
	at := s.now()
	s.orders.now = func() time.Time { return at } // with time, more are kept
	long := &plan.BackupTake{Node: "a", Reason: strings.Repeat("ä", 2<<20)}
	for range 2 * refusalBurst {
		if err := s.ExecuteOrder(t.Context(), rpc.Caller{Name: "stranger"}, order(9, "b", long)); err == nil {
			t.Fatal("the order is obeyed")
		}
	}
	s.orders.note(t.Context(), rpc.Caller{Name: "b"}, order(9, "b", long), s.now(), errors.New(long.Reason), false)
	if len(s.kept) != refusalBurst+1 {
		t.Errorf("%d orders are kept, want %d", len(s.kept), refusalBurst+1)
	}
	for _, e := range s.kept {
		if !strings.HasPrefix(e.Line, "etcdadm backup take --node=a '--reason=ä") || len(e.Line)+len(e.Error) > 3*maxText {
			t.Fatalf("%d bytes of line, %d of error are kept: %.100q", len(e.Line), len(e.Error), e.Line)
		}
	}
	if n := s.log.Len(); n > 4*maxText*len(s.kept) {
		t.Errorf("%d orders make %d bytes of log", len(s.kept), n)
	}
}

// TestOrderIsLoggedBeforeItIsCarriedOut: a daemon that dies has said what it was
// doing.
func TestOrderIsLoggedBeforeItIsCarriedOut(t *testing.T) {
	s := newSite(t)
	s.leaseVoter("a", "b", "c")
	s.confirmed(5, "b", "b", "c")
	e := order(5, "b", discardA)
	e.LeaseVoters = leaseVoters("t1", 1, "a", "b", "c")
	must(t, s.ExecuteOrder(t.Context(), rpc.Caller{Name: "b"}, e))
	log := s.log.String()
	accepted, result := strings.Index(log, "order accepted"), strings.Index(log, "order obeyed")
	if accepted < 0 || result < accepted {
		t.Errorf("the log has\n%s", log)
	}
}
