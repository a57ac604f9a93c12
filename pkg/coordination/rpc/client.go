package rpc

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/lease"
)

// A Node is a daemon to call: who it is and where it listens.
type Node struct {
	Name    cluster.NodeName
	Address string
}

func (n Node) String() string {
	if n.Name == "" {
		return n.Address
	}
	return string(n.Name)
}

// Hello asks the daemon at an address who it is. With TLS, its certificate
// proves the name.
func (p *Pool) Hello(ctx context.Context, address string) (HelloResponse, error) {
	var from peer.Peer
	n := Node{Address: address}
	resp, err := invoke[HelloRequest, HelloResponse](ctx, p, n, "Hello", HelloRequest{}, grpc.Peer(&from))
	if err != nil || p.o.ClientTLS == nil {
		return resp, err
	}
	info, ok := from.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return resp, fmt.Errorf("hello %s: the connection has no certificate", address)
	}
	proven, err := p.o.NameOf(info.State)
	if err != nil {
		return resp, fmt.Errorf("hello %s: %w", address, err)
	}
	if proven != resp.Name {
		return resp, &Error{Kind: Refused,
			Text: fmt.Sprintf("hello %s: it says that it is %s, its certificate is of %s", address, resp.Name, proven)}
	}
	return resp, nil
}

// Observe asks a node for its part of an observation.
func (p *Pool) Observe(ctx context.Context, n Node, req ObserveRequest) (cluster.Answer, error) {
	return invoke[ObserveRequest, cluster.Answer](ctx, p, n, "Observe", req)
}

// Execute has a node carry out an operation. When it returns an error of kind
// [Unreachable], the operation may have been carried out, or still may be.
func (p *Pool) Execute(ctx context.Context, n Node, req ExecuteRequest) (ExecuteResponse, error) {
	return invoke[ExecuteRequest, ExecuteResponse](ctx, p, n, "Execute", req)
}

// Lease asks a lease voter. A refusal is a reply, not an error.
func (p *Pool) Lease(ctx context.Context, n Node, req lease.Request) (lease.Reply, error) {
	return invoke[lease.Request, lease.Reply](ctx, p, n, "Lease", req)
}

// Standing asks a lease voter to whom it has given its vote.
func (p *Pool) Standing(ctx context.Context, n Node, req StandingRequest) (lease.Standing, error) {
	return invoke[StandingRequest, lease.Standing](ctx, p, n, "Standing", req)
}

// invoke calls a method. Errors are [*Error], wrapped.
func invoke[Req, Resp any](ctx context.Context, p *Pool, n Node, method string, req Req, opts ...grpc.CallOption) (
	Resp, error) {
	var resp Resp
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	conn, err := p.Conn(n.Name, n.Address)
	if err == nil {
		opts = append(opts, grpc.CallContentSubtype(codec.Name()))
		if err = conn.Invoke(ctx, "/"+serviceName+"/"+method, &req, &resp, opts...); err != nil {
			err = fromStatus(ctx, err)
		}
	}
	if err != nil {
		return resp, fmt.Errorf("%s %s: %w", method, n, err)
	}
	return resp, nil
}
