package apply

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/plan"
)

// servesTime is how long the voters that are to stay may take to serve a read.
const servesTime = 2 * time.Second

// othersServe makes sure, right before a voter is removed, that a majority of
// those that stay serve reads through the quorum, each by itself: a disk may
// have begun to hang since the cluster was observed. etcd's own check counts who
// is connected, and one with a hung disk is.
func othersServe(ctx context.Context, connect func(clientURLs []string) (Etcd, error), obs cluster.Observation, id cluster.MemberID) error {
	var stay []cluster.Member
	voter := false
	for _, m := range obs.Members {
		switch {
		case m.Learner:
		case m.ID == id:
			voter = true
		default:
			stay = append(stay, m)
		}
	}
	if !voter {
		return nil // a learner has no vote that could be missed
	}
	ctx, cancel := context.WithTimeout(ctx, servesTime)
	defer cancel()
	var wg sync.WaitGroup
	serves := make([]bool, len(stay))
	for i, m := range stay {
		urls := servedURLs(obs, m)
		if !m.Healthy || len(urls) == 0 {
			continue
		}
		wg.Go(func() { serves[i] = memberServes(ctx, connect, urls[:1], m.ID) })
	}
	wg.Wait()
	count := 0
	for _, s := range serves {
		if s {
			count++
		}
	}
	if need := cluster.Quorum(len(stay)); count < need {
		return &plan.UnsafeError{Invariant: "quorum", Text: fmt.Sprintf("of the %d voters that stay, %d serve reads through the quorum now, a majority is %d", len(stay), count, need)}
	}
	return nil
}

func memberServes(ctx context.Context, connect func(clientURLs []string) (Etcd, error), urls []string, id cluster.MemberID) bool {
	etcd, err := connect(urls)
	if err != nil {
		return false
	}
	defer func() { _ = etcd.Close() }()
	r, err := etcd.Report(ctx)
	return err == nil && r.ID == id && r.Leader != 0 && r.Read != cluster.ReadLate
}
