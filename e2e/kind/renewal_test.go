//go:build e2e

package kind

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"testing"
	"time"
)

// The ports at which a member serves clients and other members.
var memberPorts = []string{"2379", "2380"}

// served are the certificates that the members show, by their addresses.
type served map[string]*x509.Certificate

// shownByAll returns the certificates that the members of all machines show, each of which is good for the machine.
func (s *byHand) shownByAll(ctx context.Context, t *testing.T) (served, error) {
	t.Helper()
	all := served{}
	for _, m := range s.machines {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(m.must(t, "cat /etc/etcd/pki/ca.crt"))) {
			return nil, fmt.Errorf("%s has no authority", m)
		}
		for _, port := range memberPorts {
			address := net.JoinHostPort(m.address(t), port)
			cert, err := shown(ctx, address, roots)
			if err != nil {
				return nil, err
			}
			all[address] = cert
		}
	}
	return all, nil
}

// shown returns the certificate of a server, which may want one in return: that is not given.
func shown(ctx context.Context, address string, roots *x509.CertPool) (cert *x509.Certificate, err error) {
	d := tls.Dialer{Config: &tls.Config{
		RootCAs: roots, MinVersion: tls.VersionTLS12,
		VerifyConnection: func(s tls.ConnectionState) error { cert = s.PeerCertificates[0]; return nil },
	}}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err == nil {
		err = conn.Close()
	}
	if cert == nil {
		return nil, fmt.Errorf("%s shows no certificate: %w", address, err)
	}
	return cert, nil
}

// certificatesAreRenewed has etcdadm renew all certificates, and makes sure that the members serve with them.
func (s *byHand) certificatesAreRenewed(t *testing.T, w *Writer) {
	before, err := s.shownByAll(t.Context(), t)
	if err != nil {
		t.Fatal(err)
	}
	failed := w.during(t, "certificates are renewed", func() {
		for _, m := range s.machines {
			s.etcdadm(t, m, "certs renew all")
			s.configure(t, m)
		}
		await(t, "all members serve with new certificates", time.Minute, func(ctx context.Context) error {
			return s.renewed(ctx, t, before)
		})
	})
	serving(t, failed)
	s.healthy(t)
}

// renewed compares the certificates that the members show with those before.
func (s *byHand) renewed(ctx context.Context, t *testing.T, before served) error {
	t.Helper()
	now, err := s.shownByAll(ctx, t)
	if err != nil {
		return err
	}
	for address, cert := range now {
		old := before[address]
		if cert.SerialNumber.Cmp(old.SerialNumber) == 0 {
			return fmt.Errorf("%s serves with the certificate %x of before", address, old.SerialNumber)
		}
		if !cert.NotAfter.After(old.NotAfter) {
			return fmt.Errorf("the certificate of %s ends at %s, and that before at %s", address, cert.NotAfter, old.NotAfter)
		}
	}
	return nil
}
