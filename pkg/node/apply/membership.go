package apply

import (
	"context"
	"fmt"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// Etcd is what the coordinator asks of the cluster.
type Etcd interface {
	etcdclient.Membership
	etcdclient.Downgrader
	// Report asks the first endpoint about itself, HashKV one for the digest of
	// its keys at a revision.
	Report(ctx context.Context) (cluster.Report, error)
	HashKV(ctx context.Context, endpoint string, rev cluster.Revision) (etcdclient.Hash, error)
	Close() error
}

// Membership carries out an operation on the member list, on who leads, or on the cluster
// version: it reads the list through the quorum once more, compares it with the one in
// obs, against which the invariants were checked, and makes the one request.
func Membership(ctx context.Context, connect func(clientURLs []string) (Etcd, error), obs cluster.Observation,
	op plan.Operation) error {
	etcd, list, err := open(ctx, connect, membershipURLs(obs, op), obs)
	if err != nil {
		return err
	}
	defer func() { _ = etcd.Close() }()
	switch op := op.(type) {
	case *plan.AddLearner:
		if err := endHidden(ctx, etcd, obs); err != nil {
			return err
		}
		_, err = etcd.AddLearner(ctx, op.PeerURLs)
		return err
	case *plan.Promote:
		id, err := idOf(list, op.Name)
		if err != nil {
			return err
		}
		if err := newVotersServe(ctx, connect, obs, op); err != nil {
			return err
		}
		return etcd.Promote(ctx, id)
	case *plan.Remove:
		if err := newVotersServe(ctx, connect, obs, op); err != nil {
			return err
		}
		return etcd.Remove(ctx, op.ID)
	case *plan.MemberUpdate:
		if err := resolve(ctx, op.PeerURLs); err != nil {
			return err
		}
		return etcd.Update(ctx, op.ID, op.PeerURLs)
	case *plan.MoveLeader:
		id, err := idOf(list, op.To)
		if err != nil {
			return err
		}
		return etcd.MoveLeader(ctx, id)
	case *plan.DowngradeEnable:
		return etcd.EnableDowngrade(ctx, op.To)
	case *plan.DowngradeCancel:
		return etcd.CancelDowngrade(ctx)
	}
	return fmt.Errorf("%s cannot be carried out", plan.KindOf(op).Path)
}

// endHidden cancels a downgrade that may still be enabled though no member reports it, which etcd is
// about to do by itself: it takes no new member before, and does not end it while it cannot hear from
// one that has been added.
func endHidden(ctx context.Context, etcd Etcd, obs cluster.Observation) error {
	var runs []etcdversion.Version
	for _, m := range obs.Members {
		runs = append(runs, m.Version)
	}
	if !obs.Downgrade.IsZero() || !cluster.HidesDowngrade(runs...) {
		return nil
	}
	return etcd.CancelDowngrade(ctx)
}

// open connects to etcd and reads the member list, which must still be that of obs.
func open(ctx context.Context, connect func(clientURLs []string) (Etcd, error), urls []string,
	obs cluster.Observation) (Etcd, []cluster.Member, error) {
	etcd, err := connect(urls)
	if err != nil {
		return nil, nil, err
	}
	list, err := etcd.Members(ctx)
	if err == nil {
		err = sameList(list, obs.Members)
	}
	if err != nil {
		_ = etcd.Close()
		return nil, nil, err
	}
	return etcd, list, nil
}

// membershipURLs returns the client URLs of those who may be asked to carry out op.
func membershipURLs(obs cluster.Observation, op plan.Operation) []string {
	switch op := op.(type) {
	case *plan.MoveLeader:
		return leaderURLs(obs)
	case *plan.Remove:
		// A member that removes itself stops before it answers.
		others := obs
		others.Members = slices.DeleteFunc(slices.Clone(obs.Members), func(m cluster.Member) bool { return m.ID == op.ID })
		if urls := clientURLs(others); len(urls) > 0 {
			return urls
		}
	}
	return clientURLs(obs)
}

// sameList makes sure that the member list is still the one that the invariants
// were checked against: the same members, with the same votes.
func sameList(now, then []cluster.Member) error {
	key := func(list []cluster.Member) string {
		s := ""
		for _, m := range list {
			vote := "voter"
			if m.Learner {
				vote = "learner"
			}
			s += fmt.Sprintf("%s %s; ", m.ID, vote)
		}
		return s
	}
	if a, b := key(sortedByID(now)), key(sortedByID(then)); a != b {
		return &plan.StaleError{Want: "members " + b, Got: a}
	}
	return nil
}

func idOf(list []cluster.Member, name cluster.NodeName) (cluster.MemberID, error) {
	for _, m := range list {
		if m.Name == name {
			return m.ID, nil
		}
	}
	return 0, &plan.StaleError{Want: fmt.Sprintf("a member %s", name), Got: "none"}
}
