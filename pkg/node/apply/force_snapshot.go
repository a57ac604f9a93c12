package apply

import (
	"context"
	"fmt"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/etcd/datadir"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/etcd/hazards"
	"github.com/etcdadm/etcdadm/pkg/internal/crashpoint"
	"github.com/etcdadm/etcdadm/pkg/internal/wait"
	"github.com/etcdadm/etcdadm/pkg/node/nodeobserve"
	"github.com/etcdadm/etcdadm/pkg/node/nodestate"
)

const (
	// snapshotDeadline is how long a raft snapshot may take to force: etcd takes one
	// every 10 000 entries, and before 3.6 every 100 000, or as many as the operator's own
	// setting says. Who does not come to its end goes on with the next order.
	snapshotDeadline = 5 * time.Minute
	// proposals is how many entries are proposed between two checks.
	proposals = 1000
)

// forceSnapshot has the member take a raft snapshot: etcd does by itself, after so many
// entries. The entries that are proposed for it change nothing, neither a key nor the
// revision. Killed at any time, the member has some of them more in its log, and so many
// less to come.
func (l *Local) forceSnapshot(ctx context.Context, op *plan.MemberForceSnapshot) error {
	s, err := l.memberOf(op.ExpectToken, op.ExpectMemberID)
	if err != nil {
		return err
	}
	if !nodeobserve.Settled(s) || len(cluster.HazardsBefore(nodeobserve.NextMinor(s))) == 0 {
		return refuse("the members do not all run the minor version of etcd %s, or nothing needs it", s.Assigned.Version)
	}
	c, err := l.observer.Etcd(s)
	if err != nil {
		return err
	}
	defer l.forced.Store(0)
	data := datadir.At(nodestate.DataDir(l.o.DataDir, s.Assigned.Token))
	f := Forcing{
		To: nodeobserve.NextMinor(s), Examine: func() []cluster.Hazard { return l.o.examine(data) },
		Files: func() string { return hazards.Files(data) },
	}
	propose := func(ctx context.Context, n int) error {
		err := c.Propose(ctx, n)
		if err == nil {
			l.forced.Add(int64(n))
		}
		crashpoint.Hit("member-force-snapshot.after-propose")
		return err
	}
	if _, err = ForceSnapshot(ctx, f.Left, propose); err != nil {
		return fmt.Errorf("%w (%d entries have been proposed)", err, l.forced.Load())
	}
	l.observer.TakeHazards(s, f.found)
	return nil
}

// ForceSnapshot proposes entries without effect to a member until nothing is left of what
// a raft snapshot is to take away, which examine looks for. It returns what was found last.
func ForceSnapshot(ctx context.Context, examine func() cluster.Hazard,
	propose func(ctx context.Context, n int) error) (cluster.Hazard, error) {
	for {
		found := examine()
		var err error
		switch found.State {
		case cluster.HazardAbsent:
			return found, nil
		case cluster.HazardPresent:
			err = propose(ctx, proposals)
		default: // it may be writing the snapshot
			err = wait.For(ctx, changeInterval)
		}
		if err != nil {
			return found, fmt.Errorf("have the member take a raft snapshot: %s: %w", found, err)
		}
	}
}

// A Forcing looks for what a raft snapshot is to take away before a change to version To. The
// log may have some hundred MB: it is read when there are other files, and once more.
type Forcing struct {
	To etcdversion.Version
	// Examine checks the member's data, Files names the files of its log and raft snapshots.
	Examine func() []cluster.Hazard
	Files   func() string

	files string
	again bool
	found []cluster.Hazard
}

// Left returns what is still there.
func (f *Forcing) Left() cluster.Hazard {
	files := f.Files()
	if changed := files != f.files; changed || f.again {
		f.found, f.files, f.again = f.Examine(), files, changed
	}
	left := cluster.Hazard{State: cluster.HazardAbsent}
	for _, h := range cluster.HazardsIn(f.found, f.To) {
		switch {
		case h.BySnapshot():
			return h
		case h.Kind == cluster.HazardOldLog || h.Kind == cluster.HazardV2Log:
			left, f.again = h, true // it is unknown
		}
	}
	return left
}
