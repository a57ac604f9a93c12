package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc/election"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/apply"
	"github.com/etcdadm/etcdadm/pkg/store"
)

const (
	observePause = 100 * time.Millisecond
	// yieldTime is how long a coordinator that was asked to pause may take to
	// see it and to give its lease back.
	yieldTime = 15 * time.Second
	// nameTime is how long a member that has just started may take to report its
	// name to the cluster.
	nameTime = 20 * time.Second
)

// A LeaseError says that somebody else holds the coordinator's lease.
type LeaseError struct{ Err error }

func (e *LeaseError) Error() string { return "the coordinator's lease is not free: " + e.Err.Error() }

// Unwrap returns what the lease voters said.
func (e *LeaseError) Unwrap() error { return e.Err }

// Hint says how to have the lease freed.
func (e *LeaseError) Hint() string {
	return "make the coordinator give it back: etcd-manager-ctl pause --reason=..."
}

// Kind names the error's exit code.
func (e *LeaseError) Kind() string { return "refused" }

// Do carries out op as a person's command: it waits for what clears by itself
// (a learner that catches up, data that is being compared), acts under a lease of its own, and returns when
// op is done or ctx ends. An operation that is done already is success.
func (c *Client) Do(ctx context.Context, op plan.Operation) error {
	if err := c.entitled(); err != nil {
		return err
	}
	began := time.Now()
	var last error
	for {
		spec, obs, err := c.observe(ctx, false)
		if err != nil {
			return cause(err, last)
		}
		if err := accepted(obs); err != nil {
			return err
		}
		if c.o.Answered != nil && slices.ContainsFunc(obs.Nodes, func(n cluster.Node) bool { return n.Reachable }) {
			c.o.Answered()
		}
		if plan.Done(obs, op) {
			return nil
		}
		at := time.Now()
		err = c.try(ctx, spec, obs, op)
		if err == nil {
			c.record(ctx, op, at)
			return c.wait(ctx, op)
		}
		if asking := new(LeaseError); ctx.Err() != nil && errors.As(err, &asking) {
			return cause(err, last) // the time was over in the middle of a campaign
		}
		if !clears(err, op, obs, time.Since(began)) {
			return err
		}
		last = err
		if err := wait.For(ctx, observePause); err != nil {
			return cause(err, last)
		}
	}
}

// record writes what was done by hand into the history, where the
// coordinator's operations are. A history that cannot be written takes nothing
// back, so it is no error.
func (c *Client) record(ctx context.Context, op plan.Operation, at time.Time) {
	if c.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = c.store.AppendHistory(ctx, store.HistoryEntry{
		At: at, Term: c.fleet.Lease().LeaseVoters().Term, By: c.fleet.o.Name, Line: plan.Line(op), Why: "by hand",
		Took: time.Since(at),
	})
}

// try acts once, under a lease that it gives back.
func (c *Client) try(ctx context.Context, spec cluster.Spec, obs cluster.Observation, op plan.Operation) error {
	if err := plan.Check(spec, obs, op); err != nil {
		return err
	}
	l := c.fleet.Lease()
	if len(obs.LeaseVoters.Names) > 0 && !plan.Unfenced(obs, op) {
		if err := l.Acquire(ctx, obs.LeaseVoters); err != nil {
			return &LeaseError{err}
		}
		defer l.Release(ctx)
	}
	return c.fleet.Coordinator().Do(ctx, spec, obs, op)
}

// clears reports whether err may go away by waiting.
func clears(err error, op plan.Operation, obs cluster.Observation, waited time.Duration) bool {
	var unsafe *plan.UnsafeError
	var stale *plan.StaleError
	var held *lease.HeldError
	var lost *election.LostError
	_, promote := op.(*plan.Promote)
	// etcd ends a downgrade, and changes the cluster version, by itself within seconds.
	_, downgrade := op.(*plan.DowngradeEnable)
	switch {
	case apply.NotYet(err):
		return true
	case errors.As(err, &unsafe):
		return unsafe.Invariant == "quorum" || unsafe.Passes
	case errors.As(err, &stale):
		return (promote || downgrade) && waited < nameTime
	case errors.As(err, &held):
		_, asked := obs.Store.Pause()
		return asked && waited < yieldTime
	case errors.As(err, &lost):
		return waited < yieldTime
	}
	return false
}

// wait observes until op is done. A backup is done when its order returns.
func (c *Client) wait(ctx context.Context, op plan.Operation) error {
	w, spec := op.(*plan.SpecWrite)
	// What is set aside meanwhile may get the name of what was deleted.
	_, discard := op.(*plan.DataDiscard)
	if plan.InBackground(op) || discard || spec && w.Request != "" {
		return nil // it was done when it returned
	}
	for {
		c.view.Stale()
		_, obs, err := c.observe(ctx, false)
		if err == nil && plan.Done(obs, op) {
			return nil
		}
		if err := wait.For(ctx, observePause); err != nil {
			return fmt.Errorf("%s was carried out, but its effect does not show: %w", plan.KindOf(op).Path, err)
		}
	}
}

// cause puts the reason for waiting before the end of the wait.
func cause(err, last error) error {
	if last == nil {
		return err
	}
	return fmt.Errorf("%w (gave up waiting: %w)", last, err)
}
