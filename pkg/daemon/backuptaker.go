package daemon

import (
	"context"
	"time"

	"github.com/etcdadm/etcdadm/pkg/backup"
	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdclient"
	"github.com/etcdadm/etcdadm/pkg/node/apply"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// stallTimeout is how long a member may send nothing of its snapshot.
const stallTimeout = 2 * time.Minute

// A backup taker takes backups into the store.
type backupTaker struct {
	store   *store.Store
	cluster string
	how     Backups
	spec    func() cluster.Spec
}

// Take writes one backup.
func (t backupTaker) Take(ctx context.Context, source etcdclient.Snapshotter, of apply.BackupOf) (
	cluster.Backup, error) {
	r, err := of.Report(ctx)
	if err != nil {
		return cluster.Backup{}, err
	}
	spec := t.spec()
	return backup.Take(ctx, backup.TakeOptions{
		Source: source, Store: t.store, Stall: stallTimeout, Tool: t.how.Tool,
		Compression: t.how.Compression, Recipients: t.how.Recipients, Signer: t.how.Signer,
		Info: backup.Info{EtcdVersion: of.Version, MemberCount: spec.MemberCount, SpecVersion: spec.EtcdVersion},
		Facts: backup.Facts{
			Reason: of.Reason, Cluster: t.cluster, ClusterID: r.ClusterID, MemberID: r.ID, MemberName: of.Node,
			StorageVersion: r.Storage, Revision: r.Revision, RaftTerm: r.RaftTerm, RaftIndex: r.Applied,
		},
	})
}
