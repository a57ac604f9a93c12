package cluster

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// MarshalText writes a place as name=url,url: the form of a command-line flag.
func (s InitialMember) MarshalText() ([]byte, error) {
	return []byte(string(s.Name) + "=" + strings.Join(s.PeerURLs, ",")), nil
}

// UnmarshalText reads what MarshalText wrote.
func (s *InitialMember) UnmarshalText(b []byte) error {
	name, urls, ok := strings.Cut(string(b), "=")
	if !ok || name == "" || urls == "" {
		return fmt.Errorf("%q is not of the form NAME=URL,URL", b)
	}
	*s = InitialMember{Name: NodeName(name), PeerURLs: strings.Split(urls, ",")}
	return s.Name.Validate()
}

// Validate reports why nobody can sit on s.
func (s InitialMember) Validate() error {
	if err := s.Name.Validate(); err != nil {
		return err
	}
	if len(s.PeerURLs) == 0 {
		return fmt.Errorf("%s has no peer URL", s.Name)
	}
	for _, u := range s.PeerURLs {
		if err := ValidatePeerURL(u); err != nil {
			return err
		}
	}
	return nil
}

// ValidatePeerURL reports why u cannot be a peer URL: http or https, a host
// and a port, and nothing else, as etcd demands (types.NewURLs). A comma would
// end the URL in etcd's initial-cluster syntax.
func ValidatePeerURL(u string) error {
	p, err := url.Parse(u)
	switch {
	case err != nil:
		return fmt.Errorf("peer URL %q cannot be read", u)
	case p.Scheme != "http" && p.Scheme != "https":
		return fmt.Errorf("peer URL %q does not begin with http:// or https://", u)
	case p.Hostname() == "" || p.Port() == "" || strings.Contains(u, ","):
		return fmt.Errorf("peer URL %q is not of the form https://HOST:PORT", u)
	case u != p.Scheme+"://"+p.Host:
		return fmt.Errorf("peer URL %q has more than a host and a port", u)
	}
	return nil
}

// MarshalText writes an entry as address=name.
func (e HostEntry) MarshalText() ([]byte, error) { return []byte(e.Address + "=" + e.Name), nil }

// UnmarshalText reads what MarshalText wrote.
func (e *HostEntry) UnmarshalText(b []byte) error {
	address, name, ok := strings.Cut(string(b), "=")
	if !ok || address == "" || name == "" {
		return fmt.Errorf("%q is not of the form ADDRESS=NAME", b)
	}
	*e = HostEntry{Address: address, Name: name}
	return nil
}

// Validate reports why e cannot be a line of a hosts file: one address and one
// name, which cannot begin another line or a comment.
func (e HostEntry) Validate() error {
	bad := func(r rune) bool { return r == '#' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	// An IPv6 address may have a zone, which may be anything.
	if _, err := netip.ParseAddr(e.Address); err != nil || strings.ContainsFunc(e.Address, bad) {
		return fmt.Errorf("address %q is not an IP address", e.Address)
	}
	if e.Name == "" || strings.ContainsFunc(e.Name, bad) {
		return fmt.Errorf("host name %q is not one printable word", e.Name)
	}
	return nil
}

// InitialMemberNames returns the names of the initial members, sorted.
func InitialMemberNames(initialMembers []InitialMember) []NodeName {
	list := make([]NodeName, len(initialMembers))
	for i, s := range initialMembers {
		list[i] = s.Name
	}
	slices.Sort(list)
	return list
}

// Pause returns the oldest request to leave the cluster alone; ok is false
// where there is none.
func (s Store) Pause() (r Request, ok bool) {
	for _, r := range s.Requests {
		if r.Kind == RequestPause {
			return r, true
		}
	}
	return Request{}, false
}
