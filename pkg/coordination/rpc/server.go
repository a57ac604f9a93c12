package rpc

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/coordination/internal/nodepb"
	"github.com/etcdadm/etcdadm/pkg/coordination/listen"
)

// Sizes and times of both ends of a connection. An idle daemon has to fit into
// 32 MiB, so buffers are small; messages are a few kilobytes.
const (
	maxMessage  = 4 << 20
	bufferSize  = 4 << 10
	windowSize  = 64 << 10
	maxStreams  = 256
	dialTimeout = 2 * time.Second
	minBackoff  = 100 * time.Millisecond
	maxBackoff  = 2 * time.Second
	// pingInterval is the least that gRPC allows. A connection without an answer is
	// given up after pingTimeout more.
	pingInterval = 10 * time.Second
	pingTimeout  = 3 * time.Second
	// defaultHandshakeTimeout is how long the other end may take to prove who it is.
	defaultHandshakeTimeout = 5 * time.Second
	// callTimeout bounds calls whose context has no deadline.
	callTimeout = 10 * time.Second
)

// PortLimits bound the connections to the daemon's port. A daemon keeps one to
// each other, and a person's command one to each daemon; machines behind one
// address (a network translator) share its part.
var PortLimits = listen.Limits{Fresh: 256, FreshPerSource: 16, Total: 1024, PerSource: 128}

// ServerOptions describe a [Server].
type ServerOptions struct {
	// Name is this node, Cluster its cluster.
	Name    cluster.NodeName
	Cluster string
	Handler Handler
	// TLS must demand client certificates (tls.RequireAndVerifyClientCert). Nil
	// means no TLS: then callers are who they say they are.
	TLS *tls.Config
	// Marks are those of the incarnations that this node is of, see [Mark]. Nil is for none.
	Marks func() []string
	// Identify returns whose certificate a connection has. It is needed with TLS.
	// Authenticated is set for it.
	Identify func(tls.ConnectionState) (Caller, error)
	// Panicked is called with a handler's panic; nil ignores it. The caller gets an
	// error of kind [Internal].
	Panicked func(method string, value any, stack []byte)
	// Strange is called for calls of services that nobody has registered, which get
	// [ErrUnimplemented], with the address that they come from; nil ignores them.
	Strange func(from Caller, address, method string)

	// handshake is defaultHandshakeTimeout, where no test has more time.
	handshake time.Duration
}

// A Server serves the daemon's port.
type Server struct{ s *grpc.Server }

// NewServer returns a server that does not listen yet.
func NewServer(o ServerOptions) (*Server, error) {
	creds := insecure.NewCredentials()
	g := &gate{panicked: o.Panicked}
	if o.TLS != nil {
		if o.TLS.ClientAuth != tls.RequireAndVerifyClientCert {
			return nil, errors.New("rpc server: TLS without client certificates")
		}
		if o.Identify == nil {
			return nil, errors.New("rpc server: TLS without a way to identify callers")
		}
		if o.Marks != nil {
			o.TLS = marking(o.TLS, o.Marks)
		}
		creds, g.identify = provingTLS{credentials.NewTLS(o.TLS)}, o.Identify
	}
	s := grpc.NewServer(
		grpc.Creds(creds),
		grpc.UnaryInterceptor(g.unary),
		grpc.StreamInterceptor(g.stream),
		grpc.UnknownServiceHandler(unknownService(o.Strange)),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(cmp.Or(o.handshake, defaultHandshakeTimeout)),
		grpc.ReadBufferSize(bufferSize), grpc.WriteBufferSize(bufferSize),
		// A fixed window also switches off the pings that measure bandwidth.
		grpc.StaticStreamWindowSize(windowSize), grpc.StaticConnWindowSize(4*windowSize),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 2 * pingInterval, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingInterval / 2, PermitWithoutStream: true}),
	)
	nodepb.RegisterNodeServer(s, &node{name: o.Name, cluster: o.Cluster, h: o.Handler})
	return &Server{s: s}, nil
}

// RegisterService adds another service, before [Server.Serve].
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) { s.s.RegisterService(desc, impl) }

// provingTLS notifies a [listen.Limited] of those that have proven who they are.
type provingTLS struct {
	credentials.TransportCredentials
}

func (p provingTLS) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := p.TransportCredentials.ServerHandshake(raw)
	if limited, ok := raw.(*listen.Conn); ok && err == nil && !limited.Proved() {
		_ = c.Close()
		return nil, nil, errors.New("too many connections that have not identified themselves")
	}
	return c, info, err
}

func (p provingTLS) Clone() credentials.TransportCredentials {
	return provingTLS{p.TransportCredentials.Clone()}
}

// Serve answers on l until [Server.Stop], which closes l. It returns nil then.
func (s *Server) Serve(l net.Listener) error {
	if err := s.s.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// Stop takes no more calls and waits for those under way until ctx is over;
// then it cuts them off. Services with streams that do not end by themselves
// (gossip) should be closed first.
func (s *Server) Stop(ctx context.Context) {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.s.GracefulStop()
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
		s.s.Stop()
		<-stopped
	}
}
