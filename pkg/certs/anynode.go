package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// AnyNodeTLS returns a TLS configuration for a client that knows an address
// but not whose it is: it connects to every server that proves to be the
// daemon of some node. [ServerNode] reports which.
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
	return nodeOf(state.PeerCertificates[0], serverPrefix)
}

// Authority returns the key identifier of the authority that has issued the certificate of a
// server, "" where that does not say. It does not verify the certificate.
func Authority(state tls.ConnectionState) string {
	if len(state.PeerCertificates) == 0 {
		return ""
	}
	return hex.EncodeToString(state.PeerCertificates[0].AuthorityKeyId)
}

// KeyIDs returns the key identifiers of the authorities that are trusted, as [Authority] has
// them.
func (ca *CA) KeyIDs() (ids []string) {
	for _, c := range ca.Bundle {
		if len(c.SubjectKeyId) > 0 {
			ids = append(ids, hex.EncodeToString(c.SubjectKeyId))
		}
	}
	return ids
}

// NodeOf returns the node that a certificate of the daemons' CA was issued to.
// It does not verify the certificate.
func NodeOf(cert *x509.Certificate) (cluster.NodeName, error) {
	if node, err := nodeOf(cert, clientPrefix); err == nil {
		return node, nil
	}
	return nodeOf(cert, serverPrefix)
}

func nodeOf(cert *x509.Certificate, prefix string) (cluster.NodeName, error) {
	name, ok := strings.CutPrefix(cert.Subject.CommonName, prefix)
	if !ok {
		return "", fmt.Errorf("%w: its common name is %q", ErrNoPeer, cert.Subject.CommonName)
	}
	node := cluster.NodeName(name)
	if err := node.Validate(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoPeer, err)
	}
	return node, nil
}
