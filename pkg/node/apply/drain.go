package apply

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

const (
	// holdTime is how long a member that has been drained votes at most. etcd itself waits
	// no longer than 7 s for a client.
	holdTime = 5 * time.Second
	// drainDeadline is how long draining may take before the member is removed as it is: most
	// of it is for its clients, which have a second.
	drainDeadline = 3 * time.Second
)

// drainFor has the node of a voter that is about to be removed by op drain it. It returns
// the node and why it could not, which keeps nobody from being removed.
func (c *Coordinator) drainFor(ctx context.Context, spec cluster.Spec, obs cluster.Observation, op plan.Operation) (
	cluster.NodeName, error) {
	drain := plan.DrainFor(obs, op)
	if drain == nil {
		return plan.Undrained(obs, op)
	}
	if err := plan.Check(spec, obs, drain); err != nil {
		return drain.Node, err
	}
	if newVotersServe(ctx, c.Etcd, obs, op) != nil {
		return "", nil // the removal will say so
	}
	ctx, cancel := context.WithTimeout(ctx, drainDeadline)
	defer cancel()
	return drain.Node, c.send(ctx, obs, drain)
}

// drain uses what etcd does when it is asked to end: it closes the ports for its clients, answers
// what they have asked, and then waits for those that are still connected, while it votes.
// So the node stays connected until the member has been removed. Nothing is written down:
// killed at any time, and where nobody removes the member, etcd ends and is started again, as one
// that was killed.
func (l *Local) drain(ctx context.Context, op *plan.MemberDrain) error {
	s, err := l.memberOf(op.ExpectToken, op.ExpectMemberID)
	if err != nil {
		return err
	}
	if l.held.holds() {
		return nil // by an order that was sent again
	}
	client, err := l.observer.ClientOptions(s)
	if err != nil {
		return err
	}
	// The coordinator waits no longer, and then removes the member as it is.
	ctx, cancel := context.WithTimeout(ctx, drainDeadline)
	defer cancel()
	hold, err := etcdclient.HoldOpen(ctx, client)
	if err != nil {
		return err
	}
	if err = ctx.Err(); err == nil {
		err = l.o.Proc.Drain(ctx, 1)
	}
	select {
	case <-hold.Done():
		err = errors.Join(err, errors.New("etcd does not wait for the client that it still has"))
	default:
	}
	if err != nil {
		hold.Close()
		return fmt.Errorf("drain the member: %w", err)
	}
	l.held.take(hold)
	return nil
}

// held is the connection that keeps a member that has been drained from ending.
type held struct {
	mu   sync.Mutex
	hold *etcdclient.Hold
}

// take keeps hold until it is released, its member has ended, or holdTime is over.
func (h *held) take(hold *etcdclient.Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hold = hold
	timer := time.AfterFunc(holdTime, hold.Close)
	go func() {
		<-hold.Done()
		timer.Stop()
		hold.Close()
	}()
}

// holds reports whether a member is held.
func (h *held) holds() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hold == nil {
		return false
	}
	select {
	case <-h.hold.Done():
		return false
	default:
		return true
	}
}

// release lets the member end.
func (h *held) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hold != nil {
		h.hold.Close()
	}
}

// memberOf returns the node's state where it runs that member of that incarnation, by its state file
// and by its data.
func (l *Local) memberOf(token cluster.Token, id cluster.MemberID) (nodestate.State, error) {
	s := l.o.State.State()
	disk := nodestate.Disk(l.o.DataDir, s)
	switch {
	case s.Assigned == nil || disk.State != cluster.DiskData:
		return s, refuse("the node runs no member")
	case s.Assigned.Token != token || disk.Token != token:
		return s, &plan.StaleError{Want: "incarnation " + string(token), Got: string(disk.Token)}
	case disk.MemberID != id:
		return s, &plan.StaleError{Want: "member " + id.String(), Got: disk.MemberID.String()}
	}
	return s, nil
}
