package etcdclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// handshake checks whether both sides accept each other's certificates. It
// reports whether the reason is found.
func (e *EndpointError) handshake(ctx context.Context, conn net.Conn, u *url.URL, config *tls.Config) bool {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	} else {
		config = config.Clone()
	}
	config.NextProtos = []string{"h2"}
	if config.ServerName == "" {
		config.ServerName = u.Hostname()
	}
	c := tls.Client(conn, config)
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	err := c.HandshakeContext(ctx)
	if err == nil {
		// With TLS 1.3 the server says what it thinks of our certificate when we
		// believe to be done. If it likes it, its first words are those of HTTP/2.
		_, err = c.Read(make([]byte, 1))
	}
	switch {
	case err == nil, isTimeout(err):
		return false
	case e.refusedByServer(err, config), e.ours(err, config):
		e.Refused = true
		return true
	}
	e.Text = "the TLS handshake fails: " + err.Error()
	e.Next = "is this etcd's client port? A proxy or another program may answer there"
	return true
}

// refusedByServer explains what is wrong with the server's certificate.
func (e *EndpointError) refusedByServer(err error, config *tls.Config) bool {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		record  tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknown):
		issuer := "an unknown CA"
		if unknown.Cert != nil {
			issuer = fmt.Sprintf("%q", unknown.Cert.Issuer.CommonName)
		}
		e.Text = fmt.Sprintf("its certificate was issued by %s, which is not in this machine's CA file", issuer)
		e.Next = "use the ca.crt of that cluster: --cacert, or --certs-dir"
	case errors.As(err, &name):
		e.Text = fmt.Sprintf("its certificate is not for %s, but for %s", name.Host, names(name.Certificate))
		e.Next = "use one of these names, or issue the server's certificate again with the missing one: etcdadm certs " +
			"renew server"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		e.Text, e.Clock = "its certificate is "+validity(invalid.Cert, config), true
		e.Next = "check the clocks of both machines; on that machine: etcdadm certs check-expiration, etcdadm certs renew"
	case errors.As(err, &invalid):
		e.Text = "its certificate is rejected: " + invalid.Error()
		e.Next = "on that machine: etcdadm certs check-expiration"
	case errors.As(err, &record):
		e.Text = "it does not speak TLS"
		e.Next = "if that is intended, use http:// and --insecure"
	default:
		return false
	}
	return true
}

// ours explains why the server does not accept the client's certificate.
func (e *EndpointError) ours(err error, config *tls.Config) bool {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return false
	}
	e.Code = "refused"
	// An etcd that was built with an earlier Go calls each bad, whatever is wrong with it.
	text := op.Err.Error()
	e.Clock = strings.HasSuffix(text, "bad certificate") || strings.HasSuffix(text, "expired certificate")
	e.Next = "give a client certificate of the cluster's CA, with --cert and --key or --certs-dir; etcdadm certs " +
		"check-expiration"
	leaf := Shown(config)
	switch {
	case leaf == nil:
		e.Text = "it asks for a client certificate, but none is given"
	case !strings.Contains(op.Err.Error(), "certificate"):
		e.Text = fmt.Sprintf("it ends the handshake: %v", op.Err)
	default:
		e.Text = fmt.Sprintf("it rejects the client certificate %q of the CA %q, which is %s (%v)",
			leaf.Subject.CommonName, leaf.Issuer.CommonName, validity(leaf, config), op.Err)
	}
	return true
}

// Shown returns the certificate that a client with this configuration shows, nil if there is none.
func Shown(config *tls.Config) *x509.Certificate {
	if config == nil {
		return nil
	}
	var pair *tls.Certificate
	if len(config.Certificates) > 0 {
		pair = &config.Certificates[0]
	} else if config.GetClientCertificate != nil {
		// It gives the certificate whatever is asked for; an error means none.
		pair, _ = config.GetClientCertificate(&tls.CertificateRequestInfo{Version: tls.VersionTLS13})
	}
	if pair == nil || len(pair.Certificate) == 0 {
		return nil
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil
	}
	return leaf
}

// validity says in words whether c is valid by the clock of the configuration.
func validity(c *x509.Certificate, config *tls.Config) string {
	now := time.Now()
	if config.Time != nil {
		now = config.Time()
	}
	switch {
	case now.After(c.NotAfter):
		return "expired since " + c.NotAfter.UTC().Format(time.RFC3339)
	case now.Before(c.NotBefore):
		return "not valid before " + c.NotBefore.UTC().Format(time.RFC3339)
	}
	return "valid until " + c.NotAfter.UTC().Format(time.RFC3339)
}

// names are the hosts that a certificate is for.
func names(c *x509.Certificate) string {
	list := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		list = append(list, ip.String())
	}
	if len(list) == 0 {
		return "no host"
	}
	return strings.Join(list, ", ")
}
