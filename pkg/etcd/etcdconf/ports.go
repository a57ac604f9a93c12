package etcdconf

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// ClientPorts returns the ports at which an etcd with the environment, lines of NAME=VALUE
// of which the last counts, takes clients. A port at which it takes peers too, at another
// address, is not among them.
func ClientPorts(env []string) (ports []uint16) {
	peers := portsOf(env, "ETCD_LISTEN_PEER_URLS")
	for _, name := range []string{"ETCD_LISTEN_CLIENT_URLS", "ETCD_LISTEN_CLIENT_HTTP_URLS"} {
		for _, port := range portsOf(env, name) {
			if !slices.Contains(peers, port) && !slices.Contains(ports, port) {
				ports = append(ports, port)
			}
		}
	}
	return ports
}

// PeerPorts returns the ports at which such an etcd takes peers, and no clients.
func PeerPorts(env []string) (ports []uint16) {
	clients := slices.Concat(portsOf(env, "ETCD_LISTEN_CLIENT_URLS"), portsOf(env, "ETCD_LISTEN_CLIENT_HTTP_URLS"))
	for _, port := range portsOf(env, "ETCD_LISTEN_PEER_URLS") {
		if !slices.Contains(clients, port) && !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports
}

// portsOf returns the ports of a variable that is a list of URLs. What is no URL with a
// port has none.
func portsOf(env []string, name string) (ports []uint16) {
	for _, line := range env {
		urls, ok := strings.CutPrefix(line, name+"=")
		if !ok {
			continue
		}
		ports = nil
		for text := range strings.SplitSeq(urls, ",") {
			if u, err := url.Parse(strings.TrimSpace(text)); err == nil {
				if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
					ports = append(ports, uint16(n))
				}
			}
		}
	}
	return ports
}
