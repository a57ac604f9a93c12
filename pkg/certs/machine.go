package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// The names of the pairs in the PKI directory of a machine that is run by hand:
// files with these names and .crt and .key. They are those of the existing
// etcdadm; kubeadm and Cluster API rely on the last two.
const (
	MachineCA       = "ca"
	ServerPair      = "server"
	PeerPair        = "peer"
	EtcdctlPair     = "etcdctl-etcd-client"
	APIServerPair   = "apiserver-etcd-client"
	etcdctlSuffix   = "-etcdctl"
	apiServerSuffix = "-kube-apiserver-etcd-client"
)

// MastersGroup is the organization of the client certificates, as kubeadm has
// it.
const MastersGroup = "system:masters"

// machineCAName is the common name of the CA, and a DNS name in it.
const machineCAName = "etcd"

// The lifetimes where a [MachineSpec] does not say, those of the existing
// etcdadm.
const (
	MachineLifetime   = 365 * 24 * time.Hour
	MachineCALifetime = 3650 * 24 * time.Hour
)

// MachinePairs returns the names of the pairs that a CA issues for a machine,
// in the order in which they are shown and issued.
func MachinePairs() []string {
	return []string{ServerPair, PeerPair, EtcdctlPair, APIServerPair}
}

// What a [MachineSpec] does not say although certificates need it.
var (
	ErrNoName    = errors.New("the member's name is missing")
	ErrNoAddress = errors.New("the machine's address is missing")
)

// A FileOwner is a user and a group of this machine.
type FileOwner struct{ UID, GID int }

// A MachineSpec says what the certificates of one machine must say.
type MachineSpec struct {
	// Dir has the pairs; it is made with mode 0755, certificates with 0644 and
	// keys with 0600.
	Dir  string
	Name cluster.NodeName
	// Address is the IP address of the machine, in the certificates of server and
	// peer.
	Address string
	// ServerSANs and PeerSANs are further host names and IP addresses.
	ServerSANs, PeerSANs []string
	// RSA asks for new keys of RSA 2048 instead of ECDSA P-256. Keys that are
	// there stay in use.
	RSA bool
	// Serving is the kind of the keys that the pairs of etcd itself must have, since its
	// cipher suites are for no other: x509.RSA or x509.ECDSA. A key of the other kind is
	// replaced. Zero takes both.
	Serving x509.PublicKeyAlgorithm
	// Lifetime and CALifetime are [MachineLifetime] and [MachineCALifetime] for
	// zero.
	Lifetime, CALifetime time.Duration
	// Owner runs etcd: the keys of server and peer are his. With nil their owner
	// is not checked.
	Owner *FileOwner

	// write stands in for writing files in tests.
	write WriteFunc
}

// Validate reports what is wrong with the spec itself.
func (s MachineSpec) Validate() error {
	_, _, err := s.requests()
	return err
}

// Warnings reports names that the certificates say in another way than the
// spec, or not at all.
func (s MachineSpec) Warnings() []string {
	_, warnings, _ := s.requests() // an error is Validate's
	return warnings
}

// A machineRequest is the request of one pair.
type machineRequest struct {
	Request
	name string
	// desired are names that a certificate issued here has, but which one that is
	// there may lack.
	desired []string
}

// requests returns what each pair must say, in the order of [MachinePairs].
func (s MachineSpec) requests() ([]machineRequest, []string, error) {
	if err := s.check(); err != nil {
		return nil, nil, err
	}
	name := string(s.Name)
	var names sans
	own := names.host(name)
	base := Request{CommonName: name, Server: true, Client: true, Lifetime: s.lifetime(), RSA: s.RSA, keys: s.Serving}
	if s.Serving != x509.UnknownPublicKeyAlgorithm {
		base.RSA = s.Serving == x509.RSA
	}
	server, peer := base, base
	var err error
	if server.DNSNames, server.IPs,
		err = names.split("server",
		slices.Concat(own, []string{"localhost", s.Address, "127.0.0.1", "::1"}, s.ServerSANs)); err != nil {
		return nil, nil, err
	}
	if peer.DNSNames, peer.IPs,
		err = names.split("peer", slices.Concat(own, []string{s.Address, "127.0.0.1", "::1"}, s.PeerSANs)); err != nil {
		return nil, nil, err
	}
	client := func(suffix string) Request {
		return Request{CommonName: name + suffix, Organization: []string{MastersGroup}, Client: true, Lifetime: s.lifetime(),
			RSA: s.RSA}
	}
	return []machineRequest{
		{server, ServerPair, unrequested(s.ServerSANs, s.Address, name, "localhost", "::1")},
		{peer, PeerPair, unrequested(s.PeerSANs, s.Address, name, "127.0.0.1", "::1")},
		{client(etcdctlSuffix), EtcdctlPair, nil},
		{client(apiServerSuffix), APIServerPair, nil},
	}, names.warnings, nil
}

