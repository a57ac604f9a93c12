package rpc

import (
	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A HelloRequest asks a daemon who it is.
type HelloRequest struct{}

// A HelloResponse says who a daemon is.
type HelloResponse struct {
	Name    cluster.NodeName `json:"name"`
	Cluster string           `json:"cluster"`
}

// An ObserveRequest asks a daemon for its part of an observation.
type ObserveRequest struct {
	// Cluster is the cluster that the caller means. A daemon of another one
	// refuses.
	Cluster string `json:"cluster"`
}

// An ExecuteRequest asks a daemon to carry out one operation on its machine.
type ExecuteRequest struct {
	Cluster string `json:"cluster"`
	// Argv is the operation as plan.Argv writes it.
	Argv []string `json:"argv"`
	// Term is the term of the coordinator's lease. Holder is the coordinator, or
	// the person who has the lease: the caller.
	Term   cluster.Term     `json:"term"`
	Holder cluster.NodeName `json:"holder,omitempty"`
	// LeaseVoters is the finished record of the coordinator's lease. A node that
	// joins begins with it, see lease.Durable.Join.
	LeaseVoters cluster.LeaseVoters `json:"leaseVoters,omitzero"`
}

// An ExecuteResponse says that an operation is done.
type ExecuteResponse struct {
	// Result is what the operation made, such as the name of a backup; empty for
	// most.
	Result string `json:"result,omitempty"`
}

// A StandingRequest asks a lease voter to whom it has given its vote.
type StandingRequest struct {
	Cluster string `json:"cluster"`
}
