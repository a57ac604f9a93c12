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
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// FromFiles returns the spec with what it does not say taken from the
// certificates in its directory: the name from their common names, and the
// address from the one of the peer's certificate that is not loopback, if
// there is just one. What they do not show stays empty.
func (s MachineSpec) FromFiles() MachineSpec {
	for _, pair := range MachinePairs() {
		chain, _, _ := readPair(s.Dir, pair)
		if len(chain) == 0 {
			continue
		}
		cert := chain[0]
		name := cluster.NodeName(strings.TrimSuffix(cert.Subject.CommonName, clientSuffix(pair)))
		if s.Name == "" && name.Validate() == nil {
			s.Name = name
		}
		if s.Address == "" && pair == PeerPair {
			s.Address = soleAddress(cert)
		}
	}
	return s
}

// NamesIn returns the host names and addresses in the certificate of a pair in a
// directory, none where none can be read.
func NamesIn(dir, pair string) []string {
	chain, _, _ := readPair(dir, pair)
	if len(chain) == 0 {
		return nil
	}
	return slices.Concat(chain[0].DNSNames, ipStrings(chain[0].IPAddresses))
}

// ForeignPairs returns the names of those pairs (of all, where none is named) whose
// certificate is valid now, and which no CA in ca.crt has issued. Where ca.crt is of
// another cluster, certificates that are issued in their place are accepted by no member
// of this one.
func (s MachineSpec) ForeignPairs(pairs []string, now time.Time) []string {
	if len(pairs) == 0 {
		pairs = MachinePairs()
	}
	ca, _ := checkCA(s.Dir, now)
	return slices.DeleteFunc(slices.Clone(pairs), func(name string) bool {
		chain, _, _ := readPair(s.Dir, name)
		return len(chain) == 0 || now.Before(chain[0].NotBefore) || now.After(chain[0].NotAfter) ||
			ca.untrusted(chain, now) == ""
	})
}

// clientSuffix is what the common name of a pair has after the machine's name.
func clientSuffix(pair string) string {
	switch pair {
	case EtcdctlPair:
		return etcdctlSuffix
	case APIServerPair:
		return apiServerSuffix
	}
	return ""
}

