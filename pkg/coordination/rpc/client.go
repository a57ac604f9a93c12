package rpc

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/coordination/internal/nodepb"
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

// An Identity says who a daemon is.
type Identity struct {
	Name    cluster.NodeName
	Cluster string
}

// Hello asks the daemon at an address who it is. With TLS, its certificate
// proves the name.
func (p *Pool) Hello(ctx context.Context, address string) (Identity, error) {
	var from peer.Peer
	resp, err := invoke(ctx, p, Node{Address: address}, "Hello", nodepb.NodeClient.Hello, &nodepb.HelloRequest{},
		grpc.Peer(&from))
	if err != nil {
		return Identity{}, err
	}
	id := Identity{Name: cluster.NodeName(resp.GetName()), Cluster: resp.GetCluster()}
	if p.o.ClientTLS == nil {
		return id, nil
	}
	info, ok := from.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return id, fmt.Errorf("hello %s: the connection has no certificate", address)
	}
	proven, err := p.o.NameOf(info.State)
	if err != nil {
		return id, fmt.Errorf("hello %s: %w", address, err)
	}
	if proven != id.Name {
		return id, &Error{Kind: Refused,
			Text: fmt.Sprintf("hello %s: it says that it is %s, but its certificate is of %s", address, id.Name, proven)}
	}
	return id, nil
}

// Observe asks a node of the cluster for its part of an observation.
func (p *Pool) Observe(ctx context.Context, n Node, clusterName string) (cluster.Answer, error) {
	var answer cluster.Answer
	resp, err := invoke(ctx, p, n, "Observe", nodepb.NodeClient.Observe, &nodepb.ObserveRequest{Cluster: clusterName})
	if err != nil {
		return answer, err
	}
	// Unknown fields are ignored: a newer daemon may send more.
	if err := json.Unmarshal(resp.GetAnswer(), &answer); err != nil {
		return answer, fmt.Errorf("Observe %s: read the answer: %w", n, err)
	}
	return answer, nil
}

// Execute has a node of the cluster carry out an order. When it returns an error of kind
// [Unreachable], the order may have been carried out, or still may be.
func (p *Pool) Execute(ctx context.Context, n Node, clusterName string, e plan.Order) error {
	_, err := invoke(ctx, p, n, "Execute", nodepb.NodeClient.Execute, &nodepb.ExecuteRequest{
		Cluster: clusterName, Argv: plan.Argv(e.Operation), Term: uint64(e.Term), Holder: string(e.Holder),
		LeaseVoters: leaseVotersMessage(e.LeaseVoters), Id: e.ID,
	})
	return err
}

// Lease asks a lease voter. A refusal is a reply, not an error.
func (p *Pool) Lease(ctx context.Context, n Node, req lease.Request) (lease.Reply, error) {
	resp, err := invoke(ctx, p, n, "Lease", nodepb.NodeClient.Lease, leaseRequestMessage(req))
	return leaseReply(resp), err
}

// Standing asks a lease voter of the cluster to whom it has given its vote.
func (p *Pool) Standing(ctx context.Context, n Node, clusterName string) (lease.Standing, error) {
	resp, err := invoke(ctx, p, n, "Standing", nodepb.NodeClient.Standing,
		&nodepb.StandingRequest{Cluster: clusterName})
	return standing(resp), err
}

// A method is one of [nodepb.NodeClient].
type method[Req, Resp any] func(c nodepb.NodeClient, ctx context.Context, req *Req, opts ...grpc.CallOption) (
	*Resp, error)

// invoke calls a method. Errors are [*Error], wrapped.
func invoke[Req, Resp any](ctx context.Context, p *Pool, n Node, name string, call method[Req, Resp], req *Req,
	opts ...grpc.CallOption) (*Resp, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	conn, err := p.Conn(n.Name, n.Address)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, n, err)
	}
	resp, err := call(nodepb.NewNodeClient(conn), ctx, req, opts...)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, n, fromStatus(ctx, err))
	}
	return resp, nil
}
