package apply

import (
	"context"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/node/nodeobserve"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// Observe returns what is seen of the node, see [nodeobserve.Observer.Observe], and writes down
// what follows from it.
func (l *Local) Observe(ctx context.Context) (cluster.Node, *cluster.Report) {
	f, r := l.observer.Observe(ctx)
	if r != nil {
		l.remember(r)
	}
	return l.learn(ctx, f, r), r
}

// learn writes down what follows from an observation, and returns the node with that as
// far as it is on the disk. One that hangs is not waited for.
func (l *Local) learn(ctx context.Context, f nodeobserve.Facts, r *cluster.Report) cluster.Node {
	n := f.Node
	learned := nodestate.Learn(f.State, nodestate.Seen{
		Disk: n.Disk, Begun: f.Begun, Report: r, AsksForCluster: n.NewCluster,
	})
	if learned.Empty() || !l.remembering.TryLock() {
		return n
	}
	done := make(chan bool, 1)
	go func() {
		defer l.remembering.Unlock()
		done <- l.write(learned)
	}()
	timer := time.NewTimer(l.o.diskTimeout)
	defer timer.Stop()
	select {
	case ok := <-done:
		if !ok {
			return n
		}
	case <-timer.C:
		return n
	case <-ctx.Done():
		return n
	}
	if learned.Fulfilled != "" {
		n.Prepared = l.o.State.State().Prepared
	}
	if learned.Recognized != nil {
		n.Disk.MemberID, n.Revision = learned.Recognized.ID, learned.Mark
	}
	return n
}

// write puts what was learned on the disk, and reports whether it is there.
func (l *Local) write(learned nodestate.Learned) bool {
	if learned.Changes() {
		if err := l.o.State.Update(learned.Transition()); err != nil {
			return false
		}
	}
	if learned.HasCluster {
		// What cannot be removed asks for nothing as long as there is data.
		_ = nodestate.HasCluster(l.o.DataDir)
	}
	return true
}
