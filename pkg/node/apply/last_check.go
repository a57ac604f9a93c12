package apply

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/node/nodeobserve"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// checkAgeLimit is how long a check counts right before a change.
const checkAgeLimit = 10 * time.Second

// A lastCheck is the check of the data right before a change.
type lastCheck struct {
	mu   sync.Mutex
	last *dataCheck
}

// A dataCheck is one of the data for a change. What it has found, and when it ended, is
// there once done is closed.
type dataCheck struct {
	line  string // of the order
	done  chan struct{}
	found []cluster.Hazard
	ended time.Time
}

// of returns what a check of a moment ago has found, or one that it begins. Who does
// not wait to its end finds it under way the next time.
func (l *lastCheck) of(ctx context.Context, op *plan.MemberChangeVersion, data string, examine nodeobserve.Examiner) (
	[]cluster.Hazard, error,
) {
	k := l.begin(plan.Line(op), data, examine)
	select {
	case <-k.done:
		return k.found, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("check the member's data: %w", context.Cause(ctx))
	}
}

func (l *lastCheck) begin(line, data string, examine nodeobserve.Examiner) *dataCheck {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil && l.last.line == line && !l.last.old() {
		return l.last
	}
	k := &dataCheck{line: line, done: make(chan struct{})}
	l.last = k
	go func() {
		defer close(k.done)
		k.found = examine(datadir.At(data))
		k.ended = time.Now()
	}()
	return k
}

// forget has the next one check again.
func (l *lastCheck) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = nil
}

func (k *dataCheck) old() bool {
	select {
	case <-k.done:
		return time.Since(k.ended) > checkAgeLimit
	default:
		return false
	}
}

// checkFirst checks the data before an order for a later minor version takes the
// semaphore: that takes as long as the log takes to be read, and by then the order may not
// count any more, or another voter may be down. Who gave it hangs up meanwhile, and
// gives it again.
func (l *Local) checkFirst(ctx context.Context, op *plan.MemberChangeVersion) error {
	if op.Node != l.o.Name || op.To.Minor <= op.ExpectVersion.Minor || len(cluster.HazardsBefore(op.To)) == 0 {
		return nil
	}
	_, err := l.lastCheck.of(ctx, op, nodestate.DataDir(l.o.DataDir, op.ExpectToken), l.o.examine)
	return err
}

// checkHazards holds a change to what is in the data now: see [cluster.Barred].
func (l *Local) checkHazards(ctx context.Context, from etcdversion.Version, op *plan.MemberChangeVersion) error {
	found, err := l.lastCheck.of(ctx, op, nodestate.DataDir(l.o.DataDir, op.ExpectToken), l.o.examine)
	if err != nil {
		return err
	}
	held := cluster.Barred(found, from, op.To, op.AcceptHazards)
	if len(held) == 0 {
		return nil
	}
	l.observer.ForgetData()
	l.lastCheck.forget()
	return refuse("etcd %s cannot follow %s on this data: %s; %s", op.To, from, held[0], held[0].Fix(op.To))
}
