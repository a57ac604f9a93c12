package election

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// VoterOptions describe a [Voter].
type VoterOptions struct {
	// Cluster is the name of the cluster.
	Cluster string
	// Self is the node.
	Self cluster.NodeName
	// Durable is what the node has on disk.
	Durable lease.Durable
	// Persist writes to disk and returns when the disk has it. It is called by
	// one goroutine at a time.
	Persist func(lease.Durable) error
	// Reload returns what the node has on disk after a Persist that failed: a disk
	// that hangs may take the write later. It is an error while that is open. nil
	// means that a write that failed has not happened.
	Reload func() (lease.Durable, error)
	// Now returns values of time.Now; nil means time.Now.
	Now func() time.Time
}

// A Voter is this node as a lease voter. It is safe for concurrent use.
type Voter struct {
	o VoterOptions
	// semaphore is taken by whoever reads or changes g. It is a channel because a
	// disk may hang, and those who wait have deadlines.
	semaphore chan struct{}
	g         lease.Grantor
	// unknown says that a write has failed since g was read, so that the disk may
	// have another promise than g.
	unknown bool
	// said is g as it was when the disk had it last. It is read without the semaphore: a
	// disk that is slow does not keep others from what has been promised.
	said atomic.Pointer[lease.Grantor]
}

// NewVoter returns the voter of a daemon that starts now. For one
// [lease.MaxTTL] it grants nothing to others than its last holder.
func NewVoter(o VoterOptions) *Voter {
	if o.Now == nil {
		o.Now = time.Now
	}
	v := &Voter{o: o, semaphore: make(chan struct{}, 1)}
	v.set(lease.Start(o.Now(), o.Cluster, o.Durable))
	return v
}

// set makes g, which is on disk, what the voter knows and says.
func (v *Voter) set(g lease.Grantor) {
	v.g = g
	v.said.Store(&g)
}

func (v *Voter) take(ctx context.Context) error {
	select {
	case v.semaphore <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the disk: %w", context.Cause(ctx))
	}
}

func (v *Voter) leave() { <-v.semaphore }

// takeKnown takes the semaphore and has g as it is on disk; where nobody can say what
// that is, it is an error.
func (v *Voter) takeKnown(ctx context.Context) error {
	if err := v.take(ctx); err != nil {
		return err
	}
	if err := v.settle(); err != nil {
		v.leave()
		return err
	}
	return nil
}

// settle takes up what became of a write that failed. Whoever asked for it was
// refused, so a grant that is on disk since then has no time running: Until stays
// that of the promises that were given.
func (v *Voter) settle() error {
	if !v.unknown {
		return nil
	}
	next := v.g
	if v.o.Reload != nil {
		d, err := v.o.Reload()
		if err != nil {
			return fmt.Errorf("read what was promised: %w", err)
		}
		next.Durable = d
	}
	if next.Durable.Grant.Released {
		next.Until = time.Time{}
	}
	v.set(next)
	v.unknown = false
	return nil
}

// Lease answers req, whose holder is who asks. If the promise cannot be written, the answer is a refusal
// with the disk's error as its reason. An error means that there is no answer.
func (v *Voter) Lease(ctx context.Context, req lease.Request) (lease.Reply, error) {
	if err := v.take(ctx); err != nil {
		return lease.Reply{}, err
	}
	defer v.leave()
	if err := ctx.Err(); err != nil && !req.Release {
		// Who asked does not wait for it any more: a promise would bind this node for nothing.
		return lease.Reply{}, fmt.Errorf("the request is over: %w", context.Cause(ctx))
	}
	if err := v.settle(); err != nil {
		return v.g.Refuse(v.o.Now(), err.Error()), nil
	}
	req.Entitled = req.Entitled || req.Holder == v.o.Self
	now := v.o.Now()
	next, reply := v.g.Decide(now, req)
	if err := v.persist(next.Durable); err != nil {
		return v.g.Refuse(now, err.Error()), nil
	}
	v.set(next)
	return reply, nil
}

// persist writes what this node has granted to its disk. Nothing is answered
// before it has returned.
func (v *Voter) persist(d lease.Durable) error {
	if reflect.DeepEqual(d, v.g.Durable) {
		return nil
	}
	if err := v.o.Persist(d); err != nil {
		v.unknown = true
		return fmt.Errorf("write the promise: %w", err)
	}
	return nil
}

// change makes what is on disk the result of f.
func (v *Voter) change(ctx context.Context, f func(lease.Durable) (lease.Durable, error)) error {
	if err := v.takeKnown(ctx); err != nil {
		return err
	}
	defer v.leave()
	d, err := f(v.g.Durable)
	if err != nil {
		return err
	}
	if err := v.persist(d); err != nil {
		return err
	}
	next := v.g
	next.Durable = d
	v.set(next)
	return nil
}

// Witness has the term on disk when it returns nil; an executor asks it before
// each order that it obeys. See [lease.Durable.Witness] for the errors.
func (v *Voter) Witness(ctx context.Context, term cluster.Term, holder cluster.NodeName) error {
	return v.change(ctx, func(d lease.Durable) (lease.Durable, error) { return d.Witness(term, holder) })
}

// Prepare makes the node a lease voter of a new incarnation, see
// [lease.Durable.Prepare].
func (v *Voter) Prepare(ctx context.Context, token cluster.Token, names []cluster.NodeName) error {
	return v.change(ctx, func(d lease.Durable) (lease.Durable, error) { return d.Prepare(token, names) })
}

// Join makes the node ready to become a lease voter of a running incarnation, see
// [lease.Durable.Join].
func (v *Voter) Join(ctx context.Context, record cluster.LeaseVoters) error {
	return v.change(ctx, func(d lease.Durable) (lease.Durable, error) { return d.Join(v.o.Self, record) })
}

// Recover makes the node a lease voter by a record whose predecessor has no majority
// left, see [lease.Grantor.Recover].
func (v *Voter) Recover(ctx context.Context, record cluster.LeaseVoters, expect, lost []cluster.NodeName) error {
	return v.change(ctx, func(lease.Durable) (lease.Durable, error) {
		return v.g.Recover(v.o.Now(), record, expect, lost)
	})
}

// Durable returns what is on disk.
func (v *Voter) Durable(ctx context.Context) (lease.Durable, error) {
	if err := v.takeKnown(ctx); err != nil {
		return lease.Durable{}, err
	}
	defer v.leave()
	d := v.g.Durable
	d.LeaseVoters = v.g.LeaseVoters()
	return d, nil
}

// Standing reports to whom the node has given its vote, while that runs, as it is
// on disk. It does not wait for the disk.
func (v *Voter) Standing(ctx context.Context) (lease.Standing, error) {
	select {
	case v.semaphore <- struct{}{}:
		// While that is open, what was said last counts.
		_ = v.settle()
		v.leave()
	default:
	}
	return v.said.Load().Standing(v.o.Now()), ctx.Err()
}
