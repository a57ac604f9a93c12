package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
)

// PromoteEarly gives a learner its vote before it serves clients: as soon as the leader
// has nine tenths of the log acknowledged by it, which is what etcd itself asks for. It
// asks for two seconds, every pause, and returns [etcdclient.ErrNotReady] if the learner
// has not got that far. obs names the learner as op does.
//
// The other voters have to be a majority of the new list, and to serve now: else the
// error is a [plan.UnsafeError], since the vote of a member that has not served yet
// would be needed.
func PromoteEarly(ctx context.Context, connect func(clientURLs []string) (Etcd, error), obs cluster.Observation,
	op *plan.Promote, pause time.Duration) error {
	urls := leaderURLs(obs)
	if len(urls) == 0 {
		return errors.New("nobody leads")
	}
	// The leader alone knows how far the learner is; others would log each refusal.
	etcd, _, err := open(ctx, connect, urls, obs)
	if err != nil {
		return err
	}
	defer func() { _ = etcd.Close() }()
	id, err := idOf(obs.Members, op.Name)
	if err != nil {
		return err
	}
	if err := newVotersServe(ctx, connect, obs, op); err != nil {
		return err
	}
	for end := time.Now().Add(servesTime); ; {
		err := etcd.Promote(ctx, id)
		if !errors.Is(err, etcdclient.ErrNotReady) || time.Now().After(end) {
			return err
		}
		if stopped := wait.For(ctx, pause); stopped != nil {
			return fmt.Errorf("%w: %w", stopped, err)
		}
	}
}
