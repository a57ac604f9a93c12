package rpc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/rpc"
)

// A ca issues certificates in the form of the existing etcd-manager: servers
// and clients have different ones, named for the node.
type ca struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newCA(t *testing.T) *ca {
	t.Helper()
	c := &ca{t: t, pool: x509.NewCertPool()}
	var err error
	if c.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &c.key.PublicKey, c.key)
	if err != nil {
		t.Fatal(err)
	}
	if c.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	c.pool.AddCert(c.cert)
	return c
}

func (c *ca) issue(name string, usage x509.ExtKeyUsage) tls.Certificate {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, &key.PublicKey, c.key)
	if err != nil {
		c.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

const (
	serverPrefix = "etcd-manager-server-"
	clientPrefix = "etcd-manager-client-"
)

func (c *ca) server(name cluster.NodeName) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{c.issue(serverPrefix+string(name), x509.ExtKeyUsageServerAuth)},
		ClientCAs:    c.pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

// client returns what a pool of the node self needs.
func (c *ca) client(cn string) rpc.PoolOptions {
	cert := c.issue(cn, x509.ExtKeyUsageClientAuth)
	return rpc.PoolOptions{
		ClientTLS: func(node cluster.NodeName) *tls.Config {
			conf := &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: c.pool, ServerName: serverPrefix + string(node)}
			if node == "" {
				conf.InsecureSkipVerify = true // the name; the chain is verified here
				conf.VerifyConnection = func(s tls.ConnectionState) error {
					_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: c.pool})
					return err
				}
			}
			return conf
		},
		NameOf: func(s tls.ConnectionState) (cluster.NodeName, error) { return nameIn(s, serverPrefix) },
	}
}

func nameIn(s tls.ConnectionState, prefix string) (cluster.NodeName, error) {
	name, ok := strings.CutPrefix(s.PeerCertificates[0].Subject.CommonName, prefix)
	if !ok {
		return "", errors.New("no node's certificate")
	}
	return cluster.NodeName(name), nil
}

func identify(s tls.ConnectionState) (rpc.Caller, error) {
	switch cn := s.PeerCertificates[0].Subject.CommonName; cn {
	case "operator":
		return rpc.Caller{Name: "operator-alice", Role: rpc.RoleOperator}, nil
	case "read-only":
		return rpc.Caller{Name: "read-only-bob", Role: rpc.RoleReadOnly}, nil
	}
	name, err := nameIn(s, clientPrefix)
	return rpc.Caller{Name: name, Role: rpc.RoleNode}, err
}
