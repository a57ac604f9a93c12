package apply

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/nodeobserve"
)

// servesTime is how long the voters of the new member list may take to serve a
// read, and a learner to follow.
const servesTime = 2 * time.Second

// newVotersServe makes sure, right before a voter is removed or a learner
// promoted, that a majority of the voters that there are afterwards serve, each by
// itself: the cluster may have changed since it was observed. etcd's own check
// counts who is connected, and compares indexes. A voter is asked for a read
// through the quorum, and an alarm does not count against it: what matters is that
// it votes. A learner serves none: it has to apply what the voters have applied when
// they are asked.
//
// It does not find every disk that hangs: while nobody writes, a member serves
// such reads from memory. The nodes measure their disks for that, see
// [plan.Check].
func newVotersServe(ctx context.Context, connect func(clientURLs []string) (Etcd, error), obs cluster.Observation,
	op plan.Operation) error {
	var voters, learner []cluster.Member
	changes := false
	for _, m := range obs.Members {
		switch op := op.(type) {
		case *plan.Remove:
			if m.ID == op.ID {
				changes = !m.Learner // a learner has no vote that could be missed
				continue
			}
		case *plan.Promote:
			if m.Name == op.Name && m.Learner {
				learner, changes = []cluster.Member{m}, true
			}
		}
		if !m.Learner {
			voters = append(voters, m)
		}
	}
	if !changes {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, servesTime)
	defer cancel()
	var applied atomic.Uint64
	count := passing(obs, voters, func(urls []string, m cluster.Member) bool {
		r, err := reportOf(ctx, connect, urls, m.ID)
		if err != nil || r.Leader == 0 || r.Read == cluster.ReadLate {
			return false
		}
		for old := applied.Load(); old < r.Applied && !applied.CompareAndSwap(old, r.Applied); old = applied.Load() {
		}
		return true
	})
	total, need := len(voters)+len(learner), cluster.Quorum(len(voters)+len(learner))
	if count < need && len(learner) > 0 {
		count += passing(obs, learner, func(urls []string, m cluster.Member) bool {
			return followsUp(ctx, connect, urls, m.ID, applied.Load())
		})
	}
	if count < need {
		return &plan.UnsafeError{
			Invariant: "quorum", Text: fmt.Sprintf("of the %d voters that there would be, %d serve now, a majority is %d", total,
				count, need),
		}
	}
	return nil
}

// passing asks all healthy members of a list at the same time, each at its own URL,
// and counts those that pass.
func passing(obs cluster.Observation, list []cluster.Member, pass func(urls []string, m cluster.Member) bool) int {
	var wg sync.WaitGroup
	var count atomic.Int64
	for _, m := range list {
		urls := servedURLs(obs, m)
		if !m.Healthy || len(urls) == 0 {
			continue
		}
		wg.Go(func() {
			if pass(urls[:1], m) {
				count.Add(1)
			}
		})
	}
	wg.Wait()
	return int(count.Load())
}

// followsUp reports whether a member applies an index before ctx ends.
func followsUp(ctx context.Context, connect func(clientURLs []string) (Etcd, error), urls []string, id cluster.MemberID,
	index uint64) bool {
	for {
		r, err := reportOf(ctx, connect, urls, id)
		if err == nil && r.Leader != 0 && r.Applied >= index {
			return true
		}
		if wait.For(ctx, 100*time.Millisecond) != nil {
			return false
		}
	}
}

// reportOf asks one member about itself.
func reportOf(ctx context.Context, connect func(clientURLs []string) (Etcd, error), urls []string,
	id cluster.MemberID) (cluster.Report, error) {
	etcd, err := connect(urls)
	if err != nil {
		return cluster.Report{}, err
	}
	defer func() { _ = etcd.Close() }()
	return nodeobserve.ReportOf(ctx, etcd, urls[0], id)
}
