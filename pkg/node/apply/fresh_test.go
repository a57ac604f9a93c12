package apply

import (
	"errors"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// TestAStalePlanIsNotCarriedOut makes sure that what was planned before a machine
// stood still is planned again, although the lease is granted again.
func TestAStalePlanIsNotCarriedOut(t *testing.T) {
	operations := []plan.Operation{
		&plan.MoveLeader{To: "b"},
		&plan.BackupTake{Node: "b", Reason: "interval"},
	}
	for _, op := range operations {
		for _, age := range []time.Duration{0, 10 * time.Second, 2 * time.Hour} {
			st := newStage()
			c := st.coordinator()
			c.Now = func() time.Time { return noon.Add(age) }
			err := c.Do(t.Context(), cluster.Spec{}, st.obs, op)
			var stale *plan.StaleError
			if old := age > time.Hour; old != errors.As(err, &stale) {
				t.Errorf("%s, planned %s ago: %v", plan.Line(op), age, err)
			} else if old && len(st.protocol) > 0 {
				t.Errorf("%s, planned %s ago: %v", plan.Line(op), age, st.protocol)
			}
		}
	}
}
