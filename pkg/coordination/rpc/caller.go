package rpc

import (
	"context"
	"crypto/tls"
	"fmt"
	"runtime/debug"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/internal/nodepb"
)

// A Role is what a caller may ask for, see [Permits].
type Role string

// The roles.
const (
	RoleNode     Role = "node"
	RoleOperator Role = "operator"
	RoleReadOnly Role = "read-only"
)

// everybody may look; whoever acts is a node or an operator.
var (
	everybody = []Role{RoleNode, RoleOperator, RoleReadOnly}
	actors    = []Role{RoleNode, RoleOperator}
)

// permitted are the roles that may call a method. What is not named here, such
// as gossip, is for nodes only.
var permitted = map[string][]Role{
	nodepb.Node_Hello_FullMethodName:    everybody,
	nodepb.Node_Observe_FullMethodName:  everybody,
	nodepb.Node_Standing_FullMethodName: everybody,
	nodepb.Node_Execute_FullMethodName:  actors,
	nodepb.Node_Lease_FullMethodName:    actors,
}

// Permits reports whether a caller of the role may call the method, such as
// /etcdadm.v1.Node/Observe.
func Permits(role Role, method string) bool {
	roles, named := permitted[method]
	if !named {
		return role == RoleNode
	}
	return slices.Contains(roles, role)
}

// A Caller is who makes a call.
type Caller struct {
	// Name is the node's name, or that of a person. It is empty for somebody who
	// says none, which is possible without TLS only.
	Name cluster.NodeName
	Role Role
	// Authenticated says that a certificate proves both. Without TLS they are what
	// the caller says.
	Authenticated bool
}

func (c Caller) String() string {
	if c.Name == "" {
		return "an unknown caller"
	}
	return string(c.Name)
}

type callerKey struct{}

// CallerFrom returns who made the call that ctx belongs to. It knows the caller
// of every call to the [Server], of all services.
func CallerFrom(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}

// nameKey and roleKey are the metadata in which a caller says its name and its
// role where there is no certificate to show them.
const (
	nameKey = "etcdadm-node"
	roleKey = "etcdadm-role"
)

// A gate finds out who calls, and keeps a handler's panic from ending the
// daemon.
type gate struct {
	identify func(tls.ConnectionState) (Caller, error)
	panicked func(method string, value any, stack []byte)
}

func (g *gate) enter(ctx context.Context, method string) (context.Context, error) {
	caller, err := g.caller(ctx)
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	if !Permits(caller.Role, method) {
		return nil, toStatus(&Error{
			Kind: Refused, Text: fmt.Sprintf("%s has a certificate of the kind %s, which does not permit %s", caller,
				caller.Role, method),
			Hint: "issue a certificate that may: etcdadm certs user --role=operator",
		})
	}
	return context.WithValue(ctx, callerKey{}, caller), nil
}

func (g *gate) caller(ctx context.Context) (Caller, error) {
	if g.identify == nil {
		c := Caller{Role: RoleNode}
		if name := metadata.ValueFromIncomingContext(ctx, nameKey); len(name) == 1 {
			c.Name = cluster.NodeName(name[0])
		}
		if role := metadata.ValueFromIncomingContext(ctx, roleKey); len(role) == 1 {
			c.Role = Role(role[0])
		}
		return c, nil
	}
	p, _ := peer.FromContext(ctx)
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return Caller{}, fmt.Errorf("the connection has no certificate")
	}
	c, err := g.identify(info.State)
	if err != nil {
		return Caller{}, fmt.Errorf("the certificate has no name known here: %w", err)
	}
	c.Authenticated = true
	return c, nil
}

// caught turns a panic into an error of the method.
func (g *gate) caught(method string, err *error) {
	value := recover()
	if value == nil {
		return
	}
	if g.panicked != nil {
		g.panicked(method, value, debug.Stack())
	}
	*err = toStatus(&Error{Kind: Internal, Text: fmt.Sprintf("%s: panic: %v", method, value)})
}

func (g *gate) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (_ any, err error) {
	defer g.caught(info.FullMethod, &err)
	if ctx, err = g.enter(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return h(ctx, req)
}

func (g *gate) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) (err error) {
	defer g.caught(info.FullMethod, &err)
	ctx, err := g.enter(ss.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	return h(srv, &namedStream{ss, ctx})
}

type namedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *namedStream) Context() context.Context { return s.ctx }
