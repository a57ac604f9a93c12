package apply

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
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

// Of two voters both are needed: with a learner that does not follow, whatever it
// is that keeps it, the promotion would take the majority. etcd is content with nine
// tenths of the log.
func TestNoLearnerIsPromotedWhoseVoteIsNeededAndThatDoesNotFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStage()
		st.obs.Members = append(st.obs.Members[:1:1], cluster.Member{
			ID: 9, Name: "d", Learner: true, Healthy: true, ClientURLs: []string{"http://d:4001"},
		})
		st.obs.Nodes[3].URLs.Client = []string{"http://d:4001"}
		st.obs.LeaseVoters.Names = []cluster.NodeName{"a", "d"}
		st.members = slices.Clone(st.obs.Members)
		st.applied = map[string]uint64{"http://a:4001": 100, "http://d:4001": 95}
		promote := &plan.Promote{Name: "d", ExpectVoters: 1}
		err := st.do(t, promote)
		var unsafe *plan.UnsafeError
		if !errors.As(err, &unsafe) || unsafe.Invariant != "quorum" {
			t.Errorf("it ended with %v", err)
		}
		st.applied["http://d:4001"] = 100
		if err := st.do(t, promote); err != nil {
			t.Error(err)
		}
	})
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
