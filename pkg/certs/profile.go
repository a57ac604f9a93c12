package certs

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
)

// The common names with which daemons of a node show who they are.
const (
	serverPrefix = "etcd-manager-server-"
	clientPrefix = "etcd-manager-client-"
)

// ManagerServerName returns the name in the certificate of the daemon of a
// node, which those who connect to it verify.
func ManagerServerName(node cluster.NodeName) string { return serverPrefix + string(node) }

// ManagerServer is the request for the certificate with which the daemon of a
// node serves. Its CA is [ManagerCA].
func ManagerServer(node cluster.NodeName) Request {
	name := ManagerServerName(node)
	return Request{CommonName: name, DNSNames: []string{name}, Server: true}
}

// ManagerClient is the request for the certificate with which the daemon of a
// node calls others. Its CA is [ManagerCA].
func ManagerClient(node cluster.NodeName) Request {
	return Request{CommonName: clientPrefix + string(node), Client: true}
}

// EtcdPeer is the request for the certificate with which a member talks to its
// peers: for its name, the hosts of its peer URLs, its addresses and loopback.
// Its CA is [PeersCA].
func EtcdPeer(member cluster.NodeName, urls cluster.URLs, addresses ...net.IP) (Request, error) {
	r := Request{CommonName: string(member), DNSNames: []string{string(member)}, IPs: addresses, Client: true,
		Server: true}
	return r.withHosts(urls.Peer)
}

// EtcdServer is the request for the certificate that a member shows to its
// clients: for its name, the hosts of all its URLs and loopback. etcd's
// gateway calls the member with the same certificate, so it is for a client
// too. Its CA is [ClientsCA].
func EtcdServer(member cluster.NodeName, urls cluster.URLs) (Request, error) {
	r := Request{CommonName: string(member), DNSNames: []string{string(member)}, Client: true, Server: true}
	return r.withHosts(slices.Concat(urls.Client, urls.Quarantine, urls.Peer))
}

// EtcdClient is the request for a certificate to call etcd with. Its CA is
// [ClientsCA].
func EtcdClient(commonName string) Request { return Request{CommonName: commonName, Client: true} }

// EtcdClientName returns the common name with which the daemon of a node calls
// etcd.
func EtcdClientName(node cluster.NodeName) string { return "etcd-manager-" + string(node) }

// withHosts adds the hosts of the URLs and the loopback addresses to r, and
// keeps the first of equal names and addresses.
func (r Request) withHosts(urls []string) (Request, error) {
	dns, ips := slices.Clone(r.DNSNames), slices.Clone(r.IPs)
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			return Request{}, fmt.Errorf("certificate for %s: %w", r.CommonName, err)
		}
		host := u.Hostname()
		if host == "" {
			return Request{}, fmt.Errorf("certificate for %s: URL %q has no host", r.CommonName, text)
		}
		if ip := net.ParseIP(host); ip != nil {
			ips = append(ips, ip)
		} else {
			dns = append(dns, host)
		}
	}
	ips = append(ips, net.IPv4(127, 0, 0, 1), net.IPv6loopback)
	r.DNSNames, r.IPs = nil, nil
	for _, d := range dns {
		if !slices.Contains(r.DNSNames, d) {
			r.DNSNames = append(r.DNSNames, d)
		}
	}
	for _, ip := range ips {
		if !slices.ContainsFunc(r.IPs, ip.Equal) {
			r.IPs = append(r.IPs, ip)
		}
	}
	return r, nil
}

// ErrNoPeer is returned by [PeerOwner] and [ServerNode] for a connection whose other end has
// not proved that it is a node, or a person.
var ErrNoPeer = errors.New("the other end has no verified certificate of a node")
