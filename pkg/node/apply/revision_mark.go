package apply

import (
	"context"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// mark writes the marker. One that is older than the record is from before the cluster was
// taken over: the new one is not, whatever the clocks say.
func (c *Coordinator) mark(ctx context.Context, obs cluster.Observation) error {
	at := c.Now()
	if n := len(obs.Store.Incarnations); n > 0 {
		if recorded := obs.Store.Incarnations[n-1].At; at.Before(recorded) {
			at = recorded
		}
	}
	if obs.Store.Created.IsZero() {
		return c.Records.MarkCreated(ctx, at)
	}
	return c.Records.MarkAgain(ctx, at)
}