// unrequested returns which of some names nobody has asked for.
func unrequested(asked []string, address string, names ...string) []string {
	var n sans
	dns, ips, err := n.split("", append([]string{address}, asked...))
	if err != nil { // which another split shows
		return nil
	}
	var own []string
	for _, name := range names {
		own = append(own, strings.ToLower(name))
	}
	return without(own, sanTexts(dns, ipStrings(ips)))
}

func (s MachineSpec) check() error {
	if s.Name == "" {
		return fmt.Errorf("certificates: %w", ErrNoName)
	}
	if err := s.Name.Validate(); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	ip, err := netip.ParseAddr(s.Address)
	switch {
	case s.Address == "":
		return fmt.Errorf("certificates of %s: %w", s.Name, ErrNoAddress)
	case err != nil:
		return fmt.Errorf("certificates of %s: the machine's address %q is not an IP address", s.Name, s.Address)
	case ip.IsUnspecified():
		return fmt.Errorf("certificates of %s: %s is not an address to connect to; give one of the machine's own", s.Name,
			s.Address)
	case s.Lifetime < 0 || s.CALifetime < 0:
		return fmt.Errorf("certificates of %s: a lifetime is negative", s.Name)
	}
	return nil
}

func (s MachineSpec) lifetime() time.Duration {
	if s.Lifetime == 0 {
		return MachineLifetime
	}
	return s.Lifetime
}

func (s MachineSpec) caLifetime() time.Duration {
	if s.CALifetime == 0 {
		return MachineCALifetime
	}
	return s.CALifetime
}

// owner returns whose the key of a pair is: etcd reads two of them.
func (s MachineSpec) owner(pair string) *FileOwner {
	if pair == ServerPair || pair == PeerPair {
		return s.Owner
	}
	return nil
}

// sans sorts names into host names and addresses, and collects what is to be
// said about them.
type sans struct{ warnings []string }

func (n *sans) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(n.warnings, text) {
		n.warnings = append(n.warnings, text)
	}
}

// host returns the member's name as a host name, nothing if it cannot be one.
//
// crypto/x509 takes underscores, and compares letters without case, with small
// ones on the side of the certificate in all its versions. What no host can be
// called ("a..b") is of no use in a certificate.
func (n *sans) host(name string) []string {
	if !hostName(name) {
		n.warn("%q is not a valid host name: the certificates name the machine by its address only", name)
		return nil
	}
	return []string{name}
}

// split returns the host names in small letters, and the addresses; both
// without repetition.
func (n *sans) split(pair string, names []string) (dns []string, ips []net.IP, err error) {
	for _, name := range names {
		if addr, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
			ip := net.IP(addr.WithZone("").Unmap().AsSlice())
			if !slices.ContainsFunc(ips, ip.Equal) {
				ips = append(ips, ip)
			}
			continue
		}
		if !hostName(strings.TrimPrefix(name, "*.")) {
			return nil, nil, fmt.Errorf(
				"certificate %s: %q is neither a host name nor an IP address (no scheme, no port; names with other letters in "+
					"their xn-- form)", pair, name)
		}
		small := strings.ToLower(name)
		if small != name {
			n.warn("the name %q is in the certificates as %q: host names are compared without regard to case", name, small)
		}
		if strings.Contains(small, "_") {
			n.warn("the name %q has an underscore: etcd and the Kubernetes API server accept that in certificates, some "+
				"other clients do not; they can use the address", name)
		}
		if !slices.Contains(dns, small) {
			dns = append(dns, small)
		}
	}
	return dns, ips, nil
}

// hostName reports whether crypto/x509 takes name for one: labels of letters,
// digits, '-' (not in front) and '_'.
func hostName(name string) bool {
	if len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' {
			return false
		}
		for _, r := range label {
			switch {
			case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			default:
				return false
			}
		}
	}
	return true
}
