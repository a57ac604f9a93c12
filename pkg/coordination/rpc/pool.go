package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// PoolOptions describe a [Pool].
type PoolOptions struct {
	// Self is this node; without TLS, callees are given this name.
	Self cluster.NodeName
	// Role is what callees are given without TLS, empty for a node.
	Role Role
	// ClientTLS returns the configuration for a connection to a node: the own
	// certificate, the CA, and the server name etcd-manager-server-NODE. For the
	// empty name it returns one that accepts every node's certificate of the CA.
	// It is called for each handshake, so that new certificates are used. Nil
	// means no TLS.
	ClientTLS func(node cluster.NodeName) *tls.Config
	// NameOf returns whose certificate a server has. It is needed with TLS.
	NameOf func(tls.ConnectionState) (cluster.NodeName, error)
}

// unusedTimeout is how long a connection is kept that nobody asks for and that is not
// open. gRPC closes one without calls after the same time.
const unusedTimeout = 10 * time.Minute

// A Pool keeps one connection to each node at each address. It is safe for
// concurrent use.
type Pool struct {
	o PoolOptions

	mu     sync.Mutex
	links  map[link]*kept
	closed bool
}

type link struct {
	name    cluster.NodeName
	address string
}

type kept struct {
	conn *grpc.ClientConn
	used time.Time
}

// NewPool returns an empty pool.
func NewPool(o PoolOptions) *Pool { return &Pool{o: o, links: map[link]*kept{}} }

// Conn returns the connection to the node name at address, host:port. It does
// not wait: the first call on the connection connects, and a lost connection
// is made again, at most [maxBackoff] apart. The server must prove that it is
// the node name. An empty name is for an address whose node is not known: the
// server must prove that it is some node, see [Pool.Hello].
func (p *Pool) Conn(name cluster.NodeName, address string) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.New("the connections are closed")
	}
	now := time.Now()
	key := link{name, address}
	if k := p.links[key]; k != nil {
		k.used = now
		return k.conn, nil
	}
	for old, k := range p.links {
		if now.Sub(k.used) > unusedTimeout && k.conn.GetState() != connectivity.Ready {
			delete(p.links, old)
			_ = k.conn.Close() // its error says only that it was closed before
		}
	}
	conn, err := grpc.NewClient("passthrough:///"+address, p.dialOptions(name)...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s at %s: %w", name, address, err)
	}
	p.links[key] = &kept{conn, now}
	return conn, nil
}

// Dial is [Pool.Conn] in the form that package gossip wants.
func (p *Pool) Dial(_ context.Context, address string, name cluster.NodeName) (grpc.ClientConnInterface, error) {
	return p.Conn(name, address)
}

// Close ends all connections and the calls on them.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for key, k := range p.links {
		errs = append(errs, k.conn.Close())
		delete(p.links, key)
	}
	return errors.Join(errs...)
}

func (p *Pool) dialOptions(name cluster.NodeName) []grpc.DialOption {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(p.credentials(name)),
		// With its own dialer, gRPC asks no proxy.
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			d := net.Dialer{Timeout: dialTimeout}
			return d.DialContext(ctx, "tcp", address)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: minBackoff, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxBackoff},
			MinConnectTimeout: dialTimeout,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingInterval, Timeout: pingTimeout}),
		grpc.WithReadBufferSize(bufferSize), grpc.WithWriteBufferSize(bufferSize),
		grpc.WithStaticStreamWindowSize(windowSize), grpc.WithStaticConnWindowSize(4 * windowSize),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithIdleTimeout(unusedTimeout),
		grpc.WithDisableServiceConfig(),
	}
	if p.o.ClientTLS == nil {
		options = append(options, grpc.WithUnaryInterceptor(p.nameUnary), grpc.WithStreamInterceptor(p.nameStream))
	}
	return options
}

// nameUnary and nameStream say who calls where no certificate does.
func (p *Pool) nameUnary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return call(p.named(ctx), method, req, reply, cc, opts...)
}

func (p *Pool) nameStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return open(p.named(ctx), desc, cc, method, opts...)
}

func (p *Pool) named(ctx context.Context) context.Context {
	role := p.o.Role
	if role == "" {
		role = RoleNode
	}
	return metadata.AppendToOutgoingContext(ctx, nameKey, string(p.o.Self), roleKey, string(role))
}

func (p *Pool) credentials(name cluster.NodeName) credentials.TransportCredentials {
	if p.o.ClientTLS == nil {
		return insecure.NewCredentials()
	}
	return &freshTLS{credentials.NewTLS(nil), func() *tls.Config { return p.o.ClientTLS(name) }}
}

// freshTLS asks for the configuration at each handshake.
type freshTLS struct {
	credentials.TransportCredentials
	config func() *tls.Config
}

func (f *freshTLS) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (
	net.Conn, credentials.AuthInfo, error) {
	conf := f.config()
	if conf.ServerName != "" {
		authority = conf.ServerName // gRPC takes the expected name from here
	}
	return credentials.NewTLS(conf).ClientHandshake(ctx, authority, raw)
}

func (f *freshTLS) Clone() credentials.TransportCredentials {
	return &freshTLS{f.TransportCredentials.Clone(), f.config}
}
