package certs

import (
	"crypto/tls"
	"fmt"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// AnyNodeTLS returns a TLS configuration for a client that knows an address
// but not whose it is: it connects to every server that proves to be the
// daemon of some node. [ServerNode] tells of which.
func (id *Identity) AnyNodeTLS() *tls.Config {
	config := id.ClientTLS("any")
	config.ServerName = ""
	config.VerifyConnection = func(state tls.ConnectionState) error {
		node, err := ServerNode(state)
		if err != nil {
			return err
		}
		return verifyServer(state, id.Pool(), ManagerServerName(node))
	}
	return config
}

// ServerNode returns the node whose daemon is at the other end of a connection
// that was made with [Identity.AnyNodeTLS] or [Identity.ClientTLS]; they have
// verified the certificate.
func ServerNode(state tls.ConnectionState) (cluster.NodeName, error) {
	if len(state.PeerCertificates) == 0 {
		return "", ErrNoPeer
	}
	cn := state.PeerCertificates[0].Subject.CommonName
	name, ok := strings.CutPrefix(cn, serverPrefix)
	if !ok {
		return "", fmt.Errorf("%w: its common name is %q", ErrNoPeer, cn)
	}
	node := cluster.NodeName(name)
	if err := node.Validate(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoPeer, err)
	}
	return node, nil
}
