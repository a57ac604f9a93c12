package cluster

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// maxHosts is how many names a hosts file gets at most.
const maxHosts = 1024

// HostName returns the name under which the machine of a node is found: that of
// the node, with the DNS suffix behind it if there is one.
func HostName(node NodeName, suffix string) string {
	if suffix = strings.Trim(suffix, "."); suffix == "" {
		return string(node)
	}
	return string(node) + "." + suffix
}

// A NodeAddress says where a node is: at a host or a host:port.
type NodeAddress struct {
	Node    NodeName
	Address string
}

// Hosts is what a node's own hosts file is written from.
type Hosts struct {
	// Suffix is the DNS suffix. Without one nothing is written.
	Suffix string
	// Sources say where nodes are, the most credible first.
	Sources [][]NodeAddress
	// Members are those that etcd reports, with the URLs that it has on record.
	Members []InitialMember
	// Keep are further nodes whose names are not forgotten.
	Keep []NodeName
	// Before is what was written last. It counts for members, and for nodes to keep,
	// whose addresses nobody reports now.
	Before []HostEntry
}

// Entries returns the entries of the hosts file, by address and name. What is no
// IP address is left out: a hosts file cannot say it.
func (h Hosts) Entries() []HostEntry {
	if strings.Trim(h.Suffix, ".") == "" {
		return nil
	}
	addresses := h.addresses()
	var entries []HostEntry
	add := func(address, name string) {
		e := HostEntry{Address: address, Name: name}
		taken := slices.ContainsFunc(entries, func(o HostEntry) bool { return o.Name == name })
		if len(entries) < maxHosts && !taken && e.Validate() == nil {
			entries = append(entries, e)
		}
	}
	for _, w := range addresses {
		add(w.Address, HostName(w.Node, h.Suffix))
	}
	// Members that were made under another suffix are still looked for by those names.
	for _, m := range h.Members {
		i := slices.IndexFunc(addresses, func(w NodeAddress) bool { return w.Node == m.Name })
		for _, host := range hostsOf(m.PeerURLs) {
			if own := host == string(m.Name) || strings.HasPrefix(host, string(m.Name)+"."); i >= 0 && own {
				add(addresses[i].Address, host)
			}
		}
	}
	slices.SortFunc(entries, func(a, b HostEntry) int {
		return cmp.Or(strings.Compare(a.Address, b.Address), strings.Compare(a.Name, b.Name))
	})
	return entries
}

// addresses returns the IP address of each node that has one.
func (h Hosts) addresses() []NodeAddress {
	var list []NodeAddress
	add := func(node NodeName, host string) {
		known := slices.ContainsFunc(list, func(w NodeAddress) bool { return w.Node == node })
		if ip, err := netip.ParseAddr(host); err == nil && !ip.IsUnspecified() && !known && node.Validate() == nil {
			list = append(list, NodeAddress{node, ip.Unmap().String()})
		}
	}
	for _, source := range h.Sources {
		for _, w := range source {
			add(w.Node, hostOf(w.Address))
		}
	}
	for _, m := range h.Members {
		for _, host := range hostsOf(m.PeerURLs) {
			add(m.Name, host)
		}
	}
	kept := slices.Clone(h.Keep)
	for _, m := range h.Members {
		kept = append(kept, m.Name)
	}
	for _, node := range kept {
		for _, e := range h.Before {
			if e.Name == HostName(node, h.Suffix) {
				add(node, e.Address)
			}
		}
	}
	return list
}

// URLsAt returns client URLs as they lead to the machine at an address, which may have
// a port: those with a name may lead to any member, to none, or resolve nowhere. Those
// with an address, and all where the machine's is not known, stay as they are.
func URLsAt(urls []string, address string) []string {
	ip, err := netip.ParseAddr(hostOf(address))
	if err != nil || ip.IsUnspecified() {
		return urls
	}
	list := slices.Clone(urls)
	for i, text := range list {
		u, err := url.Parse(text)
		if err != nil || u.Port() == "" {
			continue
		}
		if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			u.Host = net.JoinHostPort(ip.Unmap().String(), u.Port())
			list[i] = u.String()
		}
	}
	return list
}

// OwnURLs returns client URLs that lead to m and to no other member of the list. One that
// another member has as well, as that of a load balancer, gets the host of m's peer URL,
// which m's certificate for clients has, too.
func OwnURLs(m Member, list []Member) []string {
	hosts := hostsOf(m.PeerURLs)
	if len(hosts) == 0 {
		return m.ClientURLs
	}
	urls := slices.Clone(m.ClientURLs)
	for i, text := range urls {
		shared := slices.ContainsFunc(list, func(o Member) bool {
			return o.ID != m.ID && slices.Contains(o.ClientURLs, text)
		})
		if u, err := url.Parse(text); shared && err == nil && u.Port() != "" {
			u.Host = net.JoinHostPort(hosts[0], u.Port())
			urls[i] = u.String()
		}
	}
	return urls
}

// hostOf returns the host of what may have a port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.Trim(address, "[]")
}

// hostsOf returns the hosts of URLs.
func hostsOf(urls []string) []string {
	var list []string
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil && u.Hostname() != "" {
			list = append(list, u.Hostname())
		}
	}
	return list
}
