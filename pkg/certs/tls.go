package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// ServerTLS returns a TLS configuration for a server: it shows the identity's
// present certificate and lets in only clients with a certificate that the
// present CA bundle trusts. Connections that are open stay open when either
// changes. There is no session resumption, so each connection is verified.
func (id *Identity) ServerTLS() *tls.Config {
	base := id.serverTLS()
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return id.serverTLS(), nil
	}
	return base
}

func (id *Identity) serverTLS() *tls.Config {
	now := id.current.Load()
	return &tls.Config{
		MinVersion:             tls.VersionTLS12,
		Certificates:           []tls.Certificate{now.tls},
		ClientCAs:              now.pool,
		ClientAuth:             tls.RequireAndVerifyClientCert,
		SessionTicketsDisabled: true,
	}
}

// ClientTLS returns a TLS configuration for a client that shows the identity's
// present certificate and connects only to servers that prove to be
// serverName, to the present CA bundle, at each handshake.
//
// With an empty serverName the server must prove to be the host that is
// dialled, as usual, but the CA bundle is the one of this moment. Make such a
// configuration again for each new client.
func (id *Identity) ClientTLS(serverName string) *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: serverName,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			now := id.current.Load().tls
			return &now, nil
		},
	}
	if serverName == "" {
		config.RootCAs = id.Pool()
		return config
	}
	// RootCAs cannot change in a configuration that is in use, and a gRPC
	// connection keeps its configuration for as long as the daemon runs. So
	// the library's check is replaced by the same check with the present pool.
	config.InsecureSkipVerify = true
	config.VerifyConnection = func(state tls.ConnectionState) error {
		return verifyServer(state, id.Pool(), serverName)
	}
	return config
}

// verifyServer checks the other end's certificate as crypto/tls does for a
// client: a chain to the pool, for a server, at this time, with this name.
func verifyServer(state tls.ConnectionState, pool *x509.CertPool, name string) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the server shows no certificate")
	}
	options := x509.VerifyOptions{
		Roots:         pool,
		DNSName:       name,
		Intermediates: x509.NewCertPool(),
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	if _, err := state.PeerCertificates[0].Verify(options); err != nil {
		return fmt.Errorf("verify the certificate of %s: %w", name, err)
	}
	return nil
}
