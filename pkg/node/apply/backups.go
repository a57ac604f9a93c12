package apply

import (
	"context"
	"fmt"
	"io"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/node/nodeobserve"
)

// A BackupTaker writes a backup of one member to the store.
type BackupTaker interface {
	Take(ctx context.Context, source etcdclient.Snapshotter, of BackupOf) (cluster.Backup, error)
}

// An Inspector finds out whether a backup can be relied on, and records that in
// the store. An error says that it cannot, or that it was not found out.
type Inspector interface {
	Verify(ctx context.Context, name string) error
	Drill(ctx context.Context, name string) error
}

// BackupOf says what a backup is of.
type BackupOf struct {
	Node cluster.NodeName
	// Reason is why it is taken.
	Reason string
	// Version is what the node runs.
	Version etcdversion.Version
	// Report asks the member about itself, and refuses any other that happens to
	// answer at its URL.
	Report func(ctx context.Context) (cluster.Report, error)
}

func (l *Local) backup(ctx context.Context, op *plan.BackupTake) error {
	if l.o.Backups == nil {
		return refuse("this node has no backup store")
	}
	s := l.o.State.State()
	if s.Assigned == nil {
		return refuse("the node has no member")
	}
	c, err := l.observer.Etcd(s)
	if err != nil {
		return err
	}
	own := ownMember{c, func(r cluster.Report) error { return l.observer.Foreign(s, r) }}
	crashpoint.Hit("backup-take.before")
	_, err = l.o.Backups.Take(ctx, own, BackupOf{
		Node: l.o.Name, Reason: op.Reason, Version: s.Assigned.Version, Report: own.Report,
	})
	crashpoint.Hit("backup-take.after")
	return err
}

// ownMember streams the database of the node's own member, and of no other
// that happens to answer at its URL.
type ownMember struct {
	*etcdclient.Client
	check func(cluster.Report) error
}

// Report refuses a member that check does.
func (o ownMember) Report(ctx context.Context) (cluster.Report, error) {
	// The time of a backup is for a large database, not for one that is unreachable.
	short, cancel := context.WithTimeout(ctx, 5*nodeobserve.ReportTimeout)
	defer cancel()
	r, err := o.Client.Report(short)
	if err == nil {
		if why := o.check(r); why != nil {
			err = refuse("%v", why)
		}
	}
	return r, err
}

// Snapshot refuses a member that check does, and one that does not serve. It
// waits until the member has all that the cluster has acknowledged: what a
// backup lacks is lost in the step that it is taken for.
func (o ownMember) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	if _, err := o.Report(ctx); err != nil {
		return nil, err
	}
	short, cancel := context.WithTimeout(ctx, 5*nodeobserve.ReportTimeout)
	defer cancel()
	if err := o.ReadThrough(short); err != nil {
		return nil, fmt.Errorf("no backup is taken from a member that serves no linearizable read: %w", err)
	}
	return o.Client.Snapshot(ctx)
}

// inspect verifies a backup, or restores it for a trial.
func (l *Local) inspect(ctx context.Context, op plan.Operation) error {
	if l.o.Inspector == nil {
		return refuse("this node has no backup store")
	}
	switch op := op.(type) {
	case *plan.BackupVerify:
		return l.o.Inspector.Verify(ctx, op.Name)
	case *plan.BackupDrill:
		return l.o.Inspector.Drill(ctx, op.Name)
	}
	return fmt.Errorf("%s inspects nothing", plan.KindOf(op).Path)
}
