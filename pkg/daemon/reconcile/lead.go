package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/daemon/observe"
)

// yield gives the lease back: another daemon gets on where this one would not.
func (l *Loop) yield(ctx context.Context, held bool, why error) time.Duration {
	if held {
		l.o.Log.Error("this daemon gives the lease back", "error", why)
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		l.o.Lease.Release(ctx)
	}
	l.standby()
	return standbyPause
}

// early asks for the lease before anything has been checked. The observation that
// follows reports whether the lease is of use. It is over where another has it.
func (l *Loop) early(ctx context.Context) (pause time.Duration, over bool) {
	leaseVoters := l.o.Early()
	if len(leaseVoters.Names) == 0 {
		return 0, false
	}
	err := l.o.Lease.Acquire(ctx, leaseVoters)
	var held *lease.HeldError
	if errors.As(err, &held) {
		l.standby()
		return max(standbyPause, min(held.Remaining, idlePause)), true
	}
	if err == nil {
		l.tries.forget()
		l.o.Won()
	}
	return 0, false
}

// lead makes sure that this daemon may act, and reports whether it has won the lease for that
// just now. A cluster without lease voters is still to be bootstrapped, or has none yet; there
// the store decides.
func (l *Loop) lead(ctx context.Context, obs cluster.Observation) (won bool, err error) {
	if len(obs.LeaseVoters.Names) == 0 {
		if len(obs.Members) > 0 {
			return false, noLeaseVoters(obs)
		}
		return false, nil
	}
	if term, held := l.o.Lease.Held(); held && lease.Useful(term, l.o.Lease.LeaseVoters(), l.o.Self, obs) {
		return false, nil
	}
	if !slices.Contains(obs.LeaseVoters.Names, l.o.Self) {
		// Who has ceased to be a lease voter may keep its term, but nobody new grants it.
		l.o.Lease.Release(ctx)
		return false, noLeaseVoter(obs)
	}
	if err := l.o.Lease.Acquire(ctx, obs.LeaseVoters); err != nil {
		return false, err
	}
	l.tries.forget()
	l.lost = 0
	l.o.Won()
	return true, nil
}

// inherit returns obs as it counts in the lease that is held: its times go on from those of
// the last one, or begin now if they are of an earlier one.
func (l *Loop) inherit(obs cluster.Observation) cluster.Observation {
	term := l.term(obs)
	if term == 0 || term == l.of {
		return obs
	}
	if l.of != l.o.Lease.Succeeds() {
		obs = observe.BeginTimes(obs)
		l.prev = obs
	}
	l.of = term
	return obs
}

// noLeaseVoter is why a node that is no lease voter of a running cluster does not ask
// for the lease: no lease voter would grant it. Where a lease voter's grant runs, the
// error says so, as that of a campaign would; an old vote is none.
func noLeaseVoter(obs cluster.Observation) error {
	err := fmt.Errorf("this node is not one of the lease voters %v, and none of them coordinates", obs.LeaseVoters.Names)
	for _, n := range obs.Nodes {
		if n.Reachable && n.Lease.Holder != "" && n.Lease.Running && slices.Contains(obs.LeaseVoters.Names, n.Name) {
			return &lease.HeldError{Holder: n.Lease.Holder, Remaining: idlePause, Err: err}
		}
	}
	return err
}

// usable returns the highest term of the lease voters that have seen none out of reach,
// 0 where there is no such lease voter, or where a node that does not answer may have
// seen a higher one.
func usable(obs cluster.Observation) (highest cluster.Term) {
	leaseVoter := false
	for _, n := range obs.Nodes {
		switch {
		case !n.Reachable:
			return 0
		case n.Lease.Term <= lease.MaxTerm:
			highest = max(highest, n.Lease.Term)
			leaseVoter = leaseVoter || slices.Contains(n.LeaseVoters.Names, n.Name)
		}
	}
	if !leaseVoter {
		return 0
	}
	return highest
}

// errNoLeaseVoters is why a cluster that runs is not coordinated: without lease voters
// it is unknown whether another acts.
var errNoLeaseVoters = errors.New("no lease voters are known: the daemons of the voters' nodes do not answer")

// noLeaseVoters says why none are known: a record of a term that nobody can follow is
// none, and is not passed by.
func noLeaseVoters(obs cluster.Observation) error {
	for _, n := range obs.Nodes {
		if n.Reachable && n.Lease.Term > lease.MaxTerm {
			bad := &lease.BadTermError{Term: n.Lease.Term, To: usable(obs)}
			return fmt.Errorf("node %s: %w; %s", n.Name, bad, bad.Hint())
		}
	}
	return errNoLeaseVoters
}
