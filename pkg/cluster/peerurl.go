package cluster

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// SharePeerURL reports whether a URL of a means the same address as one of b,
// however the two are written.
func SharePeerURL(a, b []string) bool {
	return slices.ContainsFunc(a, func(u string) bool {
		return slices.ContainsFunc(b, func(v string) bool { return u == v || NormalURL(u) == NormalURL(v) })
	})
}

// NormalURL returns u in the one form of all that mean the same address: scheme
// and host in lower case, the port always there, and IP addresses as netip
// writes them. What is no URL is returned as it is.
func NormalURL(u string) string {
	p, err := url.Parse(strings.TrimSpace(u))
	if err != nil || p.Hostname() == "" {
		return u
	}
	scheme, host, port := strings.ToLower(p.Scheme), strings.ToLower(p.Hostname()), p.Port()
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	} else {
		host = strings.TrimSuffix(host, ".")
	}
	switch {
	case port != "":
		port = strings.TrimLeft(port[:len(port)-1], "0") + port[len(port)-1:]
	case scheme == "https":
		port = "443"
	case scheme == "http":
		port = "80"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + strings.TrimSuffix(p.Path, "/")
}

// SecureURLs reports whether any of the URLs has TLS.
func SecureURLs(urls []string) bool {
	return slices.ContainsFunc(urls, func(u string) bool { return strings.HasPrefix(strings.ToLower(u), "https:") })
}

// Keyless returns the members that have no keys for their peers, as far as their nodes
// report, by name: they could not call one that has TLS. One whose node reports nothing has
// keys if others call it with TLS.
func (o Observation) Keyless() (names []NodeName) {
	for _, m := range o.Members {
		keys := SecureURLs(m.PeerURLs)
		for _, n := range o.Nodes {
			if n.Name == m.Name && n.Assigned != nil {
				keys = n.PeerKeys
			}
		}
		if !keys {
			names = append(names, cmp.Or(m.Name, NodeName(m.ID.String())))
		}
	}
	slices.Sort(names)
	return names
}
