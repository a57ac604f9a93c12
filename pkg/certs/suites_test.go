package certs

import (
	"crypto/x509"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// Where etcd's cipher suites are for keys of one kind, a server with a key of the other is
// reached by nobody who speaks TLS 1.2. Its pairs are issued again, with their names; clients
// may have any key.
func TestKeysThatNoCipherSuiteIsForAreReplaced(t *testing.T) {
	for kind, other := range map[x509.PublicKeyAlgorithm]x509.PublicKeyAlgorithm{
		x509.RSA: x509.ECDSA, x509.ECDSA: x509.RSA,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			s := machine(t)
			mustCreate(t, s)
			s.RSA = other == x509.RSA
			s.ServerSANs = append(s.ServerSANs, "made.before.example")
			mustIssue(t, s, now, MachinePairs()...)
			s.ServerSANs, s.Serving = nil, kind
			for _, l := range ObserveMachine(s, now).Leaves {
				serving := l.Name == ServerPair || l.Name == PeerPair
				if l.OtherKey != serving || serving != strings.Contains(l.Why, other.String()) {
					t.Errorf("%s: %+v", l.Name, l)
				}
			}
			mustIssue(t, s, now, ServerPair, PeerPair)
			for name, want := range map[string]x509.PublicKeyAlgorithm{
				ServerPair: kind, PeerPair: kind, EtcdctlPair: other, APIServerPair: other,
			} {
				if got := certOf(t, s, name).PublicKeyAlgorithm; got != want {
					t.Errorf("%s: the key is %s, want %s", name, got, want)
				}
			}
			if names := certOf(t, s, ServerPair).DNSNames; !slices.Contains(names, "made.before.example") {
				t.Errorf("of its names are left %q", names)
			}
			mustIssue(t, s, now) // nothing
		})
	}
}

// Without the authority's key it cannot be done, and is an error.
func TestKeysThatNoCipherSuiteIsForNeedTheAuthority(t *testing.T) {
	s := machine(t)
	mustCreate(t, s)
	mustIssue(t, s, now, MachinePairs()...)
	if err := os.Remove(s.at("ca.key")); err != nil {
		t.Fatal(err)
	}
	mustIssue(t, s, now) // as they are, they are good
	s.Serving = x509.RSA
	if got := ObserveMachine(s, now).ToIssue(); !slices.Equal(got, []string{ServerPair, PeerPair}) {
		t.Errorf("to be issued are %q", got)
	}
	issued, err := IssueMachine(s, now)
	var external *ExternalCAError
	if !errors.As(err, &external) || len(external.Problems) != 2 || len(issued) > 0 {
		t.Errorf("%q, %v", issued, err)
	}
}
