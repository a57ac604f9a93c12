package rpc

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// serviceName is the service's name on the wire.
const serviceName = "etcdadm.v1.Node"

// A Handler answers the calls. Its errors reach the caller as [*Error], with
// the kind that [KindOf] tells. Its methods are called from many goroutines.
type Handler interface {
	Observe(ctx context.Context, from Caller) (cluster.Answer, error)
	// Execute is called for operations only. The execution's Holder is the caller.
	Execute(ctx context.Context, from Caller, e plan.Order) (ExecuteResponse, error)
	// Lease is called with requests whose Holder is the caller.
	Lease(ctx context.Context, from Caller, req lease.Request) (lease.Reply, error)
	// Standing tells to whom the node has given its vote, if that still runs.
	Standing(ctx context.Context, from Caller) (lease.Standing, error)
}

// node is the service.
type node struct {
	name    cluster.NodeName
	cluster string
	h       Handler
}

var serviceDesc = grpc.ServiceDesc{
	ServiceName: serviceName,
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		method("Hello", (*node).hello),
		method("Observe", (*node).observe),
		method("Execute", (*node).execute),
		method("Lease", (*node).lease),
		method("Standing", (*node).standing),
	},
}

// method describes a method of the service, as generated code would.
func method[Req, Resp any](name string, call func(*node, context.Context, Caller, Req) (Resp, error)) grpc.MethodDesc {
	full := "/" + serviceName + "/" + name
	return grpc.MethodDesc{
		MethodName: name,
		Handler: func(srv any, ctx context.Context, read func(any) error, through grpc.UnaryServerInterceptor) (any, error) {
			var req Req
			if err := read(&req); err != nil {
				return nil, err
			}
			handle := func(ctx context.Context, req any) (any, error) {
				from, _ := CallerFrom(ctx)
				resp, err := call(srv.(*node), ctx, from, *req.(*Req))
				if err != nil {
					return nil, toStatus(err)
				}
				return &resp, nil
			}
			return through(ctx, &req, &grpc.UnaryServerInfo{Server: srv, FullMethod: full}, handle)
		},
	}
}

func (n *node) hello(context.Context, Caller, HelloRequest) (HelloResponse, error) {
	return HelloResponse{Name: n.name, Cluster: n.cluster}, nil
}

func (n *node) observe(ctx context.Context, from Caller, req ObserveRequest) (cluster.Answer, error) {
	if err := n.mine(req.Cluster); err != nil {
		return cluster.Answer{}, err
	}
	return n.h.Observe(ctx, from)
}

func (n *node) execute(ctx context.Context, from Caller, req ExecuteRequest) (ExecuteResponse, error) {
	if err := n.mine(req.Cluster); err != nil {
		return ExecuteResponse{}, err
	}
	if err := holds(from, req.Holder); err != nil {
		return ExecuteResponse{}, err
	}
	op, err := plan.Parse(req.Argv)
	if err != nil {
		return ExecuteResponse{}, &Error{
			Kind: Invalid, Text: "order not understood by node " + string(n.name) + ": " + err.Error(),
			Hint: "where the nodes run different versions of etcd-manager, upgrade the older ones; the order is tried again",
		}
	}
	return n.h.Execute(ctx, from, plan.Order{
		Operation: op, Term: req.Term, Holder: req.Holder, LeaseVoters: req.LeaseVoters,
	})
}

func (n *node) lease(ctx context.Context, from Caller, req lease.Request) (lease.Reply, error) {
	if err := n.mine(req.Cluster); err != nil {
		return lease.Reply{}, err
	}
	if err := holds(from, req.Holder); err != nil {
		return lease.Reply{}, err
	}
	return n.h.Lease(ctx, from, req)
}

func (n *node) standing(ctx context.Context, from Caller, req StandingRequest) (lease.Standing, error) {
	if err := n.mine(req.Cluster); err != nil {
		return lease.Standing{}, err
	}
	return n.h.Standing(ctx, from)
}

func (n *node) mine(name string) error {
	if name != n.cluster {
		return &Error{
			Kind: Refused, Cluster: n.cluster,
			Text: fmt.Sprintf("node %s belongs to cluster %s, not %q", n.name, n.cluster, name),
		}
	}
	return nil
}

// holds makes sure that a caller acts in nobody else's name.
func holds(from Caller, holder cluster.NodeName) error {
	if from.Name != holder || from.Name == "" {
		return &Error{Kind: Refused, Text: from.String() + " cannot act as " + Caller{Name: holder}.String()}
	}
	return nil
}
