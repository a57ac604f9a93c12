package apply

import (
	"errors"
	"slices"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/plan"
)

// A disk may begin to hang after the observation that a removal is decided by.
func TestNoVoterIsRemovedWhileTheOthersDoNotServe(t *testing.T) {
	st := newStage()
	st.late = []string{"http://b:4001"}
	err := st.do(t, removeC)
	var unsafe *plan.UnsafeError
	if !errors.As(err, &unsafe) || unsafe.Invariant != "quorum" {
		t.Errorf("with b late, the removal of c ended with %v", err)
	}
	st.said(t, "close", "close", "close")
	// The one that goes need not serve.
	st = newStage()
	st.late = []string{"http://c:4001"}
	if err := st.do(t, removeC); err != nil {
		t.Error(err)
	}
}

func TestALateVoterIsAskedOnlyWhereNobodyElseServes(t *testing.T) {
	st := newStage()
	st.obs.Members[1].Condition = cluster.Late
	if got := clientURLs(st.obs); !slices.Equal(got, []string{"http://a:4001", "http://c:4001"}) {
		t.Errorf("asked at %v", got)
	}
	for i := range st.obs.Members {
		st.obs.Members[i].Condition = cluster.Late
	}
	if got := clientURLs(st.obs); len(got) != 3 {
		t.Errorf("where all are late, asked at %v", got)
	}
}