func soleAddress(c *x509.Certificate) string {
	var found []string
	for _, text := range ipStrings(c.IPAddresses) {
		if ip, err := netip.ParseAddr(text); err == nil && !ip.IsLoopback() {
			found = append(found, text)
		}
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// copied returns the request for a certificate like the present one of a pair,
// with the names of the spec besides those that it has. Where no certificate
// can be read, the spec has to say everything.
func (s MachineSpec) copied(pair string) (Request, error) {
	chain, _, _ := readPair(s.Dir, pair)
	full := s.FromFiles()
	if len(chain) == 0 {
		requests, _, err := full.requests()
		if err != nil {
			return Request{}, fmt.Errorf("%s has to be issued again: %w", pairFile(s.Dir, pair, ".crt"), err)
		}
		return requests[slices.Index(MachinePairs(), pair)].Request, nil
	}
	cert := chain[0]
	if want := string(s.Name) + clientSuffix(pair); s.Name != "" && cert.Subject.CommonName != want {
		return Request{}, &FileError{
			File:    pairFile(s.Dir, pair, ".crt"),
			Problem: fmt.Sprintf("%s is of %q, not of %q", pairFile(s.Dir, pair, ".crt"), cert.Subject.CommonName, want),
			Do:      "omit --name; for a new name, move the pair away and run etcdadm init phase certificates",
		}
	}
	dns, ips, err := s.further(pair)
	if err != nil {
		return Request{}, err
	}
	r := Request{
		CommonName: cert.Subject.CommonName, Organization: cert.Subject.Organization,
		DNSNames: cert.DNSNames, IPs: cert.IPAddresses, Lifetime: s.lifetime(), RSA: s.RSA, like: cert,
	}
	// etcd's gateway calls the member with the server's certificate.
	r.Client = true
	r.Server = pair == ServerPair || pair == PeerPair || slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	return r.plus(dns, ips), nil
}

// plus returns the request with further names.
func (r Request) plus(dns []string, ips []net.IP) Request {
	for _, d := range dns {
		if !slices.ContainsFunc(r.DNSNames, func(have string) bool { return strings.EqualFold(have, d) }) {
			r.DNSNames = append(slices.Clip(r.DNSNames), d)
		}
	}
	for _, ip := range ips {
		if !slices.ContainsFunc(r.IPs, ip.Equal) {
			r.IPs = append(slices.Clip(r.IPs), ip)
		}
	}
	return r
}

// further returns the names that the spec says of a pair.
func (s MachineSpec) further(pair string) (dns []string, ips []net.IP, err error) {
	var names []string
	switch pair {
	case ServerPair:
		names = s.ServerSANs
	case PeerPair:
		names = s.PeerSANs
	default:
		return nil, nil, nil
	}
	if s.Address != "" {
		names = append([]string{s.Address}, names...)
	}
	var n sans
	return n.split(pair, names)
}

// A Renewed says what became of a pair.
type Renewed struct {
	Name string `json:"name"`
	// Before is the end of the old certificate, zero if there was none.
	Before   time.Time `json:"before,omitzero"`
	NotAfter time.Time `json:"notAfter"`
	// Warning is of use to a person, empty for none.
	Warning string `json:"warning,omitempty"`
}

// RenewFiles issues new certificates for pairs, for all of them if none is
// named. Subject, names and usage are those of the present certificates; the
// spec's Address, ServerSANs and PeerSANs come to them. Of the spec only Dir
// must be set; a Name that is set must be that of the certificates. The keys
// stay, and a running etcd shows the new certificates from the next handshake
// on.
//
// A pair that cannot be renewed does not keep the others from it. With an
// external CA the error is an *[ExternalCAError].
func RenewFiles(spec MachineSpec, names []string, now time.Time) (renewed []Renewed, err error) {
	if len(names) == 0 {
		names = MachinePairs()
	}
	if err := knownPairs(names); err != nil {
		return nil, err
	}
	if !exists(spec.Dir) {
		return nil, &NoCAError{Dir: spec.Dir, Problem: missingCA(spec.Dir).Problem}
	}
	err = locked(spec.Dir, func() error {
		ca, err := issuingCA(spec.Dir, names, now)
		if err != nil {
			return err
		}
		var errs []error
		for _, name := range names {
			r, err := spec.renew(ca, name, now)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			renewed = append(renewed, r)
		}
		return errors.Join(errors.Join(errs...), hostfs.SyncDir(spec.Dir))
	})
	return renewed, err
}

// issuingCA returns the CA with its key; names are what it is wanted for.
func issuingCA(dir string, names []string, now time.Time) (*CA, error) {
	ca, check := checkCA(dir, now)
	switch check.State {
	case PairOK:
		return ca.ca, nil
	case PairMissing:
		return nil, &NoCAError{Dir: dir, Problem: check.Problem}
	case PairExternal:
		return nil, &ExternalCAError{Dir: dir, Problems: []string{"it would have to issue " + strings.Join(names, ", ")}}
	}
	return nil, caProblem(dir, check)
}

func (s MachineSpec) renew(ca *CA, name string, now time.Time) (Renewed, error) {
	r := Renewed{Name: name}
	if chain, _, _ := readPair(s.Dir, name); len(chain) > 0 {
		r.Before = chain[0].NotAfter.UTC()
	}
	request, err := s.copied(name)
	if err != nil {
		return r, err
	}
	s.Owner = s.keyOwner()
	cert, err := s.issueOne(ca, name, request, now)
	if err != nil {
		return r, err
	}
	r.NotAfter = cert.NotAfter.UTC()
	if r.NotAfter.Equal(ca.Cert.NotAfter) {
		r.Warning = fmt.Sprintf("the CA itself expires on %s: replace it with etcdadm certs rotate-ca", day(ca.Cert.NotAfter))
	}
	return r, nil
}

// keyOwner returns who runs etcd: as the spec says, or whose the keys of server
// and peer are.
func (s MachineSpec) keyOwner() *FileOwner {
	if s.Owner != nil {
		return s.Owner
	}
	for _, name := range []string{ServerPair, PeerPair} {
		if o := ownerOf(pairFile(s.Dir, name, ".key")); o != nil && o.UID != 0 {
			return o
		}
	}
	return nil
}

func knownPairs(names []string) error {
	for _, name := range names {
		if !slices.Contains(MachinePairs(), name) {
			return fmt.Errorf("there is no certificate %q; there are %s", name, strings.Join(MachinePairs(), ", "))
		}
	}
	return nil
}
