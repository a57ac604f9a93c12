package apply

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// mayChangeVersion makes sure, each time that a node is ordered to change its member's
// version, that every other voter serves, each by itself, and that the member does
// not lead them: the cluster may have changed since it was observed, or since the
// node was ordered to for the first time. The node looks once more, see [nodeobserve.Observer.OthersServe]:
// the order may come to it late. An alarm counts here, unlike in newVotersServe: a member with one
// may not start again.
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
	// At the same time: one that is starting may take all of it.
	var asking sync.WaitGroup
	var answers int
	asking.Go(func() {
		answers = passing(obs, target, func(urls []string, m cluster.Member) bool {
			r, err := reportOf(ctx, c.Etcd, urls, m.ID)
			begun.Store(err == nil && r.Version == change.To)
			return err == nil
		})
	})
	serve := passing(obs, others, func(urls []string, m cluster.Member) bool {
		r, err := reportOf(ctx, c.Etcd, urls, m.ID)
		return err == nil && r.Leader != 0 && r.Leader != change.ExpectMemberID && r.Read == cluster.ReadServed &&
			len(r.Alarms) == 0
	})
	if serve == len(others) {
		cancel() // then it matters to nobody whether the member answers
	}
	asking.Wait()
	// Where it is down and the others are no majority, they cannot serve, and it is
	// needed again whatever they do.
	if down := answers < len(target); begun.Load() || down && len(others) < cluster.Quorum(len(others)+1) {
		return nil
	}
	if serve < len(others) {
		return &plan.UnsafeError{
			Invariant: "quorum", Text: fmt.Sprintf("of the %d other voters, %d serve now without %s leading", len(others), serve,
				change.Node),
		}
	}
	return nil
}
