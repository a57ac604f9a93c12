package daemon

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/daemon/fleet"
	"github.com/etcdadm/etcdadm/pkg/node/apply"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// bootstrapped reports why an order without a term has nothing to build on. Such
// orders come before the lease can: what they do is decided by the store, so the
// node that obeys reads the store too, and takes nobody's word for it. It waits for the
// store as long as such an order may take.
func (a *authority) bootstrapped(ctx context.Context, op plan.Operation, leaseVoters []cluster.NodeName) error {
	waiting, cancel := context.WithTimeout(ctx, apply.BootstrapDeadline)
	defer cancel()
	view, err := a.records(waiting, recordsInterval)
	if err == nil {
		err = view.IncarnationsErr
	}
	if err != nil {
		return &rpc.Error{Kind: rpc.Unreachable,
			Text: fmt.Sprintf("an order without a lease needs the store of this node: %v", err)}
	}
	var why string
	switch op := op.(type) {
	case *plan.LeaseVotersRecover:
		why, err = a.unrecoverable(ctx, op, view)
	case *plan.LeaseVotersAdopt:
		why = a.unadoptable(ctx, op, view)
	default:
		why = unsupported(op, view, leaseVoters)
	}
	if err != nil {
		return err
	}
	if why != "" {
		return &rpc.Error{Kind: rpc.Refused, Text: "an order without a lease: " + why}
	}
	return nil
}

// records reads the store for an order that has just come: what was read within age
// before does too, so that a flood of orders is none of requests.
func (d *Daemon) records(ctx context.Context, age time.Duration) (store.View, error) {
	return d.view.Since(ctx, d.now().Add(-age))
}

// unrecoverable says what the recovery of the lease voters lacks: an operator's word
// in the store for those that are lost, and a record that agrees with those of
// the nodes that answer. That the names are the voters is what etcd's quorum
// reports to the executor.
func (a *authority) unrecoverable(ctx context.Context, op *plan.LeaseVotersRecover, view store.View) (string, error) {
	own, err := a.voter.Standing(ctx)
	if err != nil {
		return "", err
	}
	r := lease.Recovery{
		Record: cluster.LeaseVoters{Token: op.Token, Term: op.Term, Names: slices.Sorted(slices.Values(op.Names))},
		Expect: op.Expect, Lost: op.Lost,
	}
	var declared [][]cluster.NodeName
	for _, q := range fleet.Requests(view) {
		restores := q.Kind == cluster.RequestRestore && len(q.Lost) > 0 && !fleet.Decided(view.Incarnations, q)
		if q.Kind == cluster.RequestLeaseVoters || restores {
			declared = append(declared, q.Lost)
		}
	}
	if len(declared) == 0 {
		return "the store has no request that declares nodes to be lost, so the lease voters are not recovered", nil
	}
	answers := a.standings(ctx, r.Ask(own.LeaseVoters))
	answers[a.self] = own
	if err := r.Supported(own, declared, answers); err != nil {
		return err.Error(), nil
	}
	return "", nil
}

// unadoptable says why a node does not become a lease voter of a cluster that is taken
// over: the record in its store has to name these voters and to be newer than whatever a
// coordinator has left there, and all of them have to answer and to know of nothing else.
func (a *authority) unadoptable(ctx context.Context, op *plan.LeaseVotersAdopt, view store.View) string {
	names := slices.Sorted(slices.Values(op.Names))
	var newest cluster.Incarnation
	if n := len(view.Incarnations); n > 0 {
		newest = view.Incarnations[n-1]
	}
	recorded := slices.Sorted(slices.Values(cluster.InitialMemberNames(newest.Voters)))
	switch {
	case newest.Token != op.Token || newest.Restored != nil || !slices.Equal(recorded, names):
		return fmt.Sprintf("the newest record in the store is of incarnation %q with the voters %v, not of %s with %v", newest.Token,
			recorded, op.Token, names)
	case view.Created.Equal(cluster.MarkerUnknown):
		return "it is unknown whether the store has the marker of the cluster"
	case !view.Created.IsZero() && !view.Created.Before(newest.At):
		return "a coordinator has been at work since the incarnation was recorded"
	case !slices.Contains(names, a.self):
		return fmt.Sprintf("%s is not one of the voters %v", a.self, names)
	}
	answers := a.standings(ctx, names)
	for _, name := range names {
		s, ok := answers[name]
		own := s.LeaseVoters
		switch {
		case name == a.self:
		case !ok:
			return fmt.Sprintf("%s does not answer", name)
		case own.Token == op.Token && (own.Term > 0 || own.Seq > 0 || !slices.Equal(own.Names, names)):
			return fmt.Sprintf("%s has another record of lease voters, %v", name, own.Names)
		}
	}
	return ""
}

// unsupported says what an order without a term lacks in the store, empty for
// nothing. lease voters are those that the node knows, if it runs a member.
func unsupported(op plan.Operation, view store.View, leaseVoters []cluster.NodeName) string {
	var newest cluster.Incarnation
	if n := len(view.Incarnations); n > 0 {
		newest = view.Incarnations[n-1]
	}
	switch op := op.(type) {
	case *plan.MemberPrepare:
		switch {
		case newest.Token == op.Token:
		case newest.Token != "":
			return fmt.Sprintf("the store has a cluster (incarnation %s), so %s cannot be bootstrapped", newest.Token,
				op.Token)
		case !view.Created.IsZero():
			return fmt.Sprintf("the store has a cluster (its marker says so), so %s cannot be bootstrapped", op.Token)
		}
	case *plan.RestoreSwitch:
		if newest.Token != op.Token {
			return fmt.Sprintf("the newest incarnation in the store is %q, not %s", newest.Token, op.Token)
		}
	case *plan.RestoreDiscard:
		if newest.Token == op.Token {
			return fmt.Sprintf("incarnation %s is the newest in the store, so its staged data is needed", op.Token)
		}
	case *plan.RestoreStage:
		if newest.Token == op.Token {
			return ""
		}
		asked := slices.ContainsFunc(fleet.Requests(view), func(r cluster.Request) bool {
			return r.Kind == cluster.RequestRestore && r.Name == op.Request && r.Backup == op.Backup &&
				(len(leaseVoters) == 0 || cluster.Lost(leaseVoters, r.Lost))
		})
		if !asked {
			return fmt.Sprintf("the store has no request %q to restore %s that declares the lease voters %v "+
				"lost", op.Request, op.Backup, leaseVoters)
		}
	default:
		return plan.KindOf(op).Path + " needs a lease"
	}
	return ""
}
