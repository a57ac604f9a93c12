package cluster

import (
	"fmt"
	"strings"
)

// MarshalText writes a seat as name=url,url: the form of a command-line flag.
func (s Seat) MarshalText() ([]byte, error) {
	return []byte(string(s.Name) + "=" + strings.Join(s.PeerURLs, ",")), nil
}

// UnmarshalText reads what MarshalText wrote.
func (s *Seat) UnmarshalText(b []byte) error {
	name, urls, ok := strings.Cut(string(b), "=")
	if !ok || name == "" || urls == "" {
		return fmt.Errorf("%q is not of the form NAME=URL,URL", b)
	}
	*s = Seat{Name: NodeName(name), PeerURLs: strings.Split(urls, ",")}
	return s.Name.Validate()
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
