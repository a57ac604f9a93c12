package apply

import (
	"context"
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

// recoverLeaseVoters makes the voters the lease voters on this node's disk. That they
// are the voters is read through etcd's quorum, by way of this node's own member:
// nobody's belief counts, and a member without a quorum gives no answer.
func (l *Local) recoverLeaseVoters(ctx context.Context, op *plan.LeaseVotersRecover) error {
	s := l.o.State.State()
	if s.Assigned == nil || s.Assigned.Token != op.Token {
		return refuse("the node does not run incarnation %s", op.Token)
	}
	etcd, err := l.observer.Etcd(s)
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

// adoptLeaseVoters makes this node a lease voter by the record of its incarnation in the
// store. That the names are those of the voters is read through etcd's quorum, and that the
// node runs one of them is read from the write-ahead log on its disk.
func (l *Local) adoptLeaseVoters(ctx context.Context, op *plan.LeaseVotersAdopt) error {
	s := l.o.State.State()
	if s.Assigned == nil || s.Assigned.Token != op.Token {
		return refuse("the node does not run incarnation %s", op.Token)
	}
	id, _, err := nodestate.DiskMember(nodestate.DataDir(l.o.DataDir, op.Token))
	if err != nil {
		return fmt.Errorf("read whose data is on the disk: %w", err)
	}
	etcd, err := l.observer.Etcd(s)
	if err != nil {
		return err
	}
	list, err := etcd.Members(ctx)
	if err != nil {
		return fmt.Errorf("read the members through the quorum: %w", err)
	}
	started := slices.DeleteFunc(slices.Clone(list), func(m cluster.Member) bool { return m.Name == "" })
	if err := sameVoters(started, op.Names); err != nil {
		return err
	}
	if !slices.ContainsFunc(started, func(m cluster.Member) bool { return m.ID == id && m.Name == l.o.Name }) {
		return refuse("the data on the disk is of member %s, which is not the voter %s", id, l.o.Name)
	}
	crashpoint.Hit("lease-voters-adopt.before")
	if err := l.o.LeaseVoter.Prepare(ctx, op.Token, op.Names); err != nil {
		return fmt.Errorf("%w: %w", ErrPrecondition, err)
	}
	crashpoint.Hit("lease-voters-adopt.after")
	return nil
}
