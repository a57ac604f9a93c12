package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc/election"
)

// campaignTimeout bounds the try to get the lease: a majority that answers at
// all answers in milliseconds, but for its disks, which write twice.
const campaignTimeout = 2 * lease.WriteTimeout

// Lease is the right to act: it is got from a majority of the lease voters, kept
// renewed, and proven again before each effect.
type Lease struct {
	session *election.Session
	now     func() time.Time
	// fit says why this node should not act now, progress why it does not get on.
	fit, progress func() error

	mu   sync.Mutex
	stop context.CancelFunc
	kept chan struct{}
}

// newLease returns a lease that is not held. It is neither asked for nor proven
// while fit returns an error, and not renewed in the background while progress
// does either: nil for always.
func newLease(s *election.Session, now func() time.Time, fit, progress func() error) *Lease {
	always := func() error { return nil }
	if fit == nil {
		fit = always
	}
	if progress == nil {
		progress = always
	}
	return &Lease{session: s, now: now, fit: fit, progress: progress}
}

func (l *Lease) may() error {
	if err := l.fit(); err != nil {
		return err
	}
	return l.progress()
}

// Acquire asks the lease voters for the lease. When it returns nil the lease is
// held and renewed in the background until ctx ends, it is lost, or Release.
// The error is a [*lease.HeldError] where somebody else has it.
func (l *Lease) Acquire(ctx context.Context, leaseVoters cluster.LeaseVoters) error {
	if err := l.fit(); err != nil {
		return err
	}
	l.session.Enter(leaseVoters.Token)
	l.session.Learn(leaseVoters, leaseVoters.Term)
	try, cancel := context.WithTimeout(ctx, campaignTimeout)
	defer cancel()
	if err := l.session.Campaign(try); err != nil {
		var lost *election.LostError
		if errors.As(err, &lost) && lost.Holder != "" {
			return &lease.HeldError{Holder: lost.Holder, Remaining: lost.Remaining, Err: err}
		}
		return err
	}
	l.keep(ctx)
	return nil
}

// keep renews in the background; an earlier renewal is waited for first.
func (l *Lease) keep(ctx context.Context) {
	l.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, l.stop = context.WithCancel(ctx)
	kept := make(chan struct{})
	l.kept = kept
	go func() {
		defer close(kept)
		// That a lease is lost shows in Held; why is in the next campaign's answers.
		_ = l.session.Keep(ctx, l.may)
	}()
}

func (l *Lease) end() {
	l.mu.Lock()
	stop, kept := l.stop, l.kept
	l.stop, l.kept = nil, nil
	l.mu.Unlock()
	if stop != nil {
		stop()
		<-kept
	}
}

// Held returns the term while the lease is held.
func (l *Lease) Held() (cluster.Term, bool) {
	term, _, ok := l.session.Held(l.now())
	return term, ok
}

// Succeeds returns the term of the last lease before this one, zero for none.
func (l *Lease) Succeeds() cluster.Term { return l.session.Succeeds() }

// Rest says whether there is nothing to do, see [election.Session.Rest].
func (l *Lease) Rest(rest bool) { l.session.Rest(rest) }

// Release gives the lease back, so that another may have it at once.
func (l *Lease) Release(ctx context.Context) {
	l.end()
	l.session.Release(ctx)
}

// Close waits for what is under way.
func (l *Lease) Close() {
	l.end()
	l.session.Wait()
}

// LeaseVoters returns the record that the lease stands on.
func (l *Lease) LeaseVoters() cluster.LeaseVoters { return l.session.LeaseVoters() }

// Confirm proves with a majority that the lease is held. The context that it
// returns ends with the proof. Where no lease voters are known (a cluster that is
// to be bootstrapped) there is nothing to prove: the term is zero, and the create-
// only-if-absent of the incarnation record decides.
func (l *Lease) Confirm(ctx context.Context) (context.Context, context.CancelFunc, cluster.Term, error) {
	if len(l.session.LeaseVoters().Names) == 0 {
		ctx, cancel := context.WithCancel(ctx)
		return ctx, cancel, 0, nil
	}
	if err := l.fit(); err != nil {
		return nil, nil, 0, err
	}
	term, until, err := l.session.Confirm(ctx)
	if err != nil {
		return nil, nil, 0, err
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	return ctx, cancel, term, nil
}

// ChangeLeaseVoters makes names the lease voters of an incarnation, see [election.Session.SetLeaseVoters].
func (l *Lease) ChangeLeaseVoters(ctx context.Context, token cluster.Token, names []cluster.NodeName) error {
	return l.session.SetLeaseVoters(ctx, token, names)
}
