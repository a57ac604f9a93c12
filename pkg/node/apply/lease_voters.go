package apply

import (
	"context"
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// recoverLeaseVoters makes the voters the lease voters on this node's disk. That they
// are the voters is read through etcd's quorum, by way of this node's own member:
// nobody's belief counts, and a member without a quorum gives no answer.
func (l *Local) recoverLeaseVoters(ctx context.Context, op *plan.LeaseVotersRecover) error {
	s := l.o.State.State()
	if s.Assigned == nil || s.Assigned.Token != op.Token {
		return refuse("the node does not run incarnation %s", op.Token)
	}
	etcd, err := l.etcd(s)
	if err != nil {
		return err
	}
	list, err := etcd.Members(ctx)
	if err != nil {
		return fmt.Errorf("read the members through the quorum: %w", err)
	}
	if err := sameVoters(list, op.Names); err != nil {
		return err
	}
	record := cluster.LeaseVoters{Token: op.Token, Term: op.Term, Names: op.Names}
	if err := l.o.LeaseVoter.Recover(ctx, record, op.Expect, op.Lost); err != nil {
		return fmt.Errorf("%w: %w", ErrPrecondition, err)
	}
	return nil
}

// sameVoters makes sure that the voters in list have these names.
func sameVoters(list []cluster.Member, names []cluster.NodeName) error {
	var voters []cluster.NodeName
	for _, m := range list {
		if !m.Learner {
			voters = append(voters, m.Name)
		}
	}
	slices.Sort(voters)
	if want := slices.Sorted(slices.Values(names)); !slices.Equal(voters, want) {
		return &plan.StaleError{Want: fmt.Sprintf("voters %v", want), Got: fmt.Sprintf("%v", voters)}
	}
	return nil
}
