package etcdconf

import (
	"net/url"
	"strconv"
	"strings"
)

// ClientPorts returns the ports at which an etcd with the environment, lines of NAME=VALUE
// of which the last counts, takes clients. What is no URL with a port has none.
func ClientPorts(env []string) (ports []uint16) {
	for _, line := range env {
		urls, ok := strings.CutPrefix(line, "ETCD_LISTEN_CLIENT_URLS=")
		if !ok {
			continue
		}
		ports = nil
		for _, text := range strings.Split(urls, ",") {
			if u, err := url.Parse(text); err == nil {
				if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
					ports = append(ports, uint16(n))
				}
			}
		}
	}
	return ports
}
