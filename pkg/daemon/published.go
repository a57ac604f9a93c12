package daemon

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/daemon/fleet"
	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
	"github.com/etcdadm/etcdadm/pkg/daemon/reconcile"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// previous returns what a coordinator published, for the times that it remembers, and in
// which term. Nothing is an empty observation: then all times begin again.
func previous(ctx context.Context, s *store.Store, now time.Time) (cluster.Observation, cluster.Term) {
	ctx, cancel := context.WithTimeout(ctx, previousTimeout)
	defer cancel()
	b, err := s.Status(ctx)
	if err != nil {
		return cluster.Observation{}, 0
	}
	var r reconcile.Report
	if json.Unmarshal(b, &r) != nil {
		return cluster.Observation{}, 0
	}
	return observe.Remembered(r.Observation, r.Term, now), r.Term
}

// publishedLeaseVoters reads who the lease voters were by what the last coordinator
// published.
func (d *Daemon) publishedLeaseVoters(ctx context.Context) (cluster.LeaseVoters, error) {
	b, err := d.store.Status(ctx)
	if err != nil {
		return cluster.LeaseVoters{}, err
	}
	var r struct {
		Observation struct {
			LeaseVoters cluster.LeaseVoters `json:"leaseVoters"`
		} `json:"observation"`
	}
	err = json.Unmarshal(b, &r)
	return r.Observation.LeaseVoters, err
}

// changed has the next observation see what an operation has changed in the store.
func changed(view *fleet.StoreView, done reconcile.Done) {
	if !changesStore(done.Line) {
		return
	}
	op, err := plan.Parse(strings.Fields(strings.TrimPrefix(done.Line, "etcdadm ")))
	if err != nil || done.Err != nil {
		view.Stale()
		return
	}
	switch op := op.(type) {
	case *plan.BackupPrune:
		view.Pruned(op.Remove...)
	case *plan.BackupVerify:
		view.Changed(op.Name)
	case *plan.BackupDrill:
		view.Changed(op.Name)
	default:
		view.Stale()
	}
}

// changesStore reports whether an operation changes what an observation reads from the
// store.
func changesStore(line string) bool {
	return slices.ContainsFunc([]string{"etcdadm incarnation ", "etcdadm backup ", "etcdadm spec ", "etcdadm request "},
		func(p string) bool {
			return strings.HasPrefix(line, p)
		})
}

// pollEvery returns how old the store's answer may be at the next observation: a spec
// that is changed shall be seen within seconds, and an idle cluster shall cost
// few requests. Most changes are seen earlier, see watchStore.
func pollEvery(r reconcile.Report) time.Duration {
	if r.Converged && len(r.Holds) == 0 {
		return 10 * time.Second
	}
	for _, h := range r.Holds {
		switch h.Reason {
		case plan.WaitingForNodes, plan.StoreNotShared, plan.SpecMissing, plan.Bootstrap, plan.Restoring:
			return 200 * time.Millisecond
		case plan.Paused:
			return 5 * time.Second
		}
	}
	return 2 * time.Second
}
