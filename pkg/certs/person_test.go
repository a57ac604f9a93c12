package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cluster"
)

func TestWhoseACertificateIs(t *testing.T) {
	person := func(name string, role certs.Role) certs.Request {
		t.Helper()
		r, err := certs.Person(name, role)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	both := person("alice", certs.Operator)
	both.Organization = append(both.Organization, person("alice", certs.ReadOnly).Organization...)
	promoted := person("bob", certs.ReadOnly) // with an operator's common name
	promoted.CommonName = person("bob", certs.Operator).CommonName
	nodeish := certs.ManagerClient("c") // a node's name in an operator's certificate
	nodeish.Organization = person("x", certs.Operator).Organization
	old := certs.ManagerClient("operator-host-1") // as commands issued for themselves before there were kinds

	now := time.Now()
	ca, err := certs.NewCA(certs.CASpec{CommonName: certs.ManagerCA, Lifetime: time.Hour}, now)
	if err != nil {
		t.Fatal(err)
	}
	cert := func(r certs.Request) *x509.Certificate {
		t.Helper()
		leaf, err := ca.Issue(r, now)
		if err != nil {
			t.Fatal(err)
		}
		return leaf.Cert
	}
	for _, tc := range []struct {
		name    string
		request certs.Request
		owner   cluster.NodeName
		role    certs.Role
	}{
		{"a node", certs.ManagerClient("c"), "c", certs.Node},
		{"an operator", person("alice", certs.Operator), "operator-alice", certs.Operator},
		{"one who may only look", person("bob", certs.ReadOnly), "read-only-bob", certs.ReadOnly},
		{"a command of before", old, "operator-host-1", certs.Node},
		{"both kinds", both, "", ""},
		{"a read-only organization with an operator's name", promoted, "", ""},
		{"an operator with a node's name", nodeish, "", ""},
		{"somebody", certs.Request{CommonName: "somebody", Client: true}, "", ""},
		{"an etcd client", certs.EtcdClient("root"), "", ""},
	} {
		owner, err := certs.OwnerOf(cert(tc.request))
		if (err == nil) != (tc.owner != "") || owner.Name != tc.owner || owner.Role != tc.role {
			t.Errorf("%s: %+v, %v", tc.name, owner, err)
		}
		if err != nil && !errors.Is(err, certs.ErrNoPeer) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	// Daemons older than the roles take an operator for a node, as they always
	// did, and one who may only look for nobody.
	if _, err := certs.NodeOf(cert(person("alice", certs.Operator))); err != nil {
		t.Error(err)
	}
	if n, err := certs.NodeOf(cert(person("bob", certs.ReadOnly))); err == nil {
		t.Errorf("it is taken for node %s", n)
	}
	if _, err := certs.PeerOwner(tls.ConnectionState{}); !errors.Is(err, certs.ErrNoPeer) {
		t.Errorf("a connection without a certificate: %v", err)
	}
	for _, bad := range []string{"", "a/b", "alice bob", strings.Repeat("x", 200)} {
		if r, err := certs.Person(bad, certs.Operator); err == nil {
			t.Errorf("%q got %+v", bad, r)
		}
	}
	if _, err := certs.Person("alice", certs.Node); err == nil {
		t.Error("a person got a node's certificate")
	}
}
