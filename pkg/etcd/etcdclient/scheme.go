package etcdclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// byScheme returns which of the endpoints can be called, and how, where some have TLS and
// others do not, as while it is switched on member by member, or where the certificates are of
// name. Left alone, etcd's client calls all of them as it calls the first one, and takes the
// host of each for the name in its certificate.
func byScheme(endpoints []string, config *tls.Config, name string) ([]string, []grpc.DialOption) {
	var plain, hosts []string
	for _, e := range endpoints {
		if u, err := url.Parse(e); err == nil && strings.EqualFold(u.Scheme, "http") {
			plain, hosts = append(plain, e), append(hosts, u.Host)
		}
	}
	switch {
	case len(plain) == len(endpoints) || len(plain) == 0 && (name == "" || config == nil):
		return endpoints, nil
	case config == nil:
		return plain, nil
	}
	creds := schemes{credentials.NewTLS(config), func(host string) bool { return slices.Contains(hosts, host) }, name}
	return endpoints, []grpc.DialOption{grpc.WithTransportCredentials(creds)}
}

// Credentials returns what calls an endpoint, host:port, with TLS unless it is plain.
func Credentials(config *tls.Config, plain func(host string) bool) credentials.TransportCredentials {
	return schemes{TransportCredentials: credentials.NewTLS(config), plain: plain}
}

type schemes struct {
	credentials.TransportCredentials
	plain func(host string) bool
	// name is in the server's certificate, where that is not the host of the endpoint.
	name string
}

// ClientHandshake is called with host and port of the endpoint.
func (s schemes) ClientHandshake(ctx context.Context, host string, conn net.Conn) (
	net.Conn, credentials.AuthInfo, error) {
	if s.plain(host) {
		return insecure.NewCredentials().ClientHandshake(ctx, host, conn)
	}
	return s.TransportCredentials.ClientHandshake(ctx, cmp.Or(s.name, host), conn)
}

// Clone returns a copy.
func (s schemes) Clone() credentials.TransportCredentials {
	s.TransportCredentials = s.TransportCredentials.Clone()
	return s
}
