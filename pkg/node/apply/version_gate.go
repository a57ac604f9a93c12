package apply

import (
	"context"
	"fmt"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// mayChangeVersion makes sure, right before a member changes its version, that
// every other voter serves, each by itself, and that the member does not lead
// them: the cluster may have changed since it was observed.
func (c *Coordinator) mayChangeVersion(ctx context.Context, obs cluster.Observation, op plan.Operation) error {
	change, ok := op.(*plan.MemberChangeVersion)
	if !ok || plan.Done(obs, op) {
		return nil
	}
	var others []cluster.Member
	for _, m := range obs.Members {
		if !m.Learner && m.ID != change.ExpectMemberID {
			others = append(others, m)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, servesTime)
	defer cancel()
	serve := passing(obs, others, func(urls []string, m cluster.Member) bool {
		r, err := reportOf(ctx, c.Etcd, urls, m.ID)
		return err == nil && r.Leader != 0 && r.Leader != change.ExpectMemberID && r.Read == cluster.ReadServed &&
			len(r.Alarms) == 0
	})
	if serve < len(others) {
		return &plan.UnsafeError{
			Invariant: "quorum", Text: fmt.Sprintf("of the %d other voters, %d serve now without %s leading", len(others), serve,
				change.Node),
		}
	}
	return nil
}
