package apply

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// A clock that was ahead when data was set aside does not keep it for as long.
func TestDataSetAsideInTheFutureIsDiscarded(t *testing.T) {
	var clock atomic.Int64
	clock.Store(int64(10 * 365 * 24 * time.Hour))
	h := bootstrapped(t, func(o *LocalOptions) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(clock.Load())) }
	})
	h.must(stop(), setAside())
	clock.Store(0)
	discard := &plan.DataDiscard{Node: "a", Name: "t1", ExpectAt: plan.MomentOf(h.observe().SetAside[0].At)}
	h.refused(discard, "is kept for at least 1h")
	clock.Store(int64(59 * time.Minute))
	h.refused(discard, "is kept for at least 1h")
	clock.Store(int64(61 * time.Minute))
	h.must(discard)
	if left := h.observe().SetAside; len(left) != 0 {
		t.Errorf("left are %+v", left)
	}
}
