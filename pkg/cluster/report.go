package cluster

import "github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"

// A Report is what one member says about itself and its cluster.
type Report struct {
	ID        MemberID            `json:"id"`
	ClusterID ClusterID           `json:"clusterID"`
	Version   etcdversion.Version `json:"version"`
	// Storage is the version of the storage format, zero before etcd 3.6.
	Storage etcdversion.Version `json:"storage,omitzero"`
	// Cluster is the cluster version as the member knows it: the minor version that
	// all members are known to run. It is zero where that is not known.
	Cluster etcdversion.Version `json:"cluster,omitzero"`
	// Downgrade is the version to which etcd lets the cluster be downgraded now, zero
	// where it does not, and where the member does not report: before etcd 3.6.
	Downgrade etcdversion.Version `json:"downgrade,omitzero"`
	Learner   bool                `json:"learner,omitempty"`
	Leader    MemberID            `json:"leader,omitempty"`
	RaftTerm  uint64              `json:"raftTerm"`
	Applied   uint64              `json:"applied"`
	// Committed is the raft index that the member knows to be committed.
	Committed uint64 `json:"committed,omitempty"`
	// Read is how a read through the quorum ended that was asked of this member.
	Read Read `json:"read,omitempty"`
	// Denied is etcd's answer where it denied that read: authentication is on, and
	// who asks has not the rights. It gives no snapshot then either.
	Denied   string   `json:"denied,omitempty"`
	Revision Revision `json:"revision"`
	DBSize   int64    `json:"dbSize"`
	Alarms   []string `json:"alarms,omitempty"`
	// Members is the member list as this member has applied it. A learner does
	// not report it (etcd refuses the call).
	Members []Member `json:"members,omitempty"`
}

// DataVersion is the version that the member's data is known to be of: the cluster
// version, or the version of the storage format, where that is later. While etcd
// prepares a downgrade, the first is earlier for some seconds. It is zero where the
// cluster version is not known.
func (r Report) DataVersion() etcdversion.Version {
	if r.Cluster.IsZero() || r.Cluster.AtLeast(r.Storage.Major, r.Storage.Minor) {
		return r.Cluster
	}
	return r.Storage
}

// MaxBehind is by how many raft entries a member may trail the one that has
// applied most, and still be read for a backup. A member that keeps up trails by
// tens under load; a report is not of one instant for all.
const MaxBehind = 1000
