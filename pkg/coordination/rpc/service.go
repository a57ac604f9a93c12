package rpc

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/internal/nodepb"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// A Handler answers the calls. Its errors reach the caller as [*Error], with
// the kind that [KindOf] returns. Its methods are called from many goroutines.
type Handler interface {
	Observe(ctx context.Context, from Caller) (cluster.Answer, error)
	// Execute is called for operations only. The order's Holder is the caller.
	Execute(ctx context.Context, from Caller, e plan.Order) error
	// Lease is called with requests whose Holder is the caller.
	Lease(ctx context.Context, from Caller, req lease.Request) (lease.Reply, error)
	// Standing reports to whom the node has given its vote, if that still runs.
	Standing(ctx context.Context, from Caller) (lease.Standing, error)
}

// node is the service.
type node struct {
	nodepb.UnimplementedNodeServer
	name    cluster.NodeName
	cluster string
	h       Handler
}

func (n *node) Hello(context.Context, *nodepb.HelloRequest) (*nodepb.HelloResponse, error) {
	return &nodepb.HelloResponse{Name: string(n.name), Cluster: n.cluster}, nil
}

func (n *node) Observe(ctx context.Context, req *nodepb.ObserveRequest) (*nodepb.ObserveResponse, error) {
	from, err := n.from(ctx, req)
	if err != nil {
		return nil, toStatus(err)
	}
	answer, err := n.h.Observe(ctx, from)
	if err != nil {
		return nil, toStatus(err)
	}
	b, err := json.Marshal(answer)
	if err != nil {
		return nil, toStatus(fmt.Errorf("write the answer: %w", err))
	}
	return &nodepb.ObserveResponse{Answer: b}, nil
}

// maxOrderID bounds the name of an order, which the node keeps on its disk.
const maxOrderID = 64

func (n *node) Execute(ctx context.Context, req *nodepb.ExecuteRequest) (*nodepb.ExecuteResponse, error) {
	from, err := n.from(ctx, req)
	if err != nil {
		return nil, toStatus(err)
	}
	op, err := plan.Parse(req.GetArgv())
	if err != nil {
		return nil, toStatus(&Error{
			Kind: Invalid, Text: "order not understood by node " + string(n.name) + ": " + err.Error(),
			Hint: "if the nodes run different versions of etcd-manager, upgrade the older ones; the order will be retried",
		})
	}
	if size := len(req.GetId()); size > maxOrderID {
		return nil, toStatus(&Error{Kind: Invalid, Text: fmt.Sprintf("the order's id has %d bytes, at most %d are allowed", size,
			maxOrderID)})
	}
	if err := n.h.Execute(ctx, from, plan.Order{
		Operation: op, Term: cluster.Term(req.GetTerm()), Holder: cluster.NodeName(req.GetHolder()),
		LeaseVoters: leaseVoters(req.GetLeaseVoters()), ID: req.GetId(),
	}); err != nil {
		return nil, toStatus(err)
	}
	return &nodepb.ExecuteResponse{}, nil
}

func (n *node) Lease(ctx context.Context, req *nodepb.LeaseRequest) (*nodepb.LeaseResponse, error) {
	from, err := n.from(ctx, req)
	if err != nil {
		return nil, toStatus(err)
	}
	reply, err := n.h.Lease(ctx, from, leaseRequest(req))
	if err != nil {
		return nil, toStatus(err)
	}
	return leaseResponse(reply), nil
}

func (n *node) Standing(ctx context.Context, req *nodepb.StandingRequest) (*nodepb.StandingResponse, error) {
	from, err := n.from(ctx, req)
	if err != nil {
		return nil, toStatus(err)
	}
	s, err := n.h.Standing(ctx, from)
	if err != nil {
		return nil, toStatus(err)
	}
	return standingResponse(s), nil
}

// from returns who makes a call. It is an error if the call is for another cluster, or acts in somebody else's
// name.
func (n *node) from(ctx context.Context, req interface{ GetCluster() string }) (Caller, error) {
	from, _ := CallerFrom(ctx)
	if req.GetCluster() != n.cluster {
		return from, &Error{
			Kind: Refused, Cluster: n.cluster,
			Text: fmt.Sprintf("node %s belongs to cluster %s, not %q", n.name, n.cluster, req.GetCluster()),
		}
	}
	acts, ok := req.(interface{ GetHolder() string })
	if !ok {
		return from, nil
	}
	if holder := cluster.NodeName(acts.GetHolder()); from.Name != holder || from.Name == "" {
		return from, &Error{Kind: Refused, Text: from.String() + " cannot act as " + Caller{Name: holder}.String()}
	}
	return from, nil
}
