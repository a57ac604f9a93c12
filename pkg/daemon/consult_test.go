package daemon

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// An order that a node holds to the lease leaves time to ask those who confirm it,
// however long the store takes.
func TestASlowStoreLeavesTimeToAskTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &authority{records: func(ctx context.Context, age time.Duration) (store.View, error) {
			if age < recordsInterval {
				t.Errorf("what was read %s ago does not count", age)
			}
			<-ctx.Done()
			return store.View{}, context.Cause(ctx)
		}}
		proof, cancel := context.WithTimeout(t.Context(), lease.DefaultTTL-lease.DefaultTTL/10)
		defer cancel()
		var e lease.Evidence
		a.consult(proof, &e)
		until, _ := proof.Deadline()
		if left := time.Until(until); left < lease.CallTimeout {
			t.Errorf("%s are left to ask the others", left)
		}
		if e.Newest != "" {
			t.Errorf("the store has said %q", e.Newest)
		}
	})
}
