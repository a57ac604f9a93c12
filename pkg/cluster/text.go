package cluster

import (
	"fmt"
	"slices"
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

// SeatNames returns the names of the seats, sorted.
func SeatNames(seats []Seat) []NodeName {
	list := make([]NodeName, len(seats))
	for i, s := range seats {
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
