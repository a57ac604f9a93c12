package rpc

import (
	"context"
	"crypto/tls"
	"fmt"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A Caller is who makes a call.
type Caller struct {
	// Name is the node's name, empty for an operator.
	Name cluster.NodeName
	// Operator says that a person calls, with an operator's certificate.
	Operator bool
	// Authenticated says that a certificate proves it. Without TLS the name is
	// what the caller says.
	Authenticated bool
}

func (c Caller) String() string {
	switch {
	case c.Operator:
		return "an operator"
	case c.Name == "":
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

// nameKey is the metadata in which a caller says its name where there is no
// certificate to tell it.
const nameKey = "etcdadm-node"

// A gate finds out who calls, and keeps a handler's panic from ending the
// daemon.
type gate struct {
	identify func(tls.ConnectionState) (Caller, error)
	panicked func(method string, value any, stack []byte)
}

func (g *gate) enter(ctx context.Context) (context.Context, error) {
	caller, err := g.caller(ctx)
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	return context.WithValue(ctx, callerKey{}, caller), nil
}

func (g *gate) caller(ctx context.Context) (Caller, error) {
	if g.identify == nil {
		name := metadata.ValueFromIncomingContext(ctx, nameKey)
		if len(name) != 1 {
			return Caller{}, nil
		}
		return Caller{Name: cluster.NodeName(name[0])}, nil
	}
	p, _ := peer.FromContext(ctx)
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return Caller{}, fmt.Errorf("the connection has no certificate")
	}
	c, err := g.identify(info.State)
	if err != nil {
		return Caller{}, fmt.Errorf("the certificate is of nobody known here: %w", err)
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
	if ctx, err = g.enter(ctx); err != nil {
		return nil, err
	}
	return h(ctx, req)
}

func (g *gate) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) (err error) {
	defer g.caught(info.FullMethod, &err)
	ctx, err := g.enter(ss.Context())
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
