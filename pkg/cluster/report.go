package cluster

import "github.com/etcdadm/etcdadm/pkg/etcdversion"

// A Report is what one member says about itself and its cluster.
type Report struct {
	ID        MemberID            `json:"id"`
	ClusterID ClusterID           `json:"clusterID"`
	Version   etcdversion.Version `json:"version"`
	Learner   bool                `json:"learner,omitempty"`
	Leader    MemberID            `json:"leader,omitempty"`
	RaftTerm  uint64              `json:"raftTerm"`
	Applied   uint64              `json:"applied"`
	Revision  Revision            `json:"revision"`
	DBSize    int64               `json:"dbSize"`
	Alarms    []string            `json:"alarms,omitempty"`
	// Members is the member list as this member has applied it. A learner does
	// not tell it (etcd refuses the call).
	Members []Member `json:"members,omitempty"`
}
