package rpc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	listening "github.com/etcdadm/etcdadm/pkg/coordination/listen"
	"github.com/etcdadm/etcdadm/pkg/coordination/rpc"
	"github.com/etcdadm/etcdadm/pkg/testing/testwait"
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

// A flood of connections that prove nothing leaves room for who proves something,
// and is closed when its time is over.
func TestAFloodOfStrangersLeavesRoomForPeers(t *testing.T) {
	ca := newCA(t)
	h := &handler{}
	// The flood stands until the peers have got through, also on a busy machine.
	const handshake = 30 * time.Second
	s, err := rpc.NewServer(rpc.ServerOptions{
		Name: "b", Cluster: "main", Handler: h, TLS: ca.server("b"), Identify: identify,
	}.WithHandshake(handshake))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limits := rpc.PortLimits
	var dropped atomic.Int64
	limits.Dropped = func(string) { dropped.Add(1) }
	done := make(chan error)
	go func() { done <- s.Serve(listening.New(raw, limits)) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		s.Stop(ctx)
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	var flood []net.Conn
	for i := range 600 {
		source := fmt.Sprintf("127.0.7.%d", 1+i%20) // 20 addresses: more than there is room for
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}, Timeout: 10 * time.Second}
		if c, err := d.DialContext(t.Context(), "tcp4", raw.Addr().String()); err == nil {
			flood = append(flood, c)
		}
	}
	for range 20 { // each with a connection of its own, while the flood stands
		p := rpc.NewPool(ca.client(clientPrefix + "a"))
		_, err := p.Hello(short(t), raw.Addr().String())
		if cerr := p.Close(); err != nil || cerr != nil {
			t.Fatalf("a peer does not get through: %v, %v", err, cerr)
		}
	}
	if n := int(dropped.Load()); n < 600-limits.Fresh {
		t.Errorf("of 600 connections %d were dropped", n)
	}
	for _, c := range flood {
		_ = c.SetReadDeadline(time.Now().Add(testwait.Limit))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("one that proves nothing stays open")
		}
		_ = c.Close()
	}
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
