package fleet

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A CertificateError says that the person's certificate does not permit what was
// asked for, or is accepted by no daemon.
type CertificateError struct{ Text, Next string }

func (e *CertificateError) Error() string { return e.Text }

// Hint says how to get one that does.
func (e *CertificateError) Hint() string { return e.Next }

// Kind names the error's exit code.
func (e *CertificateError) Kind() string { return "refused" }

// valid is an error where every daemon would refuse a certificate for its dates.
func valid(leaf *x509.Certificate, now time.Time) error {
	issue := "issue another: etcdadm certs user"
	switch {
	case now.After(leaf.NotAfter):
		return &CertificateError{"the certificate expired at " + leaf.NotAfter.UTC().Format(time.RFC3339), issue}
	case now.Before(leaf.NotBefore):
		return &CertificateError{
			"the certificate is valid from " + leaf.NotBefore.UTC().Format(time.RFC3339), "check this machine's clock",
		}
	}
	return nil
}

// entitled is an error where the certificate permits no orders: no daemon has to
// be asked, and none counts up its term, to learn that.
func (c *Client) entitled() error {
	if c.role != certs.ReadOnly {
		return nil
	}
	return &CertificateError{
		fmt.Sprintf("--cert %s is of the kind %s, which may not give orders", c.o.Cert, c.role),
		"issue a certificate that may: etcdadm certs user --role=operator",
	}
}

// accepted is an error where the daemons answer, and not one takes the
// certificate, or shows one that is trusted: what they would say is not known.
func accepted(obs cluster.Observation) error {
	if slices.ContainsFunc(obs.Nodes, func(n cluster.Node) bool { return n.Reachable }) {
		return nil
	}
	for _, g := range obs.Gaps {
		if strings.HasPrefix(g.Source, "node ") && handshake(g.Text) {
			return notAccepted(g.Text)
		}
	}
	return nil
}

// handshake reports whether a call failed for a certificate, its own or the
// other end's: crypto/tls, crypto/x509 and the daemon's gate say so in text only.
func handshake(text string) bool {
	return slices.ContainsFunc([]string{"tls: ", "x509: ", "the certificate has no name"}, func(s string) bool {
		return strings.Contains(text, s)
	})
}

func notAccepted(text string) error {
	return &CertificateError{
		"no daemon accepts the certificate, or has one that --cacert has issued: " + text,
		"--cert and --cacert must be of this cluster's CA etcd-manager-ca: etcdadm certs user writes both",
	}
}
