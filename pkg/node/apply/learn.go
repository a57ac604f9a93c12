package apply

import (
	"context"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// learn writes down what follows from an observation, and returns the node with that as
// far as it is on the disk. One that hangs is not waited for.
func (l *Local) learn(ctx context.Context, f facts, r *cluster.Report) cluster.Node {
	n := f.node
	learned := nodestate.Learn(f.state, nodestate.Seen{
		Disk: n.Disk, Begun: f.begun, Report: r, AsksForCluster: n.NewCluster,
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
