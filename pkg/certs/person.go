package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// A Role is what the owner of a certificate of the daemons' CA may do.
type Role string

// The roles. A certificate of a person has the role in its organization, as
// Kubernetes has groups there; one without such an organization is a node's.
const (
	// Node: the daemon of a machine. It may do whatever the lease and the lease voter
	// record let it do.
	Node Role = "node"
	// Operator: a person who may take the coordinator's lease and give orders.
	Operator Role = "operator"
	// ReadOnly: a person who may ask daemons what they observe, and nothing else.
	ReadOnly Role = "read-only"
)

// The organizations and the common names of persons' certificates.
const (
	operatorOrg    = "etcdadm:operators"
	readOnlyOrg    = "etcdadm:read-only"
	readOnlyPrefix = "etcdadm-read-only-"
	// PersonPrefix begins the name under which an operator holds the lease, so
	// that no person is taken for a node.
	PersonPrefix = "operator-"
)

// Person is the request for the certificate of a person. Its CA is [ManagerCA].
// name follows the rules of node names.
//
// The common name of an operator's begins like a node's, so that daemons older
// than the roles accept it: to them, operators always were nodes. That of a
// read-only one does not, because they would take it for a node too.
func Person(name string, role Role) (Request, error) {
	if err := cluster.NodeName(PersonPrefix + name).Validate(); err != nil {
		return Request{}, fmt.Errorf("the name of a user: %w", err)
	}
	if name == "" {
		return Request{}, errors.New("the name of a user is empty")
	}
	switch role {
	case Operator:
		return Request{CommonName: clientPrefix + PersonPrefix + name, Organization: []string{operatorOrg}, Client: true}, nil
	case ReadOnly:
		return Request{CommonName: readOnlyPrefix + name, Organization: []string{readOnlyOrg}, Client: true}, nil
	}
	return Request{}, fmt.Errorf("%q is not a role of a user; the roles are %s and %s", role, Operator, ReadOnly)
}

// An Owner is whose certificate it is.
type Owner struct {
	// Name is the node's, operator-NAME for an operator and read-only-NAME for a
	// person who may only look.
	Name cluster.NodeName
	Role Role
}

// PeerOwner returns who is at the other end of a connection to a server with
// [Identity.ServerTLS], from the verified certificate.
func PeerOwner(state tls.ConnectionState) (Owner, error) {
	if len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) == 0 {
		return Owner{}, ErrNoPeer
	}
	return OwnerOf(state.VerifiedChains[0][0])
}

// OwnerOf returns whose a certificate of the daemons' CA is. It does not verify
// the certificate.
func OwnerOf(cert *x509.Certificate) (Owner, error) {
	operator := slices.Contains(cert.Subject.Organization, operatorOrg)
	readOnly := slices.Contains(cert.Subject.Organization, readOnlyOrg)
	switch {
	case operator && readOnly:
		return Owner{}, fmt.Errorf("%w: it is both an operator's and a read-only certificate", ErrNoPeer)
	case readOnly:
		name, ok := strings.CutPrefix(cert.Subject.CommonName, readOnlyPrefix)
		if !ok {
			return Owner{}, fmt.Errorf("%w: its common name is %q", ErrNoPeer, cert.Subject.CommonName)
		}
		return owner("read-only-"+name, ReadOnly)
	case operator:
		name, ok := strings.CutPrefix(cert.Subject.CommonName, clientPrefix)
		if !ok || !strings.HasPrefix(name, PersonPrefix) {
			return Owner{}, fmt.Errorf("%w: its common name is %q", ErrNoPeer, cert.Subject.CommonName)
		}
		return owner(name, Operator)
	}
	node, err := NodeOf(cert)
	if err != nil {
		return Owner{}, err
	}
	return Owner{node, Node}, nil
}

func owner(name string, role Role) (Owner, error) {
	n := cluster.NodeName(name)
	if err := n.Validate(); err != nil {
		return Owner{}, fmt.Errorf("%w: %w", ErrNoPeer, err)
	}
	return Owner{n, role}, nil
}
