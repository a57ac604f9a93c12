package apply

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// mayChangeVersion makes sure, each time that a node is told to change its member's
// version, that every other voter serves, each by itself, and that the member does
// not lead them: the cluster may have changed since it was observed, or since the
// node was told for the first time. A node obeys before the proof of the lease ends
// that it was told under, so what is found here is that old at most.
func (c *Coordinator) mayChangeVersion(ctx context.Context, obs cluster.Observation, op plan.Operation) error {
	change, ok := op.(*plan.MemberChangeVersion)
	if !ok || plan.Done(obs, op) {
		return nil
	}
	var others, target []cluster.Member
	for _, m := range obs.Members {
		switch {
		case m.ID == change.ExpectMemberID:
			target = append(target, m)
		case !m.Learner:
			others = append(others, m)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, servesTime)
	defer cancel()
	var begun atomic.Bool
	answers := passing(obs, target, func(urls []string, m cluster.Member) bool {
		r, err := reportOf(ctx, c.Etcd, urls, m.ID)
		begun.Store(err == nil && r.Version == change.To)
		return err == nil
	})
	// Where it is down and the others are no majority, they cannot serve, and it is
	// needed again whatever they do.
	if down := answers < len(target); begun.Load() || down && len(others) < cluster.Quorum(len(others)+1) {
		return nil
	}
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
